"""The events on their way to a receiver, and the state of each. No I/O and no clock."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from enum import Enum, auto

from monitor.model.events import Event, RunEvent

# Broken connections after which the oldest event is sent alone, to learn whether it is the cause.
SINGLY_AFTER = 2


class EntryState(Enum):
    """Where one event is on its way."""

    WAITING = auto()  # to be sent, perhaps again
    SENT = auto()
    PROCESSED = auto()  # acknowledged, refused, or nothing for this receiver
    FAILED = auto()  # not now


class WindowEntry:
    """One position of the log on its way. A gap has no event and is processed from the start."""

    __slots__ = (
        "breaks",
        "epoch",
        "event",
        "failures",
        "position",
        "reason",
        "sent_at",
        "sent_in_pass",
        "state",
        "strikes",
        "was_alone",
    )

    def __init__(self, position: int, event: Event | None, epoch: int) -> None:
        self.position = position
        self.event = event
        self.epoch = epoch  # of the log
        self.state = EntryState.WAITING if event is not None else EntryState.PROCESSED
        self.reason: str | None = None  # why it became a dead letter
        self.failures = 0
        self.breaks = 0  # failures by a broken connection
        self.strikes = 0  # failures for which this event itself is the likely cause
        self.sent_in_pass = 0  # 0 where it was never sent
        self.was_alone = False
        self.sent_at = 0.0  # monotonic


class DeliveryWindow:
    """Entries in the order of the log. A pass lasts from one rewind to the next."""

    def __init__(self) -> None:
        self._entries: deque[WindowEntry] = deque()
        self._pass = 1
        self.sent = 0  # without an answer so far
        self.unprocessed = 0

    def __len__(self) -> int:
        return len(self._entries)

    def append(self, position: int, event: Event | None, epoch: int = 0) -> None:
        """Add the next position of the log; None stands for positions that retention removed."""
        self._entries.append(WindowEntry(position, event, epoch))
        self.unprocessed += event is not None

    @property
    def sends_singly(self) -> bool:
        """True while only the oldest entry may be sent."""
        return bool(self._entries) and self._entries[0].breaks >= SINGLY_AFTER

    def waiting(self) -> Iterator[WindowEntry]:
        """Yield what may be sent now, oldest first. Nothing may be added meanwhile."""
        if self.sends_singly:
            head = self._entries[0]
            if head.state is EntryState.WAITING:
                yield head
            return
        for entry in self._entries:
            if entry.state is EntryState.WAITING:
                yield entry

    def mark_sent(self, entry: WindowEntry, *, at: float) -> None:
        entry.state = EntryState.SENT
        entry.sent_at = at
        entry.sent_in_pass = self._pass
        entry.was_alone = self.sends_singly
        self.sent += 1

    def mark_skipped(self, entry: WindowEntry) -> None:
        """It was nothing for the receiver, so it is never sent again."""
        self.mark_processed(entry, reason=None)
        entry.sent_in_pass = 0

    def mark_processed(self, entry: WindowEntry, *, reason: str | None) -> None:
        """The receiver took it, or refused it for the ``reason``."""
        entry.state = EntryState.PROCESSED
        entry.reason = reason
        self.sent -= 1
        self.unprocessed -= 1

    def mark_failed(self, entry: WindowEntry, *, is_connection_lost: bool) -> None:
        """The receiver did not take it now."""
        entry.state = EntryState.FAILED
        entry.failures += 1
        self.sent -= 1
        if is_connection_lost:
            entry.breaks += 1
            entry.strikes += entry.was_alone

    def take_processed(self) -> list[WindowEntry]:
        """Remove and return the unbroken prefix of processed entries."""
        taken: list[WindowEntry] = []
        while self._entries and self._entries[0].state is EntryState.PROCESSED:
            taken.append(self._entries.popleft())
        return taken

    def failures_of_the_oldest(self) -> int:
        """Return how often the first failed entry has failed so far; 0 if none has."""
        return next(
            (entry.failures for entry in self._entries if entry.state is EntryState.FAILED), 0
        )

    def rewind(self, *, attempts: int) -> None:
        """Prepare to send again whatever failed, and what must not overtake it.

        Of each run and pipeline, all is sent again from the first entry that failed, also what
        was acknowledged after it. An entry with ``attempts`` strikes becomes a dead letter.
        To be called when no entry is without an answer.
        """
        self._strike_the_overtaken()
        resent_keys: set[str] = set()
        for entry in self._entries:
            if entry.event is None:
                continue
            if entry.state is EntryState.FAILED and entry.strikes >= attempts:
                entry.state = EntryState.PROCESSED
                self.unprocessed -= 1
                entry.reason = f"failed {entry.strikes} times while others were taken"
                continue
            keys = order_keys(entry.event)
            was_sent = entry.sent_in_pass > 0
            if entry.state is EntryState.FAILED or (was_sent and not resent_keys.isdisjoint(keys)):
                self.unprocessed += entry.state is EntryState.PROCESSED
                entry.state = EntryState.WAITING
                entry.reason = None
                resent_keys.update(keys)
        self._pass += 1

    def _strike_the_overtaken(self) -> None:
        # A receiver that took a later event in this pass works, so the cause is this event.
        was_overtaken = False
        for entry in reversed(self._entries):
            if entry.state is EntryState.FAILED and was_overtaken:
                entry.strikes += 1
            elif entry.state is EntryState.PROCESSED and entry.sent_in_pass == self._pass:
                was_overtaken = True


def order_keys(event: Event) -> tuple[str, ...]:
    """Return what the event must stay in order with: its subject, and its pipeline if known.

    Both, because a run's pipeline may become known between two of its events.
    """
    if isinstance(event, RunEvent) and event.run.pipeline is not None:
        key, pipeline = event.run.key, event.run.pipeline
        return event.subject, f"{key.workspace}/{key.kind}/{pipeline.id}"
    return (event.subject,)
