"""`PostgresStore`: the promises of a store of shards, with everything in its place."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncIterator, Sequence

import pytest
from prometheus_client import CollectorRegistry

from monitor.bus.contract import Received, Start
from monitor.bus.postgres import open_postgres
from monitor.bus.postgres.bus import PostgresBus
from monitor.bus.postgres.connections.connecting import Connection
from monitor.bus.postgres.connections.migrations import (
    Migration,
    migrations,
    newest_schema,
    prepare,
)
from monitor.bus.postgres.leases.rendezvous import best_daemon
from monitor.bus.postgres.writing.leased_shard import LeasedShard
from monitor.bus.settings import StorageSettings
from monitor.bus.shards import CallbacksArrived, ShardLost, ShardRecord
from monitor.model.clock import SystemClock
from monitor.model.errors import (
    BusLockedError,
    BusLostError,
    BusUnavailableError,
    ConfigurationError,
)
from tests.bus.examples import SOON, callback, events
from tests.bus.postgres_members import shards
from tests.bus.postgres_stores import LONG_SECONDS, StoreCluster, StoreHost, store_cluster

NAMES = tuple(f"workspace-{number}" for number in range(6))
OF_SOUTH = {name for name in NAMES if best_daemon(name, ("north", "south")) == "south"}
OF_NORTH = set(NAMES) - OF_SOUTH


@pytest.fixture
async def cluster(empty_database: str) -> AsyncIterator[StoreCluster]:
    async with store_cluster(empty_database) as cluster:
        yield cluster


async def test_a_lone_daemon_is_granted_all_at_its_start(cluster: StoreCluster) -> None:
    """Each bus stores, may publish and is confirmed; the store knows what it shows."""
    north = await cluster.join("north", shards(*NAMES))
    async with asyncio.timeout(LONG_SECONDS):
        await north.store.await_first_shards()
    await north.has(*NAMES)
    for bus in north.buses.values():
        assert bus.may_publish()
        await bus.confirm()
        await bus.commit(events(1), timeout_seconds=SOON)
    await north.store.probe(timeout_seconds=SOON)
    # One that waits on purpose is no backlog.
    await north.buses[NAMES[0]].subscribe("misses/late", start=Start.OLDEST)
    status = await north.store.cluster()

    assert north.store.daemon_id == "north"
    assert north.store.schema == newest_schema()
    assert status is not None
    assert [shard.newest_position for shard in status.shards] == [1] * len(NAMES)
    assert [shard.backlog for shard in status.shards] == [0] * len(NAMES)
    assert len(await north.store.stored_runs.events_by_id([event.id for event in events(1).events]))
    assert north.store.away_since is None


async def test_a_daemon_without_shards_has_started_at_once(cluster: StoreCluster) -> None:
    """Another daemon has all that it could have: it waits for nothing."""
    north = await cluster.join("north", shards("sales", digest="old"))
    await north.has("sales")
    south = await cluster.join("south", shards("sales", digest="new"))
    async with asyncio.timeout(LONG_SECONDS):
        await south.store.await_first_shards()
    assert south.changes == []


async def test_a_daemon_that_defines_nothing_has_started_at_once(cluster: StoreCluster) -> None:
    """Its configuration names no workspace yet: there is nothing to wait for."""
    north = await cluster.join("north", ())
    async with asyncio.timeout(LONG_SECONDS):
        await north.store.await_first_shards()
    assert north.changes == []


async def test_shards_go_to_a_daemon_that_comes_and_back_when_it_ends(
    cluster: StoreCluster,
) -> None:
    """By handover: no lease expires, and every log goes on where it was."""
    north = await cluster.join("north", shards(*NAMES))
    await north.has(*NAMES)
    for bus in north.buses.values():
        await bus.commit(events(1), timeout_seconds=SOON)
    south = await cluster.join("south", shards(*NAMES))
    await south.has(*OF_SOUTH)
    await north.has(*OF_NORTH)
    for bus in south.buses.values():
        await bus.commit(events(2), timeout_seconds=SOON)
        assert [found.position for found in await bus.events(after=0, limit=9)] == [1, 2]
    await south.close()
    await north.has(*NAMES)

    assert north.metric("takeovers_total") == 0
    assert not [change for change in north.changes if isinstance(change, ShardLost)]
    # Notified at once; without notifications each of the three steps takes a cycle or more.


async def test_a_dead_daemon_stores_nothing_after_its_shards_were_taken_over(
    cluster: StoreCluster,
) -> None:
    """Its late writes are refused by the fence, counted, and in no log."""
    north = await cluster.join("north", shards("sales"))
    await north.has("sales")
    former = north.buses["sales"]
    await former.commit(events(1), timeout_seconds=SOON)
    await north.kill()
    await cluster.expire("north")
    south = await cluster.join("south", shards("sales"))
    await south.has("sales")
    assert south.metric("takeovers_total") == 1
    with pytest.raises(BusLostError):
        await former.commit(events(2), timeout_seconds=SOON)
    with pytest.raises(BusLostError):
        await former.watch()
    assert not former.may_publish()
    assert north.metric("fenced_writes_total") == 1

    await south.buses["sales"].commit(events(3), timeout_seconds=SOON)
    found = await south.buses["sales"].events(after=0, limit=9)
    assert [recorded.event.id for recorded in found] == [event.id for event in events(1, 3).events]


async def test_the_last_takeover_is_known_after_a_handover(cluster: StoreCluster) -> None:
    """It is when a holder was last gone; never where shards were only handed over."""
    north = await cluster.join("north", shards("sales"))
    await north.has("sales")
    await north.kill()
    await cluster.expire("north")
    south = await cluster.join("south", shards("sales"))
    await south.has("sales")
    taken_over_at = (await record_of(south)).taken_over_at
    assert taken_over_at is not None
    await south.close()
    east = await cluster.join("east", shards("sales"))
    await east.has("sales")
    record = await record_of(east)

    assert record.last_change == "handed over"
    assert record.taken_over_at == taken_over_at


async def record_of(daemon: StoreHost) -> ShardRecord:
    """Return what the cluster's status has of the only shard."""
    status = await daemon.store.cluster()
    assert status is not None
    (record,) = status.shards
    return record


