"""Decides what a daemon does about a shard, by who is alive and who holds it. Pure.

Several daemons decide at the same time from views that differ; each claim names the epoch that it
has read, so the server lets one of them through.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from uuid import UUID

from monitor.bus.postgres.leases.rendezvous import best_daemon

HANDED_OVER = "handed over"
CLAIMED = "claimed"
TAKEN_OVER = "taken over"


@dataclass(frozen=True, slots=True, kw_only=True)
class LivingDaemon:
    """A daemon whose heartbeat counts, and the shards that it would hold, with their digests.

    One that drains would hold none; one that has given up a shard does not name it for a while.
    """

    id: str
    incarnation: UUID  # of one process; a restarted daemon has another
    digests: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class ShardLease:
    """The row of a shard. ``digest`` is that of its last holder; epoch 0 was never held."""

    number: int
    name: str
    holder: str | None
    incarnation: UUID | None
    epoch: int
    digest: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Claim:
    """Take the shard, if its row is still as it was read."""

    lease: ShardLease
    last_change: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ReleaseUnused:
    """The row says that it is this daemon's, but nothing here hosts it, and another is to."""

    lease: ShardLease


@dataclass(frozen=True, slots=True, kw_only=True)
class Forfeit:
    """The row does not name this daemon, in this epoch, any more."""

    lease: ShardLease


LeaseAction = Claim | ReleaseUnused | Forfeit


class LeaseView:
    """Who is alive, as this daemon has read it. ``me`` may be absent: then it claims nothing."""

    def __init__(self, *, me: str, incarnation: UUID, daemons: Collection[LivingDaemon]) -> None:
        self.me = me
        self.incarnation = incarnation
        self.daemons = {daemon.id: daemon for daemon in daemons}

    def action(self, lease: ShardLease, *, hosted_epoch: int | None) -> LeaseAction | None:
        """Return what to do about a shard, ``hosted_epoch`` being that of its bus here, if any."""
        is_ours = lease.holder == self.me and lease.incarnation == self.incarnation
        if hosted_epoch is not None:
            is_current = is_ours and lease.epoch == hosted_epoch
            return None if is_current else Forfeit(lease=lease)
        if not is_ours and self._is_alive(lease.holder, lease.incarnation):
            return None
        if self._heir(lease) == self.me:
            return Claim(lease=lease, last_change=self._how(lease))
        return ReleaseUnused(lease=lease) if is_ours else None

    def successor(self, shard: str) -> str | None:
        """Return the daemon that is to have a shard that this one holds; None: this one, or none.

        Only a daemon that has the same digest: while the holder lives, no other configuration of
        the shard takes its place.
        """
        ours = self.daemons.get(self.me)
        digest = None if ours is None else ours.digests.get(shard)
        best = None if digest is None else best_daemon(shard, self._with(shard, digest))
        return None if best == self.me else best

    def _heir(self, lease: ShardLease) -> str | None:
        """Return who is to have a shard without a holder: at first the daemon with its digest."""
        same = self._with(lease.name, lease.digest)
        return best_daemon(lease.name, same or self._with(lease.name, None))

    def _with(self, shard: str, digest: str | None) -> list[str]:
        return [
            daemon.id
            for daemon in self.daemons.values()
            if shard in daemon.digests and digest in {None, daemon.digests[shard]}
        ]

    def _is_alive(self, holder: str | None, incarnation: UUID | None) -> bool:
        daemon = None if holder is None else self.daemons.get(holder)
        return daemon is not None and daemon.incarnation == incarnation

    def _how(self, lease: ShardLease) -> str:
        if lease.holder is None:
            return HANDED_OVER if lease.epoch else CLAIMED
        return CLAIMED if lease.holder == self.me else TAKEN_OVER
