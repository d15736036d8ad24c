"""``api`` against a workspace that a test chooses."""

from __future__ import annotations

import contextlib
import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

from monitor.model.clock import SystemClock
from monitor.sandbox.sandbox import Sandbox
from monitor.sandbox.settings import SandboxSettings, WorldOptions
from tests.cli.command_process import CommandProcess, CommandResult

TOKEN = "made-up-token-3f9a"


def configured(
    folder: Path, url: str, *, token: str = TOKEN, edition: str = "RL", names: tuple[str, ...] = ()
) -> Path:
    """Write a configuration whose workspaces, ``acme`` alone by default, are all this one."""
    (folder / "token").write_text(token)
    parts = [
        f'[[workspaces]]\nname = "{name}"\nurl = "{url}"\ntoken_file = "token"\n'
        f'edition = "{edition}"\n'
        for name in names or ("acme",)
    ]
    path = folder / "monitor.toml"
    path.write_text("\n".join([*parts, f'[storage]\nurl = "sqlite://{folder}/state.db"\n']))
    return path


class ApiScenario:
    """A quiet sandbox and the command that calls it."""

    def __init__(self, sandbox: Sandbox, config: Path, run_command: CommandProcess) -> None:
        self.world = sandbox.world
        self.engine = sandbox.engine
        self.requests: list[tuple[str, dict[str, str]]] = []
        self._config = config
        self._run_command = run_command
        sandbox.on_request(
            lambda operation_id, query: self.requests.append((operation_id, dict(query)))
        )

    async def __call__(self, *arguments: object) -> CommandResult:
        return await self._run_command("api", *map(str, arguments), config=self._config)

    async def answer(self, *arguments: object) -> Any:
        """Return the decoded answer of a call that must succeed without other output."""
        done = await self(*arguments)
        assert (done.code, done.err) == (0, "")
        return json.loads(done.out)


@contextlib.asynccontextmanager
async def api_scenario(
    folder: Path, run_command: CommandProcess, *, options: WorldOptions | None = None
) -> AsyncIterator[ApiScenario]:
    """Run a sandbox in which nothing happens by itself."""
    settings = SandboxSettings(
        traffic=None,
        schedules_fire=False,
        options=options or WorldOptions(),
    )
    sandbox = Sandbox(settings, SystemClock())
    url = await sandbox.start()
    try:
        config = configured(folder, url, token=sandbox.token)
        yield ApiScenario(sandbox, config, run_command)
    finally:
        await sandbox.stop()
