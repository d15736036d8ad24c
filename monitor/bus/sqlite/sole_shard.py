"""The embedded store as a store of shards: one, which the lock of the file holds."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Self

from prometheus_client import CollectorRegistry

from monitor.bus.contract import EventBus, Pruned, Received, Retention, StoredCallback, StoredRuns
from monitor.bus.settings import StorageSettings
from monitor.bus.shards import (
    SOLE,
    ClusterStatus,
    LeaseChange,
    ShardDefinition,
    ShardGranted,
    ShardsElsewhere,
)
from monitor.bus.sqlite.sole_log import SoleLog
from monitor.bus.sqlite.store import SqliteBus
from monitor.bus.sqlite.upgrade import newest_schema
from monitor.model.clock import Clock


class SqliteStore:
    """One file, one shard, one daemon."""

    def __init__(self, bus: EventBus) -> None:
        self.bus = bus
        self.log = SoleLog(bus)
        self._is_granted = asyncio.Event()

    @classmethod
    async def open(
        cls, settings: StorageSettings, *, clock: Clock, registry: CollectorRegistry
    ) -> Self:
        """Take the file; raises as `SqliteBus.open` does."""
        return cls(await SqliteBus.open(settings, clock=clock, registry=registry))

    @property
    def daemon_id(self) -> str:
        return ""

    @property
    def schema(self) -> int:
        return newest_schema()

    @property
    def stored_runs(self) -> StoredRuns:
        return self.bus

    @property
    def away_since(self) -> datetime | None:
        return None

    @property
    def elsewhere(self) -> ShardsElsewhere | None:
        return None

    async def define(self, definitions: Sequence[ShardDefinition]) -> None:
        """Nothing to do: every workspace is in the shard."""

    async def next_change(self) -> LeaseChange:
        if not self._is_granted.is_set():
            self._is_granted.set()
            return ShardGranted(bus=self.bus)
        nothing: asyncio.Future[LeaseChange] = asyncio.get_running_loop().create_future()
        return await nothing

    async def await_first_shards(self) -> None:
        await self._is_granted.wait()

    async def release(self, shard: str) -> None:
        """Nothing to do: the file is this daemon's until `close`, and is read until then."""

    async def give_up(self, shard: str, cause: BaseException) -> None:  # noqa: ARG002
        raise cause

    async def drain(self) -> None:
        """Nothing to do: there is no other shard."""

    async def receive(
        self, callback: StoredCallback, *, inbox_bound: int, timeout_seconds: float
    ) -> Received:
        return await self.bus.receive(
            callback, inbox_bound=inbox_bound, timeout_seconds=timeout_seconds
        )

    async def prune(self, retention: Retention, *, now: datetime) -> Mapping[str, Pruned]:
        return {SOLE: await self.bus.prune(retention, now=now)}

    async def probe(self, *, timeout_seconds: float) -> None:
        await self.bus.probe(timeout_seconds=timeout_seconds)

    async def cluster(self) -> ClusterStatus | None:
        return None

    async def watch(self) -> None:
        await self.bus.watch()

    async def close(self) -> None:
        await self.bus.close()
