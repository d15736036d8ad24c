"""Shards as a daemon hosts them, without the daemon around them."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator

from prometheus_client import CollectorRegistry

from monitor.app.hosted.shard import HostedShard
from monitor.app.hosted.shard_definitions import shard_definitions
from monitor.app.store_opening import open_store
from monitor.bus.settings import StorageSettings
from monitor.bus.shards import CLUSTER, ShardGranted, ShardStore
from monitor.config import Configuration
from monitor.model.clock import Clock, SystemClock
from monitor.model.registries import ShardRegistry
from monitor.supervisor import Supervisor
from monitor.workspace.access.stored_tokens import TokenMemory
from tests.outputs.output_scenario import no_report


class RunningShard:
    """A shard that has started, in a store of its own."""

    def __init__(self, shard: HostedShard, running: asyncio.Task[None]) -> None:
        self.shard = shard
        self._running = running

    async def end(self, *, is_orderly: bool = True) -> None:
        """End it: in order, or as one that was lost."""
        self.shard.stop(is_orderly=is_orderly)
        await self._running


@contextlib.asynccontextmanager
async def running_shard(
    storage: StorageSettings, settings: Configuration, *, clock: Clock | None = None
) -> AsyncIterator[RunningShard]:
    """Yield the only shard of the configuration once it has started; end it, and the store."""
    store = await open_store(storage, clock=SystemClock(), registry=CollectorRegistry())
    try:
        shard = _built(await _granted(store, settings), settings, clock=clock or SystemClock())
        started: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        running = asyncio.create_task(
            shard.run(on_started=lambda: started.set_result(None)), name="the shard of a test"
        )
        await asyncio.wait((running, started), return_when=asyncio.FIRST_COMPLETED)
        made = RunningShard(shard, running)
        try:
            yield made
        finally:
            await made.end()
        await store.release(shard.name)
    finally:
        await store.close()


async def _granted(store: ShardStore, settings: Configuration) -> ShardGranted:
    await store.define(shard_definitions(settings))
    while True:
        change = await store.next_change()
        if isinstance(change, ShardGranted) and change.bus.shard != CLUSTER:
            return change


def _built(granted: ShardGranted, settings: Configuration, *, clock: Clock) -> HostedShard:
    registry = CollectorRegistry()
    return HostedShard(
        settings,
        bus=granted.bus,
        instructions=granted.instructions,
        clock=clock,
        registry=ShardRegistry(registry, shard=granted.bus.shard),
        supervisor=Supervisor(clock=clock, registry=registry),
        token_memory=TokenMemory(),
        reports=no_report,
    )
