"""A server whose store other daemons share: what the store says, and what a test changes."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import aiohttp
from prometheus_client import CollectorRegistry

from monitor.bus.contract import Retention
from monitor.bus.shards import ClusterStatus, DaemonRecord, ShardRecord
from monitor.model.checks import Check, CheckLine, ok
from monitor.model.errors import BusUnavailableError
from monitor.supervisor import Supervisor, TaskState
from monitor.web.audit.audit_log import AuditLog, as_it_is
from monitor.web.health import ClusterProblems, DaemonStatus
from monitor.web.server import Server
from monitor.web.settings import ServerSettings
from monitor.web.shown_shards import Mirrored, ShownShard
from tests.clocks import ManualClock
from tests.web.served_shards import LogOfShards, ServedShard
from tests.web.site import Answer, answer_of


def daemon(name: str, clock: ManualClock, **more: Any) -> DaemonRecord:
    made: dict[str, Any] = {
        "id": name,
        "host": f"{name}.example.com",
        "process_id": 17,
        "version": "1.2.0",
        "url": f"https://{name}.example.com:8080",
        "started_at": clock.now() - timedelta(hours=5),
        "renewed_at": clock.now() - timedelta(seconds=2),
        "expires_at": clock.now() + timedelta(seconds=7),
        "is_alive": True,
        "shards": 1,
    }
    return DaemonRecord(**{**made, **more})


def shard(name: str, holder: str | None, clock: ManualClock, **more: Any) -> ShardRecord:
    made: dict[str, Any] = {
        "name": name,
        "workspaces": (name,),
        "holder": holder,
        "epoch": 3,
        "held_since": clock.now() - timedelta(minutes=9),
        "newest_position": 40,
        "backlog": 2,
        "inbox": 0,
        "last_change": "taken over",
        "taken_over_at": clock.now() - timedelta(minutes=9),
    }
    return ShardRecord(**{**made, **more})


def two_daemons(clock: ManualClock, *shards: ShardRecord, **of_second: Any) -> ClusterStatus:
    return ClusterStatus(
        this="node-1",
        at=clock.now(),
        schema=1,
        lease_seconds=9.0,
        daemons=(daemon("node-1", clock), daemon("node-2", clock, **of_second)),
        shards=shards,
    )


class ServedCluster:
    """A server over several shards, with a client."""

    def __init__(self, shards: list[ServedShard], clock: ManualClock) -> None:
        self.clock = clock
        self.shards = {shard.name: shard for shard in shards}
        self.status = two_daemons(clock)
        self.away: BusUnavailableError | None = None  # instead of an answer of the store
        self.problems = ClusterProblems()
        self.refreshes = 0
        self.url = ""
        self._shown = {shard.name: shard.shown() for shard in shards}
        self._session: aiohttp.ClientSession | None = None

    def shown(self) -> dict[str, ShownShard]:
        return self._shown

    def mirror(self, name: str, mirrored: Mirrored) -> None:
        """Let another daemon hold a shard."""
        self.shards[name].mirrored = mirrored
        self._shown = {**self._shown, name: self.shards[name].shown()}

    async def cluster(self) -> ClusterStatus:
        if self.away is not None:
            raise self.away
        return self.status

    async def refresh(self) -> None:
        self.refreshes += 1

    async def get(self, path: str) -> Answer:
        assert self._session is not None
        async with self._session.get(self.url + path) as response:
            return await answer_of(response)

    @contextlib.asynccontextmanager
    async def served(self, server: Server) -> AsyncIterator[None]:
        """Listen, and have a client, for as long as it takes."""
        async with aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(total=10)) as session:
            self._session = session
            self.url = f"http://127.0.0.1:{await server.start()}"
            supervisor = Supervisor(clock=self.clock, registry=CollectorRegistry())
            async with asyncio.TaskGroup() as group:
                tasks = [
                    group.create_task(supervisor.supervise(name, run), name=name)
                    for name, run in server.tasks().items()
                ]
                yield
                states = {status.state for status in supervisor.status().values()}
                assert states <= {TaskState.RUNNING}
                await server.stop()
                for task in tasks:
                    task.cancel()


@contextlib.asynccontextmanager
async def served_cluster(
    folder: Path, settings: ServerSettings, *names: str
) -> AsyncIterator[ServedCluster]:
    """Yield a server over shards of these names, each of one workspace."""
    clock = ManualClock()
    shards = [await ServedShard.open(folder, name, clock=clock) for name in names]
    made = ServedCluster(shards, clock)
    started_at = clock.now()

    async def render(_: str) -> tuple[bytes, str]:
        return b"", "text/plain"

    async def well() -> list[CheckLine]:
        return [ok("store", "writable")]

    server = Server(
        settings=settings,
        shards=made.shown,
        runs=shards[0].bus,
        log=LogOfShards(shards),
        entries=shards[0].bus.entries,
        audit=AuditLog(shards[0].bus.entries, clock=clock, redact=as_it_is),
        clock=clock,
        registry=CollectorRegistry(),
        render_metrics=render,
        checks=lambda: [Check("store", well)],
        daemon=lambda: DaemonStatus(
            started_at=started_at,
            config_hash="2c26",
            store_schema=1,
            retention=Retention(),
            longest_silence_seconds=86_400,
        ),
        cluster=made.cluster,
        cluster_problems=lambda: made.problems,
        refresh=made.refresh,
    )
    async with made.served(server):
        yield made
    for shard in shards:
        await shard.bus.close()
