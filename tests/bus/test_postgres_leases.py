"""Leases of daemons that share a database: who has which shard, and since when no other daemon."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from monitor.bus.postgres.leases.rendezvous import best_daemon
from monitor.bus.shards import ShardGranted, ShardLost
from monitor.model.errors import BusLockedError, BusSchemaError, BusUnavailableError
from tests.bus.postgres_members import (
    LEASE_SECONDS,
    NAMES,
    LeaseCluster,
    Member,
    lease_cluster,
    shards,
)


@pytest.fixture
async def cluster(empty_database: str) -> AsyncIterator[LeaseCluster]:
    async with lease_cluster(empty_database) as cluster:
        yield cluster


async def test_a_lone_daemon_gets_every_shard(cluster: LeaseCluster) -> None:
    """One cycle grants all; they may publish until the deadline, and not a moment longer."""
    north = await cluster.join("north")
    await north.cycle()
    changes = await north.obey()

    assert [type(change) for change in changes] == [ShardGranted] * len(NAMES)
    assert north.publishing() == set(NAMES)
    assert await cluster.epochs() == dict.fromkeys(NAMES, 1)
    assert north.metric("shards_held") == len(NAMES)
    north.boottime += LEASE_SECONDS * 2 / 3
    assert north.publishing() == set()


async def test_a_daemon_that_comes_gets_its_share_without_waiting(cluster: LeaseCluster) -> None:
    """The holder sees who is to have what, hands it over, and keeps the rest."""
    north = await cluster.join("north")
    await north.cycle()
    await north.obey()
    south = await cluster.join("south")
    await south.cycle()
    assert await south.changes() == []

    await north.cycle()
    changes = await north.obey()
    own = {name for name in NAMES if best_daemon(name, ("north", "south")) == "south"}
    assert own
    assert north.reassigned(changes) == dict.fromkeys(own, "south")
    # Nothing had to expire: the next cycle, which a notification begins at once, claims them.
    await south.cycle()
    await south.obey()
    assert south.publishing() == own
    assert north.publishing() == set(NAMES) - own
    changed = await cluster.connection.fetch("SELECT name, last_change FROM shard")
    assert {row["name"] for row in changed if row["last_change"] == "handed over"} == own
    assert north.notified


async def test_the_shards_of_a_dead_daemon_are_taken_over_when_its_lease_expires(
    cluster: LeaseCluster,
) -> None:
    """Not before; then the epoch is raised, and the dead one's writes are refused."""
    north, south = await cluster.join("north"), await cluster.join("south")
    await cluster.calm_down()
    before, dead = await cluster.epochs(), dict(north.hosted)
    assert dead
    north.kill()
    await south.cycle()
    assert await south.obey() == []

    await cluster.expire(north)
    await south.cycle()
    await south.obey()
    assert south.publishing() == set(NAMES)
    after = await cluster.epochs()
    assert {name: after[name] - before[name] for name in NAMES} == {
        name: int(name in dead) for name in NAMES
    }
    assert south.metric("takeovers_total") == len(dead)
    assert not any([await north.write(bus) for bus in dead.values()])
    assert all([await south.write(bus) for bus in south.hosted.values()])


async def test_a_daemon_that_was_stopped_over_its_expiry_starts_over(
    cluster: LeaseCluster,
) -> None:
    """Its shards are lost at once; afterwards it gets its share again, by handover."""
    north, south = await cluster.join("north"), await cluster.join("south")
    await cluster.calm_down()
    own = set(north.hosted)
    await cluster.expire(north)
    assert north.publishing() == set()
    await south.cycle()
    await south.obey()

    await north.cycle()
    changes = await north.obey()
    assert {change.shard for change in changes if isinstance(change, ShardLost)} == own
    assert north.metric("lease_renewals_total", outcome="gone") == 1
    await cluster.calm_down()
    assert north.publishing() == own


async def test_after_an_outage_of_the_database_each_gets_its_own_shards_again(
    cluster: LeaseCluster,
) -> None:
    """The first that is back leaves the others the time of a lease, and takes what stays away."""
    members = [await cluster.join(name) for name in ("north", "south", "west")]
    north, south, west = members
    await cluster.calm_down()
    before = {member.name: set(member.hosted) for member in members}
    await cluster.be_away()
    west.kill()
    cluster.members.remove(west)
    await cluster.calm_down()

    assert {member.name: member.publishing() for member in (north, south)} == {
        name: own for name, own in before.items() if name != "west"
    }
    assert north.metric("takeovers_total") + south.metric("takeovers_total") == 0
    await cluster.calm_down()
    assert north.publishing() | south.publishing() == set(NAMES)
    assert north.metric("takeovers_total") + south.metric("takeovers_total") == len(before["west"])


