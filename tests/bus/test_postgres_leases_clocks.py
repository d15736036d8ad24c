"""Leases while the database's clock is set: who renews stays, who does not goes."""

from __future__ import annotations

from collections.abc import AsyncIterator
from datetime import timedelta

import pytest

from tests.bus.postgres_members import NAMES, LeaseCluster, lease_cluster

_SET_CLOCK = "UPDATE daemon SET renewed_at = renewed_at + $1, expires_at = expires_at + $1"


@pytest.fixture
async def cluster(empty_database: str) -> AsyncIterator[LeaseCluster]:
    async with lease_cluster(empty_database) as cluster:
        yield cluster


@pytest.mark.parametrize("step", [1, 3_600, 40 * 86_400, -1, -3_600, -40 * 86_400])
async def test_a_set_clock_of_the_database_moves_no_takeover(
    cluster: LeaseCluster, step: int
) -> None:
    """After a fail-over its times are another host's: who renews stays, who does not goes."""
    north, south = await cluster.join("north"), await cluster.join("south")
    await cluster.calm_down()
    own, others = set(north.hosted), set(south.hosted)
    # What the rows say is by a clock that is no more: the new one is ahead of it, or behind.
    await cluster.connection.execute(_SET_CLOCK, timedelta(seconds=step))
    for member in (south, north, south, north):
        await member.cycle()
        await member.obey()
    assert (north.publishing(), south.publishing()) == (own, others)
    assert north.metric("takeovers_total") + south.metric("takeovers_total") == 0

    await cluster.connection.execute(_SET_CLOCK, timedelta(seconds=step))
    north.kill()
    waited = 0
    while south.publishing() != set(NAMES):
        await south.cycle()  # a quarter of the lease
        await south.obey()
        waited += 1
    assert waited in (4, 5)


async def test_daemons_that_have_left_are_forgotten(cluster: LeaseCluster) -> None:
    """A name may be given again for each process: what one daemon knows of others does not grow."""
    north = await cluster.join("north")
    for number in range(3):
        other = await cluster.join(f"pod-{number}")
        await north.cycle()
        await other.leave()
    await north.cycle()
    assert set(north.leases._seen._seen) == {"north"}
