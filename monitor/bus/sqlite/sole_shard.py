"""The embedded store as a store of shards: one, which the lock of the file holds."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Self

import msgspec
from prometheus_client import CollectorRegistry

from monitor.bus.contract import (
    Change,
    EventBus,
    Pruned,
    Received,
    RecordedIn,
    Retention,
    StateEntry,
    StoredCallback,
    StoredRuns,
    StoreEntries,
    decode_entry,
)
from monitor.bus.contract.stored_log import Positions
from monitor.bus.settings import StorageSettings
from monitor.bus.shards import (
    SOLE,
    ClusterStatus,
    LeaseChange,
    ShardDefinition,
    ShardGranted,
    ShardsElsewhere,
    StoreTimes,
)
from monitor.bus.sqlite.store import SqliteBus
from monitor.bus.sqlite.upgrade import newest_schema
from monitor.bus.trusted_time import JudgedTime
from monitor.model.alerts import BRIDGE
from monitor.model.clock import Clock

# No workspace can have the name under which this is stored.
JUDGED = (BRIDGE, "retention", "judged")  # a state entry
_decoder = msgspec.json.Decoder(JudgedTime)


class SoleLog:
    """Reads the log of one shard as that of the store."""

    def __init__(self, shard: EventBus) -> None:
        self._shard = shard

    async def positions(self) -> dict[str, int]:
        return {self._shard.shard: (await self._shard.status()).newest_position}

    async def positions_since(self, recorded_at: datetime) -> dict[str, int]:
        return {self._shard.shard: await self._shard.events_since(recorded_at)}

    async def events(self, after: Positions, *, limit: int) -> list[RecordedIn]:
        name = self._shard.shard
        recorded = await self._shard.events(after=after.get(name, 0), limit=limit)
        return [RecordedIn(entry.position, entry.event, entry.epoch, name) for entry in recorded]

    async def wait(self, after: Positions, *, timeout_seconds: float) -> bool:
        return await self._shard.wait(
            after.get(self._shard.shard, 0), timeout_seconds=timeout_seconds
        )


class SqliteStore:
    """One file, one shard, one daemon."""

    def __init__(self, bus: SqliteBus, *, clock: Clock, timeout_seconds: float = 10.0) -> None:
        self.bus = bus
        self._clock = clock
        self._timeout_seconds = timeout_seconds
        self.log = SoleLog(bus)
        self._is_granted = asyncio.Event()

    @classmethod
    async def open(
        cls, settings: StorageSettings, *, clock: Clock, registry: CollectorRegistry
    ) -> Self:
        """Take the file; raises as `SqliteBus.open` does."""
        bus = await SqliteBus.open(settings, clock=clock, registry=registry)
        return cls(bus, clock=clock, timeout_seconds=settings.commit_timeout_seconds)

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
    def entries(self) -> StoreEntries:
        return self.bus.entries

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

    async def times(self) -> StoreTimes:
        now = self._clock.now()
        workspace, topic, key = JUDGED
        stored = (await self.bus.state_entries(workspace, topic)).get(key)
        if stored is not None:
            entry = decode_entry(stored, _decoder, what="time of retention")
            return StoreTimes(now=now, judged=entry)
        newest = (await self.bus.status()).newest_position
        events = await self.bus.events(after=newest - 1, limit=1)
        judged = JudgedTime.first(events[0].event.recorded_at) if events else None
        return StoreTimes(now=now, judged=judged)

    async def keep_judged(self, judged: JudgedTime) -> None:
        value = msgspec.json.encode(judged)
        workspace, topic, key = JUDGED
        entry = StateEntry(workspace=workspace, topic=topic, key=key, value=value)
        await self.bus.commit(Change(state_entries=(entry,)), timeout_seconds=self._timeout_seconds)

    async def probe(self, *, timeout_seconds: float) -> None:
        await self.bus.probe(timeout_seconds=timeout_seconds)

    async def cluster(self) -> ClusterStatus | None:
        return None

    async def watch(self) -> None:
        await self.bus.watch()

    async def close(self) -> None:
        await self.bus.close()
