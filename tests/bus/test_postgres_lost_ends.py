"""A fail-over to a standby that lags: the log goes back, is noticed, and repeats no sequence."""

from __future__ import annotations

from collections.abc import AsyncIterator
from datetime import timedelta

import pytest

from monitor.bus.contract import EventBus
from monitor.outputs.cloudevents import message_of
from tests.app.eventually import eventually
from tests.bus.examples import SOON, events
from tests.bus.postgres_members import shards
from tests.bus.postgres_stores import StoreHost, store_cluster
from tests.postgres_server import PostgresServer

_LEASE_SECONDS = 5.0  # also where a server that starts beside stops this process for a while
_NEWEST = "SELECT max(newest_position) FROM shard"


async def sequences(bus: EventBus) -> dict[str, str]:
    """Return the run of each event by the sequence of its message."""
    return {
        message_of(read.event, position=read.position, epoch=read.epoch).sequence: read.event.id
        for read in await bus.events(after=0, limit=100)
    }


class FailOver:
    """A primary with an asynchronous standby, which is out of reach for a while."""

    def __init__(self, primary: PostgresServer, standby: PostgresServer) -> None:
        self.primary = primary
        self.standby = standby
        self.hosts: list[StoreHost] = []

    async def join(self, name: str) -> StoreHost:
        hosts = f"127.0.0.1:{self.primary.port},127.0.0.1:{self.standby.port}"
        url = f"postgresql://postgres@{hosts}/postgres?sslmode=disable"
        host = await StoreHost.open(url, name, lease_seconds=_LEASE_SECONDS)
        self.hosts.append(host)
        await host.store.define(shards("sales"))
        return host

    async def leave_standby_behind(self, newest: int) -> None:
        """Let it have the log up to a position, and nothing that comes after."""

        async def has_all() -> bool:
            has_tables = await self.standby.value("SELECT to_regclass('shard') IS NOT NULL")
            return bool(has_tables and await self.standby.value(_NEWEST) == newest)

        await eventually(has_all, why="nothing is replicated")
        await self.standby.stop()

    async def promote(self) -> None:
        await self.primary.kill()
        await self.standby.start()
        await self.standby.promote()
        for host in self.hosts:
            # Also where it was quick, the deadline has passed.
            host.stopped_seconds += _LEASE_SECONDS


@pytest.fixture
async def fail_over() -> AsyncIterator[FailOver]:
    async with PostgresServer() as primary:
        standby = await primary.create_standby("late")
        scenario = FailOver(primary, standby)
        try:
            await standby.start()
            yield scenario
            for host in scenario.hosts:
                await host.close()
        finally:
            standby.discard()


async def opened_again(host: StoreHost, bus: EventBus) -> EventBus:
    await host.until(lambda: host.buses.get("sales") not in (None, bus))
    return host.buses["sales"]


@pytest.mark.parametrize("lost", [0, 3])
async def test_a_log_that_went_back_goes_on_in_a_new_epoch(fail_over: FailOver, lost: int) -> None:
    """Acknowledged events are gone: that is reported, and no sequence comes with two contents."""
    host = await fail_over.join("north")
    await host.has("sales")
    before = host.buses["sales"]
    await before.commit(events(1, 2, 3), timeout_seconds=SOON)
    await fail_over.leave_standby_behind(3)
    if lost:
        await before.commit(events(4, 5, 6), timeout_seconds=SOON)
    published = await sequences(before)
    await fail_over.promote()
    after = await opened_again(host, before)
    await after.commit(events(7, 8), timeout_seconds=SOON)

    found = (await after.status()).lost_end
    assert (found.count if found is not None else 0) == lost
    now = await sequences(after)
    assert list(now) == sorted(now)
    assert {at: now[at] for at in now.keys() & published.keys()} == {
        at: published[at] for at in list(published)[:3]
    }
    assert max(published) < max(now)
    # So it is for the next holder of the shard, which reads it from the tables.
    await host.store.release("sales")
    again = await opened_again(host, after)
    await again.commit(events(9), timeout_seconds=SOON)
    assert dict(list((await sequences(again)).items())[:-1]) == now
    kept = (await again.status()).lost_end
    assert (kept.count if kept is not None else 0) == lost
    if found is not None and kept is not None:
        assert abs(kept.since - found.since) < timedelta(seconds=SOON)
        assert kept.noticed == pytest.approx(found.noticed, abs=SOON)


async def test_another_daemon_notices_it_too(fail_over: FailOver) -> None:
    """Who takes the shard over, knows by the timeline only that the end may be lost."""
    north = await fail_over.join("north")
    await north.has("sales")
    before = north.buses["sales"]
    await before.commit(events(1, 2), timeout_seconds=SOON)
    await fail_over.leave_standby_behind(2)
    await before.commit(events(3, 4), timeout_seconds=SOON)
    published = await sequences(before)
    await north.kill()
    fail_over.hosts.clear()
    await fail_over.promote()
    south = await fail_over.join("south")
    await south.has("sales")
    after = south.buses["sales"]
    # More than were lost: the former holder of the shard would not see it by the position.
    await after.commit(events(*range(5, 11)), timeout_seconds=SOON)
    found = (await after.status()).lost_end
    assert found is not None
    assert found.count is None
    now = await sequences(after)
    kept = list(published)[:2]
    assert {at: now[at] for at in now.keys() & published.keys()} == {
        at: published[at] for at in kept
    }
    assert max(published) < min(set(now) - set(published))
    await south.close()
    fail_over.hosts.clear()
    again = await fail_over.join("north")
    await again.has("sales")
    assert await sequences(again.buses["sales"]) == now  # the epoch of its time is known


async def test_a_restore_into_another_server_begins_an_epoch(empty_database: str) -> None:
    """Its row names a server that is not this one: what came after the backup may be lost."""
    async with store_cluster(empty_database) as cluster:
        host = await cluster.join("north", shards("sales"))
        await host.has("sales")
        before = host.buses["sales"]
        await before.commit(events(1), timeout_seconds=SOON)
        await host.close()
        await cluster.connection.execute("UPDATE shard SET log_lineage = '1/00000001'")
        restored = await cluster.join("south", shards("sales"))
        await restored.has("sales")
        after = restored.buses["sales"]
        await after.commit(events(2), timeout_seconds=SOON)
        found = (await after.status()).lost_end
        assert found is not None
        assert found.count is None
        assert [at[:5] for at in await sequences(after)] == ["00000", "00001"]


async def test_a_server_that_says_no_timeline_is_worked_with(postgres: PostgresServer) -> None:
    """A managed one refuses the question: the log begins, and goes on for the next daemon."""
    role = await postgres.create_role("guest")
    database = await postgres.create_database(owner=role)
    await postgres.execute(
        "REVOKE EXECUTE ON FUNCTION pg_control_system() FROM PUBLIC", database=database
    )
    url = f"{postgres.url(database, user=role)}?sslmode=disable"
    for number, name in enumerate(("north", "south"), 1):
        async with store_cluster(url) as cluster:
            host = await cluster.join(name, shards("sales"))
            await host.has("sales")
            bus = host.buses["sales"]
            await bus.commit(events(number), timeout_seconds=SOON)
            assert [read.epoch for read in await bus.events(after=0, limit=9)] == [0] * number
            assert (await bus.status()).lost_end is None
            await host.close()
