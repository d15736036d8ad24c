"""Whole stores on one database, as daemons of one cluster, in one process."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable, Sequence
from typing import Self

from prometheus_client import CollectorRegistry

from monitor.bus.contract import EventBus
from monitor.bus.postgres.connections.connecting import Connection
from monitor.bus.postgres.leases.lease import LeaseDeadline
from monitor.bus.postgres.store import PostgresStore
from monitor.bus.settings import StorageSettings
from monitor.bus.shards import (
    LeaseChange,
    ShardDefinition,
    ShardGranted,
    ShardLost,
    ShardReassigned,
)
from monitor.model.clock import SystemClock, boottime
from tests.bus.postgres_members import prepare_database

LONG_SECONDS = 20.0  # for what takes milliseconds, on a machine that does something else


class StoreHost:
    """A store and a host that does what it is asked to, and remembers it."""

    def __init__(self, store: PostgresStore, registry: CollectorRegistry) -> None:
        self.store = store
        self.registry = registry
        self.buses: dict[str, EventBus] = {}
        self.changes: list[LeaseChange] = []
        self.stopped_seconds = 0.0  # for how long the process has been stopped, to its clock
        self._has_changed = asyncio.Condition()
        self._task = asyncio.create_task(self._run())

    @classmethod
    async def open(cls, url: str, name: str, *, lease_seconds: float = 9.0) -> Self:
        registry = CollectorRegistry()
        found: list[StoreHost] = []
        deadline = LeaseDeadline(
            lease_seconds=lease_seconds,
            boottime=lambda: boottime() + sum(host.stopped_seconds for host in found),
        )
        store = await PostgresStore.open(
            StorageSettings(url=url, daemon=name, lease_seconds=lease_seconds),
            version="1.0",
            url=None,
            clock=SystemClock(),
            registry=registry,
            deadline=deadline,
        )
        host = cls(store, registry)
        found.append(host)
        return host

    async def until(self, condition: Callable[[], bool]) -> None:
        """Return once the condition holds after a change."""
        async with asyncio.timeout(LONG_SECONDS), self._has_changed:
            await self._has_changed.wait_for(condition)

    async def has(self, *shards: str) -> None:
        """Return once these shards, and no other, are this daemon's."""
        await self.until(lambda: set(self.buses) == set(shards))

    async def kill(self) -> None:
        """End without a goodbye: nothing is released, no connection says that it goes."""
        for task in (self._task, *self.store._tasks):
            task.cancel()
        await asyncio.gather(self._task, *self.store._tasks, return_exceptions=True)
        self.store._heartbeat.disconnect()

    async def close(self) -> None:
        self._task.cancel()
        await asyncio.gather(self._task, return_exceptions=True)
        await self.store.close()

    def metric(self, name: str, **labels: str) -> float:
        return self.registry.get_sample_value(f"dataprep_monitor_{name}", labels) or 0.0

    async def _run(self) -> None:
        while True:
            change = await self.store.next_change()
            if isinstance(change, ShardGranted):
                self.buses[change.bus.shard] = change.bus
            elif isinstance(change, ShardLost | ShardReassigned):
                del self.buses[change.shard]
                await self.store.release(change.shard)
            async with self._has_changed:
                self.changes.append(change)
                self._has_changed.notify_all()


class StoreCluster:
    """The stores of a test; all of them end with it."""

    def __init__(self, url: str, connection: Connection) -> None:
        self.url = url
        self.connection = connection
        self._hosts: list[StoreHost] = []

    async def join(
        self, name: str, definitions: Sequence[ShardDefinition], *, lease_seconds: float = 9.0
    ) -> StoreHost:
        host = await StoreHost.open(self.url, name, lease_seconds=lease_seconds)
        self._hosts.append(host)
        await host.store.define(definitions)
        return host

    async def expire(self, name: str) -> None:
        """Let the lease of a daemon run out, to the server."""
        await self.connection.execute(
            "UPDATE daemon SET expires_at = clock_timestamp() - interval '1 second' WHERE id = $1",
            name,
        )

    async def close(self) -> None:
        for host in self._hosts:
            await host.close()
        self.connection.terminate()


@contextlib.asynccontextmanager
async def store_cluster(url: str) -> AsyncIterator[StoreCluster]:
    """Yield a cluster without daemons on an empty database."""
    cluster = StoreCluster(url, await prepare_database(url))
    try:
        yield cluster
    finally:
        await cluster.close()
