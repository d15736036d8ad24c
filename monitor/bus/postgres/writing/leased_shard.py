"""The state of a held shard in memory. It has no other writer, so this is all there is."""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import Protocol

from msgspec import Struct

from monitor.bus.contract import LostEnd
from monitor.bus.log_tail import LogTail
from monitor.bus.postgres.leases.lease import Lease
from monitor.bus.postgres.writing.first_entries import FirstEntries
from monitor.bus.postgres.writing.waiting_callbacks import WaitingCallbacks


class ConsumerProgress(Struct, kw_only=True, gc=False):
    """A consumer of the shard. ``dead_letters`` is None where they have to be counted."""

    position: int
    lost: int = 0
    counted_until: int = 0
    dead_letters: int | None = None
    letters_at_most: int = 0
    letter_changes: int = 0  # since the shard was opened
    is_named: bool = True  # by the configuration
    oldest: tuple[int, int] | None = None  # its first unread event: position, recorded at

    def letters_changed(self, most_added: int) -> None:
        """Let them be counted again."""
        self.dead_letters = None
        self.letters_at_most += most_added
        self.letter_changes += 1

    def count_letters(self, count: int, *, after_changes: int) -> None:
        """Remember how many were stored ``after_changes``; not where some changed since."""
        if self.letter_changes == after_changes:
            self.dead_letters = self.letters_at_most = count


class LeasedShard:
    """One shard under its lease. Changed on the event loop, after what it shows is durable.

    ``last_transaction`` is the number of the last transaction of a holder, as far as is known here;
    the next one names it, so that no statement that arrives late is executed after it.
    """

    def __init__(
        self,
        lease: Lease,
        *,
        newest_position: int,
        oldest_position: int,
        last_transaction: int,
        log_epoch: int,
    ) -> None:
        self.lease = lease
        self.number = lease.number
        self.oldest_position = oldest_position  # of the events still stored; else newest + 1
        self.cut_until = oldest_position - 1  # retention may have removed events up to here
        self.last_transaction = last_transaction
        self.log_epoch = log_epoch
        self.lost_end: LostEnd | None = None
        self.tail = LogTail(newest_position)
        self.arrivals = WaitingCallbacks()
        self.first_entries = FirstEntries()
        self.consumers: dict[str, ConsumerProgress] = {}
        self.is_over = False
        self.on_loss: Callable[[str], None] = lambda _reason: None

    @property
    def loss(self) -> str:
        """Why nothing can be written any more."""
        return self.lease.lost_reason or (
            f"the shard {self.lease.shard} is not held by this daemon any more"
        )

    def lose(self, reason: str) -> None:
        """End it: readers and those who wait for events go on at once, and fail."""
        if not self.is_over:
            self.is_over = True
            self.lease.lose(reason)
            self.tail.end()
            self.first_entries.forget()
            self.on_loss(reason)

    def keep_only(self, consumers: Collection[str], dropped: Collection[str]) -> None:
        """Drop consumers, and note which of the others no configuration names."""
        for name in dropped:
            self.consumers.pop(name, None)
        for name, progress in self.consumers.items():
            progress.is_named = name in consumers

    def count_loss(self, consumer: str, counted: tuple[int, int] | None) -> None:
        """Note what the consumer has lost by now, and up to where that is counted."""
        if counted is not None and (progress := self.consumers.get(consumer)) is not None:
            progress.lost, progress.counted_until = counted


class LeaseHolding(Protocol):
    """The owner of a held shard."""

    @property
    def leased(self) -> LeasedShard: ...
