"""Leases while the database is away for a while."""

from __future__ import annotations

import pytest

from monitor.bus.shards import ShardGranted, ShardLost
from monitor.model.errors import BusUnavailableError
from tests.bus.postgres_members import LEASE_SECONDS, Member, prepare_database, shards
from tests.postgres_server import PostgresServer


async def test_a_server_that_goes_and_comes_back_costs_the_shards_only_past_the_deadline() -> None:
    """A short absence changes nothing; a long one ends all, and the same daemon begins again."""
    async with PostgresServer() as server:
        (await prepare_database(server.url())).terminate()
        north = Member(server.url(), "north")
        await north.join(shards("sales"))
        await north.cycle()
        await north.obey()
        await server.stop()
        with pytest.raises(BusUnavailableError):
            await north.cycle()
        assert north.publishing() == {"sales"}
        assert north.heartbeat.away_since is not None
        await server.start()
        await north.cycle()
        assert north.publishing() == {"sales"}
        assert north.heartbeat.away_since is None

        await server.kill()
        with pytest.raises(BusUnavailableError):
            await north.cycle()
        north.boottime += LEASE_SECONDS
        assert north.publishing() == set()
        await server.start()
        await north.cycle()
        lost = await north.obey()
        await north.cycle()
        granted = await north.obey()
        north.kill()
    assert [type(change) for change in (*lost, *granted)] == [ShardLost, ShardGranted]
    assert north.metric("lease_renewals_total", outcome="failed") == 2
