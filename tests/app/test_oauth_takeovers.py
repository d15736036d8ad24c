"""A token pair among daemons that share a database: only the holder of the shard refreshes.

Real leases and a real fence in a real database; the refreshes are on clocks that the test moves.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from monitor.bus.postgres.bus import PostgresBus
from monitor.model.errors import BusLostError
from tests.app.eventually import pause
from tests.app.oauth_scenario import (
    ACCESS_SECONDS,
    NAME,
    OauthScenario,
    Refresher,
    Step,
    TokenFile,
    oauth_scenario,
)
from tests.bus.postgres_members import shards
from tests.bus.postgres_stores import StoreCluster, StoreHost, store_cluster
from tests.clocks import ManualClock

DUE_SECONDS = ACCESS_SECONDS * 2 / 3 + 30


class Cluster:
    """The daemons of a test, each with the part that refreshes once it holds the shard."""

    def __init__(self, scenario: OauthScenario, stores: StoreCluster) -> None:
        self.scenario = scenario
        self.stores = stores
        self._living: list[Refresher] = []

    async def join(self, name: str) -> StoreHost:
        """Return a daemon that holds the shard."""
        host = await self.stores.join(name, shards(NAME))
        await host.until(lambda: NAME in host.buses)
        return host

    async def refresher(self, host: StoreHost, *, clock: ManualClock | None = None) -> Refresher:
        """Return the part of a daemon that holds the shard, after its first cycle."""
        refresher = self.scenario.refresher()
        refresher.clock = clock or self.scenario.clock
        self._living.append(refresher)
        await refresher.start(host.buses[NAME])
        await refresher.begun()
        return refresher

    async def takeover(self, former: StoreHost) -> StoreHost:
        """Let a daemon be gone, and return the one that has its shard then."""
        await former.kill()
        await self.stores.expire("north")
        return await self.join("south")

    async def close(self) -> None:
        for refresher in self._living:
            if not refresher.task.done():
                await refresher.stop()


@pytest.fixture(name="cluster")
async def _cluster(tmp_path: Path, empty_database: str) -> AsyncIterator[Cluster]:
    async with oauth_scenario(tmp_path) as scenario, store_cluster(empty_database) as stores:
        cluster = Cluster(scenario, stores)
        try:
            yield cluster
        finally:
            await cluster.close()


async def is_lost(daemon: Refresher) -> bool:
    """True where the daemon says that it is locked out by a lost answer, and what to do."""
    await daemon.until(lambda: daemon.trouble is not None)
    await daemon.cycle()
    assert daemon.trouble is not None
    assert "generate a new token pair" in daemon.trouble.advice
    return "locked out" in daemon.trouble.reason and "never stored" in daemon.trouble.reason


@pytest.mark.parametrize("step", [step for step in Step if not step.value.startswith("the shard")])
async def test_a_takeover_from_a_holder_that_died_in_a_refresh(
    cluster: Cluster, step: Step
) -> None:
    """The new holder goes on with the stored pair, or says that the answer was lost."""
    scenario, former = cluster.scenario, await cluster.join("north")
    daemon = await cluster.refresher(former)
    daemon.dies_at = step
    await scenario.clock.advance(DUE_SECONDS)
    await daemon.died()
    daemon = await cluster.refresher(await cluster.takeover(former))
    if step.loses_the_answer:
        assert await is_lost(daemon)
        scenario.generate_pair()
    await daemon.cycle()
    assert await daemon.can_read()
    assert daemon.trouble is None


@pytest.mark.parametrize(
    "step", [Step.BEFORE_ALL, Step.BEFORE_SENDING, Step.BEFORE_STORING, Step.AFTER_STORING]
)
async def test_a_former_holder_that_wakes_refreshes_nothing(cluster: Cluster, step: Step) -> None:
    """Stopped in a refresh and woken after the takeover, it sends and stores nothing any more."""
    scenario, clock = cluster.scenario, ManualClock()
    pair, north = scenario.sandbox.pair, await cluster.join("north")
    assert pair is not None
    stopped = await cluster.refresher(north, clock=clock)
    stopped.stops_at = step
    await clock.advance(DUE_SECONDS)
    await stopped.has_stopped.wait()
    south = await cluster.takeover(north)
    await scenario.clock.advance(DUE_SECONDS)
    daemon = await cluster.refresher(south)
    if step.loses_the_answer:
        assert await is_lost(daemon)
        scenario.generate_pair()
        pair = scenario.sandbox.pair
        assert pair is not None
        await daemon.cycle()
    handled, stored = pair.refreshes, await daemon.load()
    north.stopped_seconds = 3_600.0
    stopped.wakes.set()
    for _ in range(20):
        await clock.advance(30)
    await stopped.until(lambda: stopped.task.done() or stopped.is_idle())
    if stopped.task.done():
        assert isinstance(stopped.task.exception(), BusLostError)
    assert pair.refreshes == handled
    assert await daemon.load() == stored
    await daemon.cycle()
    assert await daemon.can_read()
    assert daemon.trouble is None


async def test_a_holder_that_gets_its_shard_again_still_has_the_answer(cluster: Cluster) -> None:
    """A lease that ends with an answer on its way, as in a failover, costs no pair."""
    host = await cluster.join("north")
    daemon = await cluster.refresher(host)
    daemon.stops_at = Step.BEFORE_STORING
    await cluster.scenario.clock.advance(DUE_SECONDS)
    await daemon.has_stopped.wait()
    former = host.buses[NAME]
    assert isinstance(former, PostgresBus)
    former.lose("the lease was renewed too late")
    await host.until(lambda: host.buses.get(NAME, former) is not former)
    daemon.task.cancel()  # as the host of a lost shard does
    daemon.wakes.set()
    while not daemon.task.done():
        await cluster.scenario.clock.advance(1)
        await pause(0.01)
    await daemon.close()
    memory, daemon = daemon.memory, cluster.scenario.refresher()
    daemon.memory = memory
    await daemon.start(host.buses[NAME])
    await daemon.begun()
    try:
        assert daemon.trouble is None
        assert daemon.count("refreshed") == 0  # with the answer from before
        assert await daemon.can_read()
        assert not memory.unstored
        await daemon.cycle(DUE_SECONDS)
        assert daemon.count("refreshed") == 1
    finally:
        await daemon.stop()


async def test_an_answer_that_another_has_overtaken_is_dropped(cluster: Cluster) -> None:
    """The holder of the shard meanwhile has a newer pair, also if a person gave a new one."""
    north = await cluster.join("north")
    stopped = await cluster.refresher(north, clock=ManualClock())
    stopped.stops_at = Step.BEFORE_STORING
    await stopped.clock.advance(DUE_SECONDS)
    await stopped.has_stopped.wait()
    south = await cluster.takeover(north)
    daemon = await cluster.refresher(south)
    assert await is_lost(daemon)
    cluster.scenario.generate_pair()
    await daemon.cycle()
    stored = (await daemon.load()).pair
    stopped.wakes.set()
    await stopped.died()
    await daemon.stop()
    back = cluster.scenario.refresher()
    back.memory = stopped.memory
    await back.start(south.buses[NAME])
    await back.begun()
    assert (await back.load()).pair == stored
    assert not back.memory.unstored
    assert await back.can_read()
    await back.stop()


async def test_a_restored_backup_is_locked_out_and_says_so(cluster: Cluster) -> None:
    """Its pair is older than the last refresh; the reason names the older copy, and what to do."""
    scenario, host = cluster.scenario, await cluster.join("north")
    query = "SELECT value FROM state_entry WHERE workspace = $1 AND topic = 'oauth'"
    daemon = await cluster.refresher(host)
    backup = await cluster.stores.connection.fetchval(query, NAME)
    await daemon.cycle(DUE_SECONDS)
    await daemon.until(lambda: daemon.count("refreshed") == 2)
    await daemon.stop()
    await cluster.stores.connection.execute(
        "UPDATE state_entry SET value = $2 WHERE workspace = $1 AND topic = 'oauth'", NAME, backup
    )
    await scenario.clock.advance(DUE_SECONDS)
    daemon = await cluster.refresher(await cluster.takeover(host))
    assert daemon.trouble is not None
    assert daemon.trouble.reason.startswith("locked out")
    assert "the store is an older copy" in daemon.trouble.reason
    scenario.generate_pair()
    await daemon.cycle()
    assert await daemon.can_read()


async def test_a_file_that_was_not_replaced_everywhere_costs_nothing(cluster: Cluster) -> None:
    """A successor whose file has a token that was used before goes on with the stored pair."""
    scenario = cluster.scenario
    older, north = TokenFile(scenario.file.text), await cluster.join("north")
    daemon = await cluster.refresher(north)
    scenario.generate_pair()
    await daemon.cycle()
    await daemon.until(lambda: daemon.count("refreshed") == 2)
    await daemon.stop()
    south = await cluster.takeover(north)
    scenario.file = older
    daemon = await cluster.refresher(south)
    await daemon.cycle(DUE_SECONDS)
    assert daemon.count("refused") == 0
    assert daemon.count("refreshed") == 1
    assert daemon.trouble is None
    assert await daemon.can_read()
