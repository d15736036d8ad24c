"""Statements of leases that meet: whichever is first, one of them counts."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from functools import partial

import pytest

from monitor.bus.postgres.leases import lease_table
from monitor.bus.postgres.leases.lease_decisions import CLAIMED, Claim, ShardLease
from monitor.bus.postgres.leases.lease_table import declare_gone
from monitor.bus.postgres.leases.observed_heartbeats import Renewal
from monitor.bus.postgres.leases.rendezvous import best_daemon
from tests.app.eventually import eventually
from tests.bus.postgres_members import (
    LEASE_SECONDS,
    NAMES,
    LeaseCluster,
    Member,
    lease_cluster,
    prepare_database,
)


@pytest.fixture
async def cluster(empty_database: str) -> AsyncIterator[LeaseCluster]:
    async with lease_cluster(empty_database) as cluster:
        yield cluster


async def last_renewal(member: Member) -> Renewal:
    """Return the renewal of the member that others have seen last."""
    known = await member.heartbeat.run(
        lambda connection: lease_table.neighbours(connection, ()),
    )
    return known[member.name].renewal


async def read(member: Member) -> list[ShardLease]:
    """Return the leases as the member reads them, of any daemon."""
    numbers = [defined.number for defined in member.leases.definitions.values()]
    return await member.heartbeat.run(
        lambda connection: lease_table.open_leases(
            connection, member.heartbeat.myself, defined=numbers, alive=(), hosted=()
        )
    )


async def claim(member: Member, leases: list[ShardLease]) -> set[int]:
    digests = {Claim(lease=lease, last_change=CLAIMED): "d" for lease in leases}
    return set(
        await member.heartbeat.run(
            lambda connection: lease_table.claim(connection, member.heartbeat.myself, digests)
        )
    )


async def test_of_daemons_that_claim_at_once_each_shard_has_one(cluster: LeaseCluster) -> None:
    """All have read that it is free; one of their statements finds it so."""
    members = [await cluster.join(name) for name in ("north", "south", "east")]
    for _ in range(10):
        leases = await asyncio.gather(*map(read, members))
        claimed = await asyncio.gather(*map(claim, members, leases))
        # One that two want at once may be left to the next cycle by both, and is never theirs both.
        assert sum(map(len, claimed)) == len(set().union(*claimed))
        assert await claim(members[0], await read(members[0])) == {
            lease.number for lease in leases[0]
        }


async def test_a_claim_from_an_old_view_changes_nothing(cluster: LeaseCluster) -> None:
    """The shard is free again, but another daemon had it meanwhile: read first, then claim."""
    north, south = await cluster.join("north", "sales"), await cluster.join("south", "sales")
    old = await read(north)
    (number,) = await claim(south, await read(south))
    await south.heartbeat.run(
        lambda connection: lease_table.release(connection, south.heartbeat.myself, number, 1)
    )

    assert await claim(north, old) == set()
    assert await claim(north, await read(north)) == {number}


async def test_a_daemon_that_is_gone_claims_nothing(cluster: LeaseCluster) -> None:
    """It does not know yet; what it would claim, others would take at once."""
    north, south = await cluster.join("north"), await cluster.join("south")
    await south.cycle()
    await cluster.expire(north)
    await south.cycle()

    assert await claim(north, await read(north)) == set()


async def test_a_late_renewal_and_a_declaration_do_not_both_count(cluster: LeaseCluster) -> None:
    """Either the daemon is gone and learns it, or it is not gone: in each order of the two."""
    north, south = await cluster.join("north"), await cluster.join("south")
    for number in range(20):
        await cluster.connection.execute("UPDATE daemon SET is_gone = false WHERE id = 'north'")
        last = await last_renewal(north)
        renewal = north.heartbeat.renew()
        declaration = south.heartbeat.run(partial(declare_gone, daemon_id="north", last=last))
        if number % 2:
            renewed, is_gone = await asyncio.gather(renewal, declaration)
        else:
            is_gone, renewed = await asyncio.gather(declaration, renewal)
        assert renewed != is_gone


async def test_a_daemon_that_renews_in_time_is_not_declared_gone(cluster: LeaseCluster) -> None:
    """The view in which it had expired is old by then."""
    north, south = await cluster.join("north"), await cluster.join("south")
    last = await last_renewal(north)
    await north.heartbeat.renew()

    assert not await south.heartbeat.run(partial(declare_gone, daemon_id="north", last=last))


async def test_a_shard_whose_row_is_locked_delays_no_other(cluster: LeaseCluster) -> None:
    """A daemon has died in a transaction: the others are claimed at once, this one when it ends."""
    north = await cluster.join("north")
    dying = await prepare_database(cluster.url)
    await dying.execute("BEGIN")
    await dying.execute("SELECT FROM shard WHERE name = $1 FOR UPDATE", NAMES[0])
    await north.cycle()
    await north.obey()
    assert north.publishing() == set(NAMES[1:])
    await dying.execute("ROLLBACK")
    dying.terminate()
    await north.cycle()
    await north.obey()

    assert north.publishing() == set(NAMES)


@pytest.mark.parametrize("is_draining", [True, False])
async def test_a_shard_is_named_free_only_when_its_bus_has_written_all(
    cluster: LeaseCluster, *, is_draining: bool
) -> None:
    """However many cycles pass while the bus closes, neither this daemon nor another claims it."""
    north = await cluster.join("north")
    await cluster.calm_down()
    south = await cluster.join("south")
    await south.cycle()
    if is_draining:
        await north.leases.drain()
    shard = next(name for name in NAMES if best_daemon(name, ("north", "south")) == "south")
    bus = north.hosted.pop(shard)
    bus.may_close.clear()
    releasing = asyncio.create_task(north.leases.release(shard))
    for member in (north, south, north, south):
        await member.cycle()
    assert await north.write(bus)
    assert south.leases.grants.of(shard) is None
    bus.may_close.set()
    await releasing
    await south.cycle()

    assert south.leases.grants.of(shard) is not None
    assert not await north.write(bus)


async def test_shards_that_take_long_to_open_cost_no_lease(cluster: LeaseCluster) -> None:
    """The heartbeat is renewed meanwhile, so that what is held before stays held."""
    north = await cluster.join("north")
    north.may_open.clear()
    claiming = asyncio.create_task(north.cycle())

    async def is_renewed() -> bool:
        await north.clock.advance(LEASE_SECONDS / 100)  # it may have begun to wait later than we
        return north.heartbeat.deadline.seconds_left() > LEASE_SECONDS * 0.6

    for _ in range(4):  # quarters of a lease
        await eventually(is_renewed, why="the lease was not renewed")
        north.boottime += LEASE_SECONDS / 4
        await north.clock.advance(LEASE_SECONDS / 4)
    north.may_open.set()
    await claiming
    await north.obey()

    assert north.publishing() == set(NAMES)


@pytest.mark.parametrize("successor", ["south", "north"])
async def test_who_had_a_shard_learns_at_once_that_it_was_taken(
    cluster: LeaseCluster, successor: str
) -> None:
    """It is woken, and does not rely on its own deadline until its next renewal.

    The server may judge otherwise, as where its clock was set. The successor may have its name.
    """
    north = await cluster.join("north")
    await cluster.calm_down()
    assert north.publishing() == set(NAMES)
    await cluster.declare_gone(north)
    north.boottime -= LEASE_SECONDS
    other = await cluster.join(successor)
    notified = other.notified
    await other.cycle()
    await other.obey()
    assert other.publishing() == set(NAMES)
    assert other.notified > notified
    await north.leases.cycle()
    assert north.publishing() == set()
