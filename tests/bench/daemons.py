"""The installed command as a process, with runs that it knows before the first callback."""

from __future__ import annotations

import asyncio
import contextlib
import sys
import time
from collections.abc import AsyncIterator, Mapping
from pathlib import Path

import aiohttp
from msgspec import Struct
from prometheus_client.parser import text_string_to_metric_families

from tests.bench.processes import serving
from tests.servers import free_port

SECRET = "a secret of the benchmark"
TOPICS = ("dataprep/v1/+/job_group/+/event/succeeded",)
_START_SECONDS = 30.0
_END_SECONDS = 40.0
_CHECK_SECONDS = 0.2


class RunningDaemon(Struct, frozen=True, kw_only=True):
    """A running daemon."""

    callbacks_port: int
    server_port: int
    process_id: int

    async def page(self, headers: Mapping[str, str] | None = None) -> str:
        """Return the metrics page."""
        async with (
            aiohttp.ClientSession() as session,
            session.get(f"http://127.0.0.1:{self.server_port}/metrics", headers=headers) as answer,
        ):
            return await answer.text()

    async def active_runs(self) -> int:
        """Return the daemon's number of active runs; 0 where it does not answer."""
        with contextlib.suppress(aiohttp.ClientError):
            families = text_string_to_metric_families(await self.page())
            samples = [sample for family in families for sample in family.samples]
            return int(
                sum(sample.value for sample in samples if sample.name == "dataprep_runs_active")
            )
        return 0


@contextlib.asynccontextmanager
async def knowing(
    folder: Path,
    *,
    first_id: int,
    runs: int,
    flows: int = 50,
    broker_port: int | None = None,
    detail_wait_seconds: float | None = None,
) -> AsyncIterator[RunningDaemon]:
    """Run a daemon that knows so many running job groups; ``None`` leaves a default."""
    async with serving("quiet_workspace", str(first_id), str(runs), str(flows)) as port:
        callbacks_port, server_port = free_port(), free_port()
        config = _write(
            folder,
            workspace_port=port,
            callbacks_port=callbacks_port,
            server_port=server_port,
            broker_port=broker_port,
            detail_wait_seconds=detail_wait_seconds,
        )
        with (folder / "log").open("wb") as log:
            process = await asyncio.create_subprocess_exec(
                *(sys.executable, "-m", "monitor.cli.main", "run", "-c", str(config)),
                stdout=log,
                stderr=log,
            )
        try:
            daemon = RunningDaemon(
                callbacks_port=callbacks_port, server_port=server_port, process_id=process.pid
            )
            await _until_known(daemon, runs, folder / "log")
            yield daemon
        finally:
            if process.returncode is None:
                process.terminate()
            async with asyncio.timeout(_END_SECONDS):
                await process.wait()


async def _until_known(daemon: RunningDaemon, runs: int, log: Path) -> None:
    end = time.monotonic() + _START_SECONDS
    while await daemon.active_runs() < runs:
        if time.monotonic() > end:
            raise TimeoutError(f"the daemon does not know its runs:\n{_text(log)}")
        await asyncio.sleep(_CHECK_SECONDS)


def _text(log: Path) -> str:
    return log.read_text()


def _write(
    folder: Path,
    *,
    workspace_port: int,
    callbacks_port: int,
    server_port: int,
    broker_port: int | None,
    detail_wait_seconds: float | None,
) -> Path:
    folder.mkdir()
    (folder / "token").write_text("token")
    (folder / "secret").write_text(SECRET)
    (folder / "secret").chmod(0o600)
    (folder / "token").chmod(0o600)
    wait = "" if detail_wait_seconds is None else f"detail_wait_seconds = {detail_wait_seconds}\n"
    parts = [
        f'[[workspaces]]\nname = "acme"\nurl = "http://127.0.0.1:{workspace_port}"',
        # Large pages, so that the budget of requests lets all runs be known soon.
        'token_file = "token"\npage_size = 1000\n',
        f'[workspaces.callbacks]\nsecret_file = "secret"\n{wait}',
        f'[callbacks]\nlisten = "127.0.0.1:{callbacks_port}"\n',
        f'[server]\nlisten = "127.0.0.1:{server_port}"\n',
        f'[storage]\nurl = "sqlite://{folder}/state.db"\n',
        '[log]\nlevel = "warning"\n',
    ]
    if broker_port is not None:
        parts.append(f'[mqtt]\nurl = "mqtt://127.0.0.1:{broker_port}"\n')
    path = folder / "monitor.toml"
    path.write_text("\n".join(parts))
    return path