async def test_a_renewal_that_is_only_late_takes_the_shards_again(cluster: LeaseCluster) -> None:
    """The deadline had passed here, so they are lost; no other took them, so they come back."""
    north = await cluster.join("north", "sales")
    await cluster.calm_down()
    north.boottime += LEASE_SECONDS * 2 / 3
    await north.cycle()
    lost = await north.obey()
    await north.cycle()
    granted = await north.obey()

    assert [type(change) for change in (*lost, *granted)] == [ShardLost, ShardGranted]
    assert north.epochs == [("sales", 1), ("sales", 2)]
    assert north.publishing() == {"sales"}


async def test_a_lost_shard_is_claimed_again_only_after_its_host_has_ended_it(
    cluster: LeaseCluster,
) -> None:
    """However many cycles pass: two lives of a shard never meet in one process."""
    north = await cluster.join("north", "sales")
    await cluster.calm_down()
    north.boottime += LEASE_SECONDS
    for _ in range(3):
        await north.cycle()
    assert [type(change) for change in await north.changes()] == [ShardLost]
    await north.leases.release("sales")
    await north.cycle()
    assert [type(change) for change in await north.changes()] == [ShardGranted]


async def test_a_draining_daemon_hands_all_over(cluster: LeaseCluster) -> None:
    """The others claim each shard as soon as it is released, and nothing comes back."""
    north, south = await cluster.join("north"), await cluster.join("south")
    await cluster.calm_down()
    await north.leases.drain()
    for shard in list(north.hosted):
        await north.leases.release(shard)
        del north.hosted[shard]
        await south.cycle()
        await south.obey()
        assert shard in south.publishing()
    await north.cycle()

    assert await north.changes() == []
    assert south.publishing() == set(NAMES)
    assert south.metric("takeovers_total") == 0


async def test_a_daemon_that_ends_leaves_at_once(cluster: LeaseCluster) -> None:
    """After its end no daemon waits for its lease, and none counts it among the dead."""
    north, south = await cluster.join("north"), await cluster.join("south")
    await cluster.calm_down()
    await north.leave()
    cluster.members.remove(north)
    await south.cycle()
    await south.obey()

    assert south.publishing() == set(NAMES)
    assert await cluster.connection.fetchval("SELECT count(*) FROM daemon") == 1


async def test_another_configuration_of_a_shard_waits_until_its_holder_is_gone(
    cluster: LeaseCluster,
) -> None:
    """A daemon whose digest differs neither takes a shard nor is handed it; then it takes over."""
    north = await cluster.join("north", digest="old")
    await cluster.calm_down()
    south = await cluster.join("south", digest="new")
    await cluster.calm_down()
    assert (len(north.publishing()), south.publishing()) == (len(NAMES), set())
    east = await cluster.join("east", digest="old")
    await cluster.calm_down()
    assert east.publishing()

    await north.leave()
    await east.leave()
    cluster.members = [south]
    await cluster.calm_down()
    assert south.publishing() == set(NAMES)


async def test_a_new_configuration_of_the_holder_stays_with_it(cluster: LeaseCluster) -> None:
    """A reload changes the digest of what is held; a shard that is named no more is given back."""
    north, south = await cluster.join("north"), await cluster.join("south")
    await cluster.calm_down()
    own = set(north.hosted)
    dropped, *kept = sorted(own)
    await north.leases.define(shards(*sorted(set(NAMES) - {dropped}), digest="new"))
    await north.cycle()
    changes = await north.obey()
    assert north.reassigned(changes) == {dropped: ""}
    await cluster.calm_down()

    assert north.publishing() == set(kept)
    assert dropped in south.publishing()


async def test_a_shard_that_is_given_up_goes_to_another_daemon(cluster: LeaseCluster) -> None:
    """The other one has it at once; the one that failed waits longer each time."""
    north, south = await cluster.join("north"), await cluster.join("south")
    await cluster.calm_down()
    shard = min(north.hosted)
    await north.leases.give_up(shard, ValueError("no room"))
    del north.hosted[shard]
    await south.cycle()
    await south.obey()
    assert shard in south.publishing()

    await north.clock.advance(300)
    await cluster.calm_down()
    assert shard in north.publishing()