async def test_a_daemon_that_stands_still_inside_a_transaction_is_taken_over(
    cluster: StoreCluster,
) -> None:
    """The server ends it, and with it the lock on the shard; what goes on is refused."""
    north = await cluster.join("north", shards("sales"), lease_seconds=3.0)
    await north.has("sales")
    former = north.buses["sales"]
    assert isinstance(former, PostgresBus)
    is_inside, goes_on = asyncio.Event(), asyncio.Event()

    async def stand_still(connection: Connection, _: Sequence[LeasedShard]) -> None:
        is_inside.set()
        await goes_on.wait()
        await connection.execute("DELETE FROM run")

    writing = asyncio.create_task(
        former._writer.run(stand_still, [former.leased], timeout_seconds=SOON)
    )
    await is_inside.wait()
    await north.kill()
    await cluster.expire("north")
    south = await cluster.join("south", shards("sales"), lease_seconds=3.0)
    await south.has("sales")
    goes_on.set()
    with pytest.raises(BusLostError):
        await writing
    assert north.metric("fenced_writes_total") == 1


async def test_a_daemon_that_was_stopped_publishes_nothing_and_starts_over(
    cluster: StoreCluster,
) -> None:
    """Its clock has gone on: it may not publish from the first instruction on, and knows why."""
    north = await cluster.join("north", shards("sales"))
    await north.has("sales")
    former = north.buses["sales"]
    north.stopped_seconds += 9.0
    assert not former.may_publish()
    await north.until(lambda: any(isinstance(change, ShardLost) for change in north.changes))
    await north.has("sales")
    assert north.buses["sales"] is not former
    assert north.buses["sales"].may_publish()
    with pytest.raises(BusUnavailableError):
        await former.commit(events(1), timeout_seconds=SOON)


