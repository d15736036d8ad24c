"""The installed command as a process, with runs that it knows before the first callback."""

from __future__ import annotations

import asyncio
import contextlib
import sys
import time
from asyncio.subprocess import Process
from collections.abc import AsyncIterator, Mapping, Sequence
from pathlib import Path

import aiohttp
from msgspec import Struct
from prometheus_client.parser import text_string_to_metric_families
from prometheus_client.samples import Sample

from tests.bench.processes import START_SECONDS, ended, serving
from tests.servers import free_port

SECRET = "a secret of the benchmark"
TOPICS = ("dataprep/v1/+/job_group/+/event/succeeded",)
# The daemon's default. With more it reads its workspace sooner, but also the job records of ends.
REQUESTS_PER_MINUTE = 120.0
_CHECK_SECONDS = 0.2
# Reads only ends that are older than its wait, on purpose: it is behind as long as runs come.
_LATE_CONSUMER = "misses/"


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

    async def commits(self) -> float:
        """Return how many transactions the daemon has committed since its start."""
        return await self._value("dataprep_monitor_commit_duration_seconds_count")

    async def active_runs(self) -> int:
        """Return the daemon's number of active runs; 0 where it does not answer."""
        with contextlib.suppress(aiohttp.ClientError):
            return int(await self._value("dataprep_runs_active"))
        return 0

    async def settle(self) -> None:
        """Wait until its consumers have read all events, and it has read all of the workspace."""
        async with asyncio.timeout(START_SECONDS):
            samples = await self._samples()
            while not _is_settled(samples):
                await asyncio.sleep(_CHECK_SECONDS)
                samples = await self._samples()

    async def _value(self, name: str) -> float:
        return sum(sample.value for sample in await self._samples() if sample.name == name)

    async def _samples(self) -> list[Sample]:
        families = text_string_to_metric_families(await self.page())
        return [sample for family in families for sample in family.samples]


def _is_settled(samples: Sequence[Sample]) -> bool:
    backlogs = [
        sample.value
        for sample in samples
        if sample.name == "dataprep_monitor_consumer_backlog"
        and not sample.labels["consumer"].startswith(_LATE_CONSUMER)
    ]
    is_reconciled = any(
        sample.name == "dataprep_monitor_polls_total"
        and sample.labels["poll"] == "reconciliation"
        and sample.labels["outcome"] == "ok"
        for sample in samples
    )
    return is_reconciled and bool(backlogs) and not any(backlogs)


@contextlib.asynccontextmanager
async def knowing(
    folder: Path,
    *,
    first_id: int,
    runs: int,
    flows: int = 50,
    ended_runs: int = 0,
    ended_flows: int = 1,
    requests_per_minute: float = REQUESTS_PER_MINUTE,
    broker_port: int | None = None,
    detail_wait_seconds: float | None = None,
) -> AsyncIterator[RunningDaemon]:
    """Run a daemon that knows so many running job groups, once it has nothing left to do.

    So many flows have them in turns. ``ended_runs`` ended an hour ago, with other ids.
    ``detail_wait_seconds`` ``None`` leaves the default. A test may allow more requests.
    """
    numbers = (first_id, runs, flows, ended_runs, ended_flows)
    async with serving("quiet_workspace", *map(str, numbers)) as workspace:
        callbacks_port, server_port = free_port(), free_port()
        config = _write(
            folder,
            workspace_port=workspace.port,
            callbacks_port=callbacks_port,
            server_port=server_port,
            requests_per_minute=requests_per_minute,
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
            await _until_known(daemon, process, runs, folder / "log")
            await daemon.settle()
            yield daemon
        finally:
            await ended(process)


async def _until_known(daemon: RunningDaemon, process: Process, runs: int, log: Path) -> None:
    end = time.monotonic() + START_SECONDS
    while await daemon.active_runs() < runs:
        if process.returncode is not None or time.monotonic() > end:
            raise RuntimeError(f"the daemon does not know its runs:\n{_text(log)}")
        await asyncio.sleep(_CHECK_SECONDS)


def _text(log: Path) -> str:
    return log.read_text()


def _write(
    folder: Path,
    *,
    workspace_port: int,
    callbacks_port: int,
    server_port: int,
    requests_per_minute: float,
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
        f"[workspaces.poll]\nrequests_per_minute = {requests_per_minute}\n",
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
