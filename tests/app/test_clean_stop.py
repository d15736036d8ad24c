"""What a daemon that ends in order has stored: a store that can be moved at once."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
from prometheus_client import CollectorRegistry

from monitor.app.shard import HostedShard
from monitor.app.shard_definitions import shard_definitions
from monitor.app.store import open_store
from monitor.bus.contract import WAITING_CONSUMERS, EventBus
from monitor.bus.settings import StorageSettings
from monitor.bus.shards import CLUSTER, ShardGranted, ShardStore
from monitor.config import Configuration
from monitor.model.clock import SystemClock
from monitor.model.registries import ShardRegistry
from monitor.supervisor import Supervisor
from tests.app import stage
from tests.app.eventually import eventually
from tests.bus import examples
from tests.bus.examples import SOON
from tests.clocks import ManualClock


async def granted(store: ShardStore, settings: Configuration) -> ShardGranted:
    await store.define(shard_definitions(settings))
    while True:
        change = await store.next_change()
        if isinstance(change, ShardGranted) and change.bus.shard != CLUSTER:
            return change


def hosted(grant: ShardGranted, settings: Configuration) -> HostedShard:
    """Return the shard with a clock that stands still: nobody reads again because time passes."""
    clock, registry = ManualClock(), CollectorRegistry()
    return HostedShard(
        settings,
        bus=grant.bus,
        instructions=grant.instructions,
        clock=clock,
        registry=ShardRegistry(registry, shard=grant.bus.shard),
        supervisor=Supervisor(clock=clock, registry=registry),
    )


async def backlog(bus: EventBus) -> dict[str, int]:
    status = await bus.status()
    return {
        of.consumer: status.newest_position - of.position
        for of in status.consumers
        if not of.consumer.startswith(WAITING_CONSUMERS)
    }


@pytest.fixture(params=["sqlite", "postgres"])
def storage(request: pytest.FixtureRequest, tmp_path: Path) -> StorageSettings:
    if request.param == "sqlite":
        return StorageSettings(url=f"sqlite://{tmp_path}/state.db")
    return StorageSettings(url=request.getfixturevalue("empty_database"), daemon="north")


async def test_a_shard_that_ends_in_order_has_read_its_log(
    storage: StorageSettings, tmp_path: Path
) -> None:
    """Alerting and metrics read what they had put off, and store where they are."""
    settings = stage.configuration(tmp_path, stage.unreachable("marketing"))
    store = await open_store(storage, clock=SystemClock(), registry=CollectorRegistry())
    try:
        grant = await granted(store, settings)
        bus, shard = grant.bus, hosted(grant, settings)
        has_started = asyncio.Event()
        running = asyncio.create_task(shard.run(on_started=has_started.set))
        await has_started.wait()
        await bus.commit(examples.events(1), timeout_seconds=SOON)

        async def counted() -> bool:
            return shard.metrics.consumer.position == 1 and shard.engine.position == 1

        await eventually(counted, why="the first event is not read")
        await bus.commit(examples.events(2, 3), timeout_seconds=SOON)
        shard.stop(is_orderly=True)
        await running
        assert await backlog(bus) == {"alerting": 0, "metrics": 0}
    finally:
        await store.close()