async def test_any_daemon_takes_a_callback_and_the_holder_learns_of_it(
    cluster: StoreCluster,
) -> None:
    """Durable in the shard's inbox, once, however often and wherever it is sent."""
    north = await cluster.join("north", shards("sales", digest="old"))
    await north.has("sales")
    south = await cluster.join("south", shards("sales", digest="new"))
    received = [
        await host.store.receive(
            callback(1, workspace="sales"), inbox_bound=9, timeout_seconds=SOON
        )
        for host in (south, south, north)
    ]
    await north.until(lambda: CallbacksArrived(shard="sales") in north.changes)
    arrivals = await north.buses["sales"].inbox("sales", limit=9)

    assert received == [Received.STORED, Received.DUPLICATE, Received.DUPLICATE]
    assert [waiting.fingerprint for waiting in arrivals.callbacks] == ["fingerprint-1"]
    with pytest.raises(BusUnavailableError, match="no shard is known of workspace unknown"):
        await south.store.receive(
            callback(1, workspace="unknown"), inbox_bound=9, timeout_seconds=SOON
        )


async def test_a_running_daemon_goes_on_while_the_schema_grows(cluster: StoreCluster) -> None:
    """A neighbour of the next version upgrades; this one stores, and hands over to a third."""
    north = await cluster.join("north", shards(*NAMES))
    await north.has(*NAMES)
    added = Migration("-- works with: 1\nALTER TABLE event ADD COLUMN size integer", works_with=1)
    await prepare(cluster.connection, migrations() | {newest_schema() + 1: added})
    for bus in north.buses.values():
        await bus.commit(events(1), timeout_seconds=SOON)
    south = await cluster.join("south", shards(*NAMES))
    await south.has(*OF_SOUTH)

    assert south.store.schema == newest_schema() + 1


async def test_one_name_for_two_daemons_is_refused_at_the_start(cluster: StoreCluster) -> None:
    """The second one does not start; the first one goes on."""
    north = await cluster.join("north", shards("sales"), lease_seconds=2.0)
    with pytest.raises(BusLockedError, match=r"storage\.daemon: another daemon"):
        await StoreHost.open(cluster.url, "north", lease_seconds=2.0)
    await north.has("sales")
    assert north.buses["sales"].may_publish()


async def test_a_daemon_whose_name_was_taken_ends(cluster: StoreCluster) -> None:
    """`watch` raises, so that the process ends: the name is not its own any more."""
    north = await cluster.join("north", shards("sales"), lease_seconds=2.0)
    await north.has("sales")
    await cluster.connection.execute(
        "UPDATE daemon SET incarnation = gen_random_uuid(),"
        " expires_at = clock_timestamp() + interval '1 hour'"
    )
    renewing = asyncio.create_task(_renew_until_stopped(cluster))
    try:
        async with asyncio.timeout(LONG_SECONDS):
            with pytest.raises(BusLostError, match="uses the name north"):
                await north.store.watch()
    finally:
        renewing.cancel()
        await asyncio.gather(renewing, return_exceptions=True)
    assert north.buses == {}


async def _renew_until_stopped(cluster: StoreCluster) -> None:
    while True:
        await cluster.connection.execute("UPDATE daemon SET renewed_at = clock_timestamp()")


async def test_drained_shards_are_not_taken_again(cluster: StoreCluster) -> None:
    """A daemon that is about to end releases all, and nothing comes back though it is alone."""
    north = await cluster.join("north", shards("sales"))
    await north.has("sales")
    await north.store.drain()
    await north.store.release("sales")
    south = await cluster.join("south", shards("sales"))
    await south.has("sales")

    assert [type(change).__name__ for change in north.changes] == ["ShardGranted"]


async def test_after_its_end_a_store_does_nothing(cluster: StoreCluster) -> None:
    """`watch` returns, a further call raises, and the daemon is not among the cluster's."""
    north = await cluster.join("north", shards("sales"))
    await north.has("sales")
    await north.close()
    await north.store.watch()
    with pytest.raises(BusUnavailableError):
        await north.store.probe(timeout_seconds=SOON)

    assert await cluster.connection.fetchval("SELECT count(*) FROM daemon") == 0


async def test_without_the_driver_the_message_names_what_installs_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """An installation without the extra fails at its start, in one sentence."""
    monkeypatch.setitem(sys.modules, "asyncpg", None)
    with pytest.raises(ConfigurationError, match=r"pip install 'dataprep-monitor\[postgres\]'"):
        await open_postgres(
            StorageSettings(url="postgresql://db/monitor"),
            version="1.0",
            url=None,
            clock=SystemClock(),
            registry=CollectorRegistry(),
        )
