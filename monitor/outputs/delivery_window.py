"""Which events are on their way to a receiver, and in what state each is. No I/O and no clock."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from enum import Enum, auto

from monitor.model.events import Event, RunEvent

# Broken connections after which the oldest event is sent alone, to learn whether it is the cause.
CAREFUL_AFTER = 2


class State(Enum):
    """Where one event is on its way."""

    WAITING = auto()  # to be handed on, perhaps again
    SENT = auto()
    SETTLED = auto()  # acknowledged, refused, or nothing for this receiver
    FAILED = auto()  # not now


class Entry:
    """One place of the log on its way. A gap has no event and is settled from the start."""

    __slots__ = (
        "breaks",
        "event",
        "failures",
        "position",
        "reason",
        "sent_at",
        "sent_in_round",
        "state",
        "strikes",
        "was_alone",
    )

    def __init__(self, position: int, event: Event | None) -> None:
        self.position = position
        self.event = event
        self.state = State.WAITING if event is not None else State.SETTLED
        self.reason: str | None = None  # why it became a dead letter
        self.failures = 0
        self.breaks = 0  # failures by a broken connection
        self.strikes = 0  # failures for which this event itself is the likely cause
        self.sent_in_round = 0  # 0 where it was never handed on
        self.was_alone = False
        self.sent_at = 0.0  # monotonic


class Window:
    """Entries in the order of the log. A round lasts from one rewind to the next."""

    def __init__(self) -> None:
        self._entries: deque[Entry] = deque()
        self._round = 1
        self.sent = 0  # without an answer so far
        self.unsettled = 0

    def __len__(self) -> int:
        return len(self._entries)

    def append(self, position: int, event: Event | None) -> None:
        """Add the next place of the log; None stands for places that retention took."""
        self._entries.append(Entry(position, event))
        self.unsettled += event is not None

    @property
    def is_careful(self) -> bool:
        """True while only the oldest entry may be handed on."""
        return bool(self._entries) and self._entries[0].breaks >= CAREFUL_AFTER

    def waiting(self) -> Iterator[Entry]:
        """Yield what may be handed on now, oldest first. Nothing may be added meanwhile."""
        if self.is_careful:
            head = self._entries[0]
            if head.state is State.WAITING:
                yield head
            return
        for entry in self._entries:
            if entry.state is State.WAITING:
                yield entry

    def mark_sent(self, entry: Entry, *, at: float) -> None:
        entry.state = State.SENT
        entry.sent_at = at
        entry.sent_in_round = self._round
        entry.was_alone = self.is_careful
        self.sent += 1

    def mark_skipped(self, entry: Entry) -> None:
        """It was nothing for the receiver, so it is never handed on again."""
        self.mark_settled(entry, reason=None)
        entry.sent_in_round = 0

    def mark_settled(self, entry: Entry, *, reason: str | None) -> None:
        """The receiver took it, or refused it for the ``reason``."""
        entry.state = State.SETTLED
        entry.reason = reason
        self.sent -= 1
        self.unsettled -= 1

    def mark_failed(self, entry: Entry, *, is_connection_lost: bool) -> None:
        """The receiver did not take it now."""
        entry.state = State.FAILED
        entry.failures += 1
        self.sent -= 1
        if is_connection_lost:
            entry.breaks += 1
            entry.strikes += entry.was_alone

    def take_settled(self) -> list[Entry]:
        """Remove and return the unbroken prefix of settled entries."""
        taken: list[Entry] = []
        while self._entries and self._entries[0].state is State.SETTLED:
            taken.append(self._entries.popleft())
        return taken

    def failures_of_the_oldest(self) -> int:
        """Return how often the first failed entry has failed so far; 0 if none has."""
        return next((entry.failures for entry in self._entries if entry.state is State.FAILED), 0)

    def rewind(self, *, attempts: int) -> None:
        """Prepare to hand on again whatever failed, and what must not overtake it.

        Of each run and pipeline, all is told again from the first entry that failed, also what
        was acknowledged behind it. An entry with ``attempts`` strikes settles as a dead letter.
        To be called when no entry is without an answer.
        """
        self._strike_the_overtaken()
        held_back: set[str] = set()
        for entry in self._entries:
            if entry.event is None:
                continue
            if entry.state is State.FAILED and entry.strikes >= attempts:
                entry.state = State.SETTLED
                self.unsettled -= 1
                entry.reason = f"failed {entry.strikes} times while others were taken"
                continue
            keys = order_keys(entry.event)
            was_handed_on = entry.sent_in_round > 0
            if entry.state is State.FAILED or (was_handed_on and not held_back.isdisjoint(keys)):
                self.unsettled += entry.state is State.SETTLED
                entry.state = State.WAITING
                entry.reason = None
                held_back.update(keys)
        self._round += 1

    def _strike_the_overtaken(self) -> None:
        # A receiver that took a later event in this round is alive, so the fault is elsewhere.
        was_overtaken = False
        for entry in reversed(self._entries):
            if entry.state is State.FAILED and was_overtaken:
                entry.strikes += 1
            elif entry.state is State.SETTLED and entry.sent_in_round == self._round:
                was_overtaken = True


def order_keys(event: Event) -> tuple[str, ...]:
    """Return what the event must stay in order with: its subject, and its pipeline if told.

    Both, because a run's pipeline may become known between two of its events.
    """
    if isinstance(event, RunEvent) and event.run.pipeline is not None:
        key, pipeline = event.run.key, event.run.pipeline
        return event.subject, f"{key.workspace}/{key.kind}/{pipeline.id}"
    return (event.subject,)
