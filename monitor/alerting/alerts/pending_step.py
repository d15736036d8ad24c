"""What alerting keeps, and what one step changes of it.

A step of the store holds the new rows, the events that they cause and the position behind what
caused them. What is kept in memory changes only once that step is durable.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import datetime
from typing import Any

import msgspec
import structlog
from msgspec import Struct

from monitor.alerting.alerts.lifecycle import AlertInstance, AlertPast, AlertSlot, Transition
from monitor.model.alerts import Alert, Silence, alert_event_id
from monitor.model.events import AlertEvent, EventType

log = structlog.get_logger()


class EndedAlert(Struct, frozen=True, kw_only=True, gc=False):
    """An episode that is over, also one that nobody was told of, and the word of its end."""

    alert: Alert
    word: str
    at: datetime  # ours


class FirstEvaluated(Struct, frozen=True, kw_only=True, gc=False):
    """Since when a rule is judged, by the clock of what it judges."""

    at: datetime


class Count(Struct, frozen=True, kw_only=True, gc=False):
    count: int


class StoredRule(Struct, frozen=True, kw_only=True, gc=False):
    """Of what kind a rule was when something was last kept under its name.

    ``considers_past`` False: the row is of a daemon that did not look for what had failed before.
    """

    rule: str
    considers_past: bool = False


class Postponed(Struct, frozen=True, kw_only=True, gc=False):
    """An event that waits for what its run is a part of, until ``due_at`` (ours)."""

    event_id: str
    rule: str
    due_at: datetime


ALERT, PAST, MEMORY, LEARNED = "e", "p", "m", "b"
SILENCE, ENDED, FIRST, TRANSITIONS, POSTPONED, RULE = "s", "h", "f", "t", "w", "r"

# What is kept as it is stored, and read only when it is used.
_UNREAD = frozenset({MEMORY, LEARNED})
_SHAPES: Mapping[str, Any] = {
    ALERT: AlertInstance,
    PAST: AlertPast,
    SILENCE: Silence,
    ENDED: EndedAlert,
    FIRST: FirstEvaluated,
    TRANSITIONS: Count,
    POSTPONED: Postponed,
    RULE: StoredRule,
}
_DECODERS = {letter: msgspec.json.Decoder(shape) for letter, shape in _SHAPES.items()}
LETTERS = (*_SHAPES, *_UNREAD)

Row = Any  # of the shape that its letter says; bytes where it is kept unread
Tables = dict[str, dict[str, Row]]  # letter -> key -> row


def empty_tables() -> Tables:
    return {letter: {} for letter in LETTERS}


def tables_of(state: Mapping[str, bytes]) -> Tables:
    """Read what the store keeps. What cannot be read is left out and said in the log."""
    tables = empty_tables()
    for name, value in state.items():
        letter, _, key = name.partition(":")
        if letter in _UNREAD:
            tables[letter][key] = value
        elif letter in _DECODERS:
            try:
                tables[letter][key] = _DECODERS[letter].decode(value)
            except (msgspec.MsgspecError, ValueError) as exc:
                log.warning("a row of alerting cannot be read", key=name, reason=str(exc))
    return tables


class Draft:
    """Changes on top of tables that themselves stay as they are."""

    def __init__(self, tables: Tables, *, wall_now: datetime) -> None:
        self.events: list[AlertEvent] = []
        self._tables = tables
        self._changed: dict[tuple[str, str], Row | None] = {}
        self._wall_now = wall_now
        self.number = 0  # of changes until now

    @property
    def is_empty(self) -> bool:
        return not self._changed and not self.events

    def get(self, letter: str, key: str) -> Row | None:
        place = (letter, key)
        if place in self._changed:
            return self._changed[place]
        return self._tables[letter].get(key)

    def put(self, letter: str, key: str, row: Row | None) -> None:
        """Keep a row, None to drop it. One that is kept already is no change."""
        if row != self.get(letter, key):
            self._changed[letter, key] = row
            self.number += 1

    def rows(self, letter: str) -> Iterator[tuple[str, Row]]:
        """Yield all rows of a letter as they are now; changes meanwhile may or may not be seen."""
        changed = {key: row for (item, key), row in self._changed.items() if item == letter}
        table = self._tables[letter]
        for key in list(table):  # the keys alone: pairs of all rows would cost more than the rest
            if key not in changed and (row := table.get(key)) is not None:
                yield key, row
        for key, row in changed.items():
            if row is not None:
                yield key, row

    def changes(self, letter: str) -> list[tuple[str, Row | None]]:
        """Return what is changed of a letter; None for what is dropped."""
        return [(key, row) for (item, key), row in self._changed.items() if item == letter]

    def held(self, fingerprint: str) -> AlertSlot:
        """Return the episode, or what is left of former ones."""
        instance: AlertInstance | None = self.get(ALERT, fingerprint)
        past: AlertPast | None = self.get(PAST, fingerprint) if instance is None else None
        return instance or past or AlertPast()

    def hold(self, fingerprint: str, before: AlertSlot, after: AlertSlot, word: str) -> None:
        """Keep what became of an episode; one that is over goes to those that have ended."""
        if after is before:
            return
        is_instance = isinstance(after, AlertInstance)
        self.put(ALERT, fingerprint, after if is_instance else None)
        self.put(PAST, fingerprint, None if is_instance or after == AlertPast() else after)
        ended = _ended(before, after)
        if ended is not None:
            row = EndedAlert(alert=ended, word=word, at=self._wall_now)
            self.put(ENDED, f"{fingerprint}:{ended.starts_at.isoformat()}", row)

    def emit(self, told: Transition) -> None:
        """Make the event of a transition and count it."""
        alert = told.alert
        self.events.append(
            AlertEvent(
                id=alert_event_id(alert.fingerprint, alert.starts_at, told.transition, told.number),
                type=EventType(f"alert.{told.transition}"),
                alert=alert,
                occurred_at=told.occurred_at,
                recorded_at=self._wall_now,
                number=told.number,
            )
        )
        key = f"{alert.name}:{told.transition}"
        count: Count | None = self.get(TRANSITIONS, key)
        self.put(TRANSITIONS, key, Count(count=1 if count is None else count.count + 1))

    def state(self) -> dict[str, bytes | None]:
        """Return the changes as the store takes them."""
        return {f"{letter}:{key}": _encoded(row) for (letter, key), row in self._changed.items()}

    def apply(self) -> None:
        """Let the tables have the changes, once they are durable."""
        for (letter, key), row in self._changed.items():
            if row is None:
                self._tables[letter].pop(key, None)
            else:
                self._tables[letter][key] = row


def _encoded(row: Row | None) -> bytes | None:
    return row if row is None or isinstance(row, bytes) else msgspec.json.encode(row)


def _ended(before: AlertSlot, after: AlertSlot) -> Alert | None:
    """Return the alert whose episode a step ended."""
    if not isinstance(before, AlertInstance) or before.alert.ends_at is not None:
        return None
    if not isinstance(after, AlertInstance):
        return before.alert
    return after.alert if after.alert.ends_at is not None else None
