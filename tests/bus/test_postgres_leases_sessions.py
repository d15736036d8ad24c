"""Leases do not rest on sessions: server and daemon learn at different times that one is over."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from monitor.model.errors import BusUnavailableError
from tests.bus.postgres_members import (
    LEASE_SECONDS,
    NAMES,
    LeaseCluster,
    Member,
    lease_cluster,
    prepare_database,
    shards,
)
from tests.postgres_server import PostgresServer

_END_SESSIONS = (
    "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
    " WHERE datname = current_database() AND pid <> pg_backend_pid()"
)


@pytest.fixture
async def cluster(empty_database: str) -> AsyncIterator[LeaseCluster]:
    async with lease_cluster(empty_database) as cluster:
        yield cluster


async def test_sessions_that_only_the_server_knows_are_over_cost_no_shard(
    cluster: LeaseCluster,
) -> None:
    """The holder relies on its lease, and publishes; others wait for its expiry."""
    north, south = await cluster.join("north"), await cluster.join("south")
    await cluster.calm_down()
    own, others = set(north.hosted), set(south.hosted)
    assert own
    await cluster.connection.execute(_END_SESSIONS)
    with pytest.raises(BusUnavailableError):
        await south.cycle()
    for _ in range(2):
        await south.cycle()
        assert await south.obey() == []
    assert (north.publishing(), south.publishing()) == (own, others)

    with pytest.raises(BusUnavailableError):
        await north.cycle()
    await north.cycle()
    assert await north.obey() == []
    assert north.publishing() == own
    assert own | others == set(NAMES)


async def test_a_primary_that_has_lost_its_standby_renews_no_lease() -> None:
    """Its standby was promoted, and others go on there; what is only read it answers as ever."""
    async with PostgresServer() as old:
        (await prepare_database(old.url())).terminate()
        standby = await old.create_standby("standby")
        async with standby as promoted:
            await old.commit_synchronously("standby")
            north = Member(old.url(), "north")
            await north.join(shards("sales"))
            await north.cycle()
            await north.obey()
            assert north.publishing() == {"sales"}

            await promoted.promote()
            await promoted.commit_synchronously()
            north.heartbeat.renew_seconds = 1.0  # an exchange may take as long
            with pytest.raises(BusUnavailableError, match="no answer in time"):
                await north.cycle()
            north.boottime += LEASE_SECONDS
            assert north.publishing() == set()

            south = Member(promoted.url(), "south")
            await south.join(shards("sales"))
            for _ in range(5):  # each a quarter of the lease
                await south.cycle()
                await south.obey()
            assert south.publishing() == {"sales"}
            assert north.metric("lease_renewals_total", outcome="failed") == 1
            for member in (north, south):
                member.kill()
