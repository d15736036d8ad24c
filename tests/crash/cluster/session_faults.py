"""Faults by which a server loses the sessions of a daemon that does not know it yet."""

from __future__ import annotations

from tests.app.eventually import pause
from tests.crash.cluster.scenario import Cluster


async def partition_known_to_server(scenario: Cluster) -> None:
    """Nothing passes any more, and only the server is told that the connections are over."""
    member = scenario.chance.choice(await scenario.holding_members())
    member.note_absence("cut off")
    for network in member.networks:
        network.sever()
    await scenario.until_held_by_others(member)
    await pause(scenario.chance.uniform(0, 2))
    member.release_networks()


async def freeze_briefly_and_cut(scenario: Cluster) -> None:
    """A daemon stands still for half its lease, and its connections break meanwhile."""
    member = scenario.chance.choice(await scenario.holding_members())
    member.freeze()
    await pause(0.2)
    member.cut_networks()
    await pause(scenario.lease_seconds / 2)
    member.thaw()
    await pause(scenario.lease_seconds / 2)


async def promote_beside_old_primary(scenario: Cluster) -> None:
    """The old primary lives on, without its standby, and one daemon still reaches only it."""
    member = scenario.chance.choice(await scenario.holding_members())
    old = scenario.database.ports.index(scenario.database.primary.port)
    for other in scenario.members:
        # Where one network is held the other way is the only one.
        other.networks[old if other is not member else 1 - old].hold()
    for other in scenario.members:
        other.networks[old if other is not member else 1 - old].cut()
    member.note_absence("on the old primary")
    await scenario.database.promote_beside()
    scenario.failovers.append(await scenario.until_written())
    await pause(2.0)
    await scenario.database.retire_old()
    await scenario.database.replace_standby()
    for other in scenario.members:
        other.cut_networks()
        other.release_networks()
    scenario.lead_networks()
