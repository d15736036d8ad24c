"""What may happen to a cluster. A fault is over when it returns; its consequences may not be."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

from monitor.bus.shards import CLUSTER
from tests.app.eventually import eventually, pause
from tests.crash.cluster.member import Member
from tests.crash.cluster.newer_program import newer_program
from tests.crash.cluster.scenario import Cluster
from tests.crash.cluster.server_disk import ServerWithDisk
from tests.crash.cluster.session_faults import (
    freeze_briefly_and_cut,
    partition_known_to_server,
    promote_beside_old_primary,
)

_CLOCK_SECONDS = 1.5  # until a process sees that its clock was set
_STEPS = (1, 60, 3_600, 40 * 86_400, -1, -60, -3_600, -40 * 86_400)
_LATE_SECONDS = 0.02  # each answer of a slow database
_ROOMS_KIBIBYTES = (0, 64, 512)  # on a disk that is full for who needs more
_CATCH_SECONDS = 20.0  # within which a daemon that follows something writes something


async def vanish(scenario: Cluster) -> None:
    """The daemon that watches the cluster is killed; another one reports that once.

    It comes back as a newer program, whose schema the others do not know.
    """
    await scenario.until_none_is_reported()
    holders = await scenario.holders()
    member = next(member for member in scenario.members if member.name == holders[CLUSTER])
    before = scenario.reported(member)
    await member.kill()
    await scenario.until_held_by_others(member)
    await scenario.until_reported(member, [*before, "fired"])
    await _upgrade(scenario, member)
    await member.start()


async def vanish_in_turn(scenario: Cluster) -> None:
    """A daemon is killed, then the one that has reported that; each is reported once."""
    await scenario.until_none_is_reported()
    holders = await scenario.holders()
    watching = [member for member in scenario.members if member.name == holders[CLUSTER]]
    others = [member for member in scenario.members if member not in watching]
    gone = [scenario.chance.choice(others), *watching]
    before = [scenario.reported(member) for member in gone]
    for number, member in enumerate(gone, 1):
        await member.kill()
        for dead, words in zip(gone[:number], before, strict=False):
            await scenario.until_reported(dead, [*words, "fired"])
    await pause(scenario.chance.uniform(0, 6))  # the rule is evaluated, and the cluster read, again
    for dead, words in zip(gone, before, strict=True):
        if scenario.reported(dead) != [*words, "fired"]:
            scenario.broken.append(
                f"{dead.name} was reported as {scenario.reported(dead)} after {words}"
            )
        await dead.start()
    for dead, words in zip(gone, before, strict=True):
        await scenario.until_reported(dead, [*words, "fired", "resolved"])


async def kill(scenario: Cluster) -> None:
    """A daemon is killed; the others take over before it comes again, or do not."""
    member = await _any_holder(scenario)
    await member.kill()
    if scenario.chance.random() < 0.7:
        await scenario.until_held_by_others(member)
    else:
        await pause(scenario.chance.uniform(0, scenario.lease_seconds / 2))
    await member.start()


async def freeze(scenario: Cluster) -> None:
    """A daemon stands still until its lease is another's, then goes on as if nothing had been."""
    member = await _any_holder(scenario)
    member.note_absence("stopped")
    member.freeze()
    await scenario.until_held_by_others(member)
    await pause(scenario.chance.uniform(0, 1))
    member.thaw()


async def freeze_briefly(scenario: Cluster) -> None:
    """A daemon stands still for less than its lease lasts, or just about."""
    member = await _any_holder(scenario)
    member.freeze()
    await pause(scenario.lease_seconds * scenario.chance.uniform(0.5, 1.1))
    member.thaw()


async def freeze_before_write(scenario: Cluster) -> None:
    """A daemon stands still in mid-write; what it has sent arrives after the takeover."""
    await _freeze_at_write(scenario, answer=False)


async def freeze_after_write(scenario: Cluster) -> None:
    """A daemon stands still before it learns that its write is durable."""
    await _freeze_at_write(scenario, answer=True)


