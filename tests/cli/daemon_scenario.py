"""Commands that call a running daemon, and the server that they call."""

from __future__ import annotations

import contextlib
import json
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from monitor.web.settings import ServerSettings
from tests.cli.command_process import CommandProcess, CommandResult
from tests.web.fake_alerting import FakeAlerting
from tests.web.serving import serving
from tests.web.site import Site


@dataclass
class DaemonClientScenario:
    """The command, and the daemon's server that it calls."""

    site: Site
    config: Path
    run_command: CommandProcess

    @property
    def alerting(self) -> FakeAlerting:
        return self.site.alerting

    async def type(self, *arguments: str) -> CommandResult:
        return await self.run_command(*arguments, config=self.config)

    async def rows(self, *arguments: str) -> Any:
        done = await self.type(*arguments, "--json")
        assert (done.code, done.err) == (0, "")
        return json.loads(done.out)


@contextlib.asynccontextmanager
async def daemon_client(
    folder: Path, run_command: CommandProcess
) -> AsyncIterator[DaemonClientScenario]:
    """Yield the command with the configuration of a server that listens."""
    (folder / "token").write_text("a token")
    async with serving(folder, ServerSettings(listen="127.0.0.1:0", actions=True)) as site:
        config = folder / "monitor.toml"
        config.write_text(
            '[[workspaces]]\nname = "acme"\nurl = "http://127.0.0.1:9"\ntoken_file = "token"\n'
            f'[server]\nlisten = "{site.url.removeprefix("http://")}"\n'
        )
        yield DaemonClientScenario(site, config, run_command)