async def test_a_lone_daemon_tries_a_shard_again_after_growing_waits(
    cluster: LeaseCluster,
) -> None:
    """Not in a tight circle, and not never: 5 s, 10 s and so on, at most 300 s."""
    north = await cluster.join("north", "sales")
    await cluster.calm_down()
    for seconds in (5, 10, 20):
        await north.leases.give_up("sales", ValueError("no room"))
        await north.clock.advance(seconds - 3)
        await north.cycle()  # advances by a quarter of the lease, 2.25 s
        assert await north.changes() == []
        await north.cycle()
        assert [type(change) for change in await north.obey()] == [ShardGranted]


async def test_one_shard_that_cannot_be_opened_leaves_the_others(cluster: LeaseCluster) -> None:
    """A damaged shard is given up for a while; a server that is away is not the shard's problem."""
    north = await cluster.join("north", "sales", "stock")
    north.fails_to_open = BusUnavailableError("away")
    with pytest.raises(BusUnavailableError):
        await north.cycle()
    north.fails_to_open = BusSchemaError("damaged")
    await north.cycle()
    north.fails_to_open = None
    await north.cycle()
    assert await north.obey() == []
    await north.clock.advance(5)
    await north.cycle()
    await north.obey()

    assert north.publishing() == {"sales", "stock"}


async def test_two_processes_cannot_have_one_name(cluster: LeaseCluster) -> None:
    """The second one sees the first renew, and is refused with a message that names it."""
    north = await cluster.join("north")
    second = Member(cluster.url, "north")
    cluster.members.append(second)

    async def sleep(_seconds: float) -> None:
        await north.cycle()

    second.clock.sleep = sleep  # type: ignore[method-assign, assignment]  # the first goes on meanwhile
    with pytest.raises(BusLockedError, match=r"storage\.daemon: another daemon, process \d+ on"):
        await second.heartbeat.register()


async def test_the_successor_of_a_dead_daemon_waits_for_its_lease(cluster: LeaseCluster) -> None:
    """A process elsewhere that does not renew any more is waited for, and then followed."""
    north = await cluster.join("north")
    await cluster.calm_down()
    north.kill()
    second = Member(cluster.url, "north")
    cluster.members = [second]
    waits: list[float] = []

    async def sleep(seconds: float) -> None:
        waits.append(seconds)
        if len(waits) == 3:
            await second.clock.advance(LEASE_SECONDS)

    second.clock.sleep = sleep  # type: ignore[method-assign]  # time is the test's
    await second.join(shards(*NAMES))
    assert len(waits) == 3
    await second.cycle()
    await second.obey()
    assert second.publishing() == set(NAMES)


async def test_the_successor_of_a_process_of_this_machine_that_is_gone_waits_for_nothing(
    cluster: LeaseCluster,
) -> None:
    """Same boot, same process namespace, and no such process any more."""
    north = await cluster.join("north")
    process = north.heartbeat.myself.process
    where = process.rsplit("/", 2)[0]
    await cluster.connection.execute("UPDATE daemon SET process = $1", f"{where}/4194305/1")
    await cluster.join("north")  # the clock never moves

    # The number may have been given to another process by now: its start tells them apart.
    number = process.rsplit("/", 2)[1]
    await cluster.connection.execute("UPDATE daemon SET process = $1", f"{where}/{number}/1")
    await cluster.join("north")


async def test_a_daemon_whose_name_was_taken_meanwhile_ends(cluster: LeaseCluster) -> None:
    """Stopped over its expiry, it finds a successor of its name alive, and does not go on."""
    north = await cluster.join("north")
    await cluster.declare_gone(north)
    second = await cluster.join("north")

    async def sleep(_seconds: float) -> None:
        await second.cycle()

    north.boottime += LEASE_SECONDS
    await north.clock.advance(LEASE_SECONDS)
    north.clock.sleep = sleep  # type: ignore[method-assign, assignment]  # the successor goes on meanwhile
    with pytest.raises(BusLockedError, match="uses the name north"):
        await north.leases.cycle()
    assert north.publishing() == set()
