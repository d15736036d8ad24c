"""Faults by which a server loses the sessions of a daemon that does not know it yet."""

from __future__ import annotations

from tests.app.eventually import pause
from tests.crash.cluster.scene import Cluster


async def partition_known_to_server(scene: Cluster) -> None:
    """Nothing passes any more, and only the server is told that the connections are over."""
    member = scene.chance.choice(await scene.holding_members())
    member.note_absence("cut off")
    for network in member.networks:
        network.sever()
    await scene.until_held_by_others(member)
    await pause(scene.chance.uniform(0, 2))
    member.release_networks()


async def freeze_briefly_and_cut(scene: Cluster) -> None:
    """A daemon stands still for half its lease, and its connections break meanwhile."""
    member = scene.chance.choice(await scene.holding_members())
    member.freeze()
    await pause(0.2)
    member.cut_networks()
    await pause(scene.lease_seconds / 2)
    member.thaw()
    await pause(scene.lease_seconds / 2)


async def promote_beside_old_primary(scene: Cluster) -> None:
    """The old primary lives on, without its standby, and one daemon still reaches only it."""
    member = scene.chance.choice(await scene.holding_members())
    old = scene.database.ports.index(scene.database.primary.port)
    for other in scene.members:
        # Where one network is held the other way is the only one.
        other.networks[old if other is not member else 1 - old].hold()
    for other in scene.members:
        other.networks[old if other is not member else 1 - old].cut()
    member.note_absence("on the old primary")
    await scene.database.promote_beside()
    scene.failovers.append(await scene.until_written())
    await pause(2.0)
    await scene.database.retire_old()
    await scene.database.replace_standby()
    for other in scene.members:
        other.cut_networks()
        other.release_networks()
    scene.lead_networks()
