"""A daemon among several on one database, as a process; it may be killed and started again."""

from __future__ import annotations

import asyncio
import sys
from asyncio.subprocess import Process
from collections.abc import Mapping
from pathlib import Path

from tests.bench.daemons import SECRET, RunningDaemon
from tests.bench.load import Order
from tests.bench.processes import ended
from tests.servers import free_port

FLOWS = 50


class ClusterDaemon:
    """A daemon with a name, ports and a configuration of its own."""

    def __init__(
        self,
        name: str,
        folder: Path,
        *,
        workspaces: Mapping[str, str],
        requests_per_minute: float,
        storage_url: str,
        lease_seconds: float,
    ) -> None:
        self.name = name
        self._callbacks_port, self._server_port = free_port(), free_port()
        self._config, self._log = folder / "monitor.toml", folder / "log"
        self._process: Process | None = None
        folder.mkdir()
        for file, text in (("token", "token"), ("secret", SECRET)):
            (folder / file).write_text(text)
            (folder / file).chmod(0o600)
        parts = [
            f'[[workspaces]]\nname = "{workspace}"\nurl = "{url}"\n'
            # Large pages, so that the budget of requests lets all runs be known soon.
            'token_file = "token"\npage_size = 1000\n'
            f"[workspaces.poll]\nrequests_per_minute = {requests_per_minute}\n"
            # Thousands of runs wait for their callbacks: no workspace has so many to be read again.
            "reconcile_seconds = 3600\nprogress_seconds = 3600\n"
            '[workspaces.callbacks]\nsecret_file = "secret"\ndetail_wait_seconds = 0.0\n'
            for workspace, url in workspaces.items()
        ]
        parts.append(
            f'[callbacks]\nlisten = "127.0.0.1:{self._callbacks_port}"\n'
            f'[server]\nlisten = "127.0.0.1:{self._server_port}"\n'
            f'[storage]\nurl = "{storage_url}"\n'
            f'daemon = "{name}"\nlease_seconds = {lease_seconds}\n'
            '[log]\nlevel = "warning"\n'
        )
        self._config.write_text("\n".join(parts))

    @property
    def running(self) -> RunningDaemon:
        assert self._process is not None
        return RunningDaemon(
            callbacks_port=self._callbacks_port,
            server_port=self._server_port,
            process_id=self._process.pid,
        )

    @property
    def log(self) -> str:
        return self._log.read_text()

    def check(self) -> None:
        """Raise where it has ended by itself."""
        if self._process is None or self._process.returncode is not None:
            raise RuntimeError(f"the daemon {self.name} has ended:\n{self.log}")

    def order(self, workspace: str, first_id: int) -> Order:
        """Return an order of one callback of a workspace to this daemon."""
        return Order(
            port=self._callbacks_port,
            path=f"/hooks/{workspace}",
            first_id=first_id,
            seconds=0.0,
            count=1,
            connections=1,
            secret=SECRET,
            flows=FLOWS,
        )

    async def start(self) -> None:
        """Return when the process is there; it has yet to get its shards."""
        with self._log.open("ab") as log:
            self._process = await asyncio.create_subprocess_exec(
                *(sys.executable, "-m", "monitor.cli.main", "run", "-c", str(self._config)),
                stdout=log,
                stderr=log,
            )

    async def kill(self) -> None:
        assert self._process is not None
        self._process.kill()
        await self._process.wait()

    async def end(self) -> None:
        """End it in order, where it runs."""
        if self._process is not None:
            await ended(self._process)
