"""The lease that this process may rely on without asking: its shard, and until when.

The deadline belongs to the heartbeat, which is the only one to move it; a lease belongs to the bus
of its shard, and what finds out that it is lost says so by `Lease.lose`.
"""

from __future__ import annotations

import math
from collections.abc import Callable

from monitor.model.clock import boottime

# Of the expiry: how often the heartbeat is renewed.
RENEWALS = 4
# Of the expiry: what was begun before the deadline ends within it, and clocks may differ by less.
_MARGIN = 1 / 3


class LeaseDeadline:
    """Until when the heartbeat of this daemon surely counts, by a clock of this machine.

    The server counts the expiry from when it stores a renewal; that is later than when the renewal
    was sent, from which this counts. It ends earlier by a margin of a third.
    """

    def __init__(self, *, lease_seconds: float, boottime: Callable[[], float] = boottime) -> None:
        self.boottime = boottime
        self._valid_seconds = lease_seconds * (1 - _MARGIN)
        self._until = -math.inf

    def renewed(self, sent_at: float) -> None:
        """Count from a renewal that the server has confirmed; ``sent_at`` is of `boottime`."""
        self._until = max(self._until, sent_at + self._valid_seconds)

    def revoke(self) -> None:
        """Count as passed until the next renewal."""
        self._until = -math.inf

    def seconds_left(self) -> float:
        """Return how long it is until the deadline; 0 where it has passed."""
        return max(0.0, self._until - self.boottime())

    def has_passed(self) -> bool:
        return self.boottime() >= self._until


class Lease:
    """One shard that this daemon has claimed, in one epoch. Lost, it is never valid again."""

    def __init__(
        self,
        *,
        shard: str,
        number: int,
        holder: str,
        epoch: int,
        deadline: LeaseDeadline,
        on_loss: Callable[[Lease, str], None] | None = None,
    ) -> None:
        """``on_loss`` is called once, with the reason."""
        self.shard = shard
        self.number = number
        self.holder = holder
        self.epoch = epoch
        self.lost_reason: str | None = None
        self._deadline = deadline
        self._on_loss = on_loss

    @property
    def is_lost(self) -> bool:
        return self.lost_reason is not None

    def may_publish(self) -> bool:
        """True while the shard is surely ours, whatever the server would say."""
        return self.lost_reason is None and not self._deadline.has_passed()

    def lose(self, reason: str) -> None:
        """Say that the shard is not ours any more."""
        if self.lost_reason is not None:
            return
        self.lost_reason = reason
        if self._on_loss is not None:
            self._on_loss(self, reason)
