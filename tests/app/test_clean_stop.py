"""What a shard that ends in order has stored: a store that can be moved at once."""

from __future__ import annotations

from pathlib import Path

import pytest

from monitor.bus.contract import WAITING_CONSUMERS, EventBus
from monitor.bus.settings import StorageSettings
from tests.app import fixture
from tests.app.eventually import eventually
from tests.app.hosted_shards import running_shard
from tests.bus import examples
from tests.bus.examples import SOON
from tests.clocks import ManualClock


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


@pytest.mark.parametrize("asked", [0, 1])
async def test_a_shard_that_ends_in_order_has_read_its_log(
    storage: StorageSettings, tmp_path: Path, asked: int
) -> None:
    """Alerting and metrics read what they had put off, and store where they are.

    Also where it is asked again: for another daemon, and then because this one drains.
    """
    settings = fixture.configuration(tmp_path, fixture.unreachable("marketing"))
    # A clock that stands still: no poll becomes due because time passes.
    async with running_shard(storage, settings, clock=ManualClock()) as running:
        shard = running.shard
        await shard.bus.commit(examples.events(1), timeout_seconds=SOON)
        await eventually(
            lambda: shard.metrics.consumer.position == shard.engine.position == 1,
            why="the first event is not read",
        )
        await shard.bus.commit(examples.events(2, 3), timeout_seconds=SOON)
        for _ in range(asked):
            shard.stop(is_orderly=True)
        await running.end()
        assert await backlog(shard.bus) == {"alerting": 0, "metrics": 0}