async def _freeze_at_write(scenario: Cluster, *, answer: bool) -> None:
    member = await _any_holder(scenario)
    before = scenario.counters.fenced_writes_of(member)
    await _hold_at_write(member, answer=answer)
    member.note_absence("stopped in mid-write")
    member.freeze()
    await scenario.until_held_by_others(member)
    member.release_networks()
    await pause(scenario.chance.uniform(0, 0.5))
    member.thaw()
    if not answer:
        # Whatever it finds out first: its deadline, the answer of the fence, the loss of its line.
        await eventually(
            lambda: scenario.counters.fenced_writes_of(member) > before,
            why=lambda: f"{member.name} counts no fenced write\n{member.process.log[-3000:]}",
        )


async def lose_answer(scenario: Cluster) -> None:
    """The answer to a write is lost with the connection."""
    member = await _any_holder(scenario)
    await _hold_at_write(member, answer=True)
    member.cut_networks()
    member.release_networks()


async def lose_write(scenario: Cluster) -> None:
    """A write is lost with the connection."""
    member = await _any_holder(scenario)
    await _hold_at_write(member, answer=False)
    member.cut_networks()
    member.release_networks()


async def partition(scenario: Cluster) -> None:
    """Nothing passes between a daemon and the database until others have its shards."""
    member = await _any_holder(scenario)
    member.note_absence("cut off")
    member.hold_networks()
    await scenario.until_held_by_others(member)
    await pause(scenario.chance.uniform(0, 2))
    member.release_networks()


async def partition_briefly(scenario: Cluster) -> None:
    """Nothing passes between a daemon and the database for less than the lease lasts."""
    member = await _any_holder(scenario)
    member.hold_networks()
    await pause(scenario.lease_seconds * scenario.chance.uniform(0.1, 0.9))
    member.release_networks()


async def cut(scenario: Cluster) -> None:
    """All connections of every daemon break, a few times."""
    for _ in range(scenario.chance.randrange(1, 4)):
        for member in scenario.members:
            member.cut_networks()
        await pause(scenario.chance.uniform(0, 0.5))


async def restart_database(scenario: Cluster) -> None:
    """The database ends in order and starts again."""
    await scenario.database.primary.stop()
    await pause(scenario.chance.uniform(0, 1.5 * scenario.lease_seconds))
    await scenario.database.primary.start()


async def kill_database(scenario: Cluster) -> None:
    """The database is killed and recovers."""
    await scenario.database.primary.kill()
    await pause(scenario.chance.uniform(0, 2))
    await scenario.database.primary.start()


async def freeze_database(scenario: Cluster) -> None:
    """The machine of the database hangs for a while, at times beyond the expiry."""
    scenario.database.primary.freeze()
    await pause(scenario.lease_seconds * scenario.chance.uniform(0.2, 1.5))
    scenario.database.primary.thaw()


async def promote_standby(scenario: Cluster) -> None:
    """The primary is killed for good, and its synchronous standby takes its place."""
    await scenario.database.promote()
    scenario.failovers.append(await scenario.until_written())
    await scenario.database.replace_standby()
    scenario.lead_networks()


async def promote_late_standby(scenario: Cluster) -> None:
    """A standby that has fallen behind takes the primary's place.

    A write that is given up while it waits for the standby is there on the primary for all to see.
    It may not have been acknowledged, nor may anything that was found stored already.
    """
    scenario.database.hold_replication()
    await pause(scenario.lease_seconds * scenario.chance.uniform(0.5, 2.0))
    await promote_standby(scenario)


async def fail_over_to_another_clock(scenario: Cluster) -> None:
    """The standby that takes the primary's place is on a host whose clock is ahead, or behind.

    The holder of a shard goes on with it, and a daemon that dies then is replaced as ever.
    """
    scenario.database.set_clock_of_standby(scenario.chance.choice(_STEPS))
    await pause(_CLOCK_SECONDS)
    await promote_standby(scenario)
    await scenario.until_settled()
    await kill(scenario)


async def set_clock_of_database(scenario: Cluster) -> None:
    """The clock of the database jumps, and back."""
    scenario.database.set_clock(scenario.chance.choice(_STEPS))
    await pause(scenario.lease_seconds * scenario.chance.uniform(0.5, 1.5) + _CLOCK_SECONDS)
    scenario.database.set_clock(0)


async def set_clock_of_daemon(scenario: Cluster) -> None:
    """The clock of a daemon jumps, and back; its runs and callbacks are as good as any."""
    member = await _any_holder(scenario)
    member.set_clock(scenario.chance.choice(_STEPS))
    await pause(scenario.lease_seconds * scenario.chance.uniform(0.5, 1.5) + _CLOCK_SECONDS)
    member.set_clock(0)


