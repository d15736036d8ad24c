"""What a daemon knows of a shard that it holds. Nobody else writes it, so it is all there is."""

from __future__ import annotations

from msgspec import Struct

from monitor.bus.log_tail import LogTail
from monitor.bus.postgres.lease import Lease
from monitor.bus.postgres.waiting_callbacks import WaitingCallbacks


class Progress(Struct, kw_only=True, gc=False):
    """A consumer of the shard. ``dead_letters`` is None where they have to be counted."""

    position: int
    lost: int = 0
    counted_until: int = 0
    dead_letters: int | None = None


class HeldShard:
    """One shard under its lease. Changed on the event loop, after what it shows is durable.

    ``last_transaction`` is the number of the last transaction of a holder, as far as is known here;
    the next one names it, so that no statement that arrives late is executed behind it.
    """

    def __init__(
        self,
        lease: Lease,
        *,
        newest_position: int,
        oldest_position: int,
        last_transaction: int,
    ) -> None:
        self.lease = lease
        self.number = lease.number
        self.oldest_position = oldest_position  # of the events still stored; else newest + 1
        self.last_transaction = last_transaction
        self.tail = LogTail(newest_position)
        self.arrivals = WaitingCallbacks()
        self.consumers: dict[str, Progress] = {}

    def lose(self, reason: str) -> None:
        """End it: readers and those who wait for events go on at once, and fail."""
        self.lease.lose(reason)
        self.tail.end()