async def slow_database(scenario: Cluster) -> None:
    """From now on each answer of the database comes late, whatever else happens meanwhile."""
    for member in scenario.members:
        member.slow_networks(_LATE_SECONDS)


async def fill_disk_of_database(scenario: Cluster) -> None:
    """The disk of the database is full for a while, at times so full that the server ends."""
    primary = scenario.database.primary
    assert isinstance(primary, ServerWithDisk)
    primary.fill_disk(scenario.chance.choice(_ROOMS_KIBIBYTES))
    if scenario.chance.random() < 0.5:
        await primary.need_new_log_file()
    await pause(scenario.lease_seconds * scenario.chance.uniform(0.5, 1.5))
    await primary.free_disk()


async def stall_replication(scenario: Cluster) -> None:
    """No write is answered for a while, because the standby is out of reach."""
    scenario.database.hold_replication()
    await pause(scenario.lease_seconds * scenario.chance.uniform(0.2, 1.5))
    scenario.database.release_replication()


async def stop_and_start(scenario: Cluster) -> None:
    """Every daemon in turn ends in order and starts again, as in an upgrade."""
    for member in scenario.chance.sample(scenario.members, len(scenario.members)):
        await member.stop()
        await pause(scenario.chance.uniform(0, 1))
        await member.start()


async def upgrade(scenario: Cluster) -> None:
    """Every daemon in turn starts again as a newer program, whose schema the others do not know."""
    version = scenario.database.schema + 1
    for member in scenario.chance.sample(scenario.members, len(scenario.members)):
        await member.stop()
        await _upgrade(scenario, member, version)
        await member.start()
        await scenario.until_settled()
        # Until it has stored something, so that the next one takes up what it has left.
        await scenario.until_written()


async def _upgrade(scenario: Cluster, member: Member, version: int | None = None) -> None:
    """Let the daemon's next life be of a program with this schema, or with the next one."""
    scenario.database.schema = version or scenario.database.schema + 1
    folder = await asyncio.to_thread(newer_program, scenario.folder, scenario.database.schema)
    # Where this process runs there is a package monitor too, and it would be found first.
    member.process.environment |= {"PYTHONPATH": str(folder), "PYTHONSAFEPATH": "1"}


async def kill_all(scenario: Cluster) -> None:
    """All daemons are killed at once and start again."""
    await asyncio.gather(*(member.kill(is_absent=False) for member in scenario.members))
    await asyncio.gather(*(member.start() for member in scenario.members))


async def restart_broker(scenario: Cluster) -> None:
    """The broker ends and starts again, with what it has kept."""
    await scenario.broker.stop()
    await pause(scenario.chance.uniform(0, 2))
    await scenario.broker.start()


async def _any_holder(scenario: Cluster) -> Member:
    return scenario.chance.choice(await scenario.holding_members())


async def _hold_at_write(member: Member, *, answer: bool) -> None:
    """Return when one of the daemon's writes, or its answer, is held with everything after it."""
    waiting = [
        asyncio.create_task(network.hold_at_write(answer=answer)) for network in member.networks
    ]
    done, undone = await asyncio.wait(
        waiting, timeout=_CATCH_SECONDS, return_when=asyncio.FIRST_COMPLETED
    )
    for task in undone:
        task.cancel()
    assert done, f"{member.name} wrote nothing:\n{member.process.log[-3000:]}"
    member.hold_networks()


CLOCK_FAULTS = (fail_over_to_another_clock, set_clock_of_database, set_clock_of_daemon)
DISK_FAULTS = (fill_disk_of_database,)
Fault = Callable[[Cluster], Awaitable[None]]

FAULTS: dict[str, Fault] = {
    fault.__name__: fault
    for fault in (
        vanish,
        vanish_in_turn,
        kill,
        freeze,
        freeze_briefly,
        freeze_before_write,
        freeze_after_write,
        lose_answer,
        lose_write,
        partition,
        partition_briefly,
        cut,
        restart_database,
        kill_database,
        freeze_database,
        promote_standby,
        promote_late_standby,
        *CLOCK_FAULTS,
        slow_database,
        *DISK_FAULTS,
        stall_replication,
        stop_and_start,
        upgrade,
        kill_all,
        restart_broker,
        partition_known_to_server,
        freeze_briefly_and_cut,
        promote_beside_old_primary,
    )
}
