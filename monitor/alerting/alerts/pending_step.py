"""The stored tables of alerting, and what one step changes of them.

A step of the store contains the new rows, the events that they cause and the position after the
events that caused them. The tables in memory change only once that step is durable.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from collections.abc import Set as AbstractSet
from datetime import datetime
from typing import Any, TypeVar

import msgspec
import structlog
from msgspec import Struct

from monitor.alerting.alerts.instance import (
    AlertInstance,
    FingerprintHistory,
    FingerprintState,
    LifecycleOutcome,
    StepWord,
)
from monitor.model.alerts import Alert, Silence, alert_event_id
from monitor.model.bounded_memory import BoundedMemory
from monitor.model.events import AlertEvent, EventType, WorkspaceEvent
from monitor.model.slices import in_slices

log = structlog.get_logger()

T = TypeVar("T")


class EndedAlert(Struct, frozen=True, kw_only=True, gc=False):
    """An alert that ended, also one without notifications, and the word of its last step."""

    alert: Alert
    word: StepWord
    at: datetime  # ours


class FirstEvaluated(Struct, frozen=True, kw_only=True, gc=False):
    """When a rule was evaluated first, by the clock of its subjects."""

    at: datetime


class TransitionCount(Struct, frozen=True, kw_only=True, gc=False):
    count: int


class StoredRule(Struct, frozen=True, kw_only=True, gc=False):
    """The kind of a rule when something was last stored under its name.

    ``considers_past`` False: stored by a daemon that did not consider earlier failures.
    """

    rule: str
    considers_past: bool = False


ALERT, PAST, MEMORY, LEARNED = "e", "p", "m", "b"
SILENCE, ENDED, FIRST, TRANSITIONS, RULE = "s", "h", "f", "t", "r"

# Kept as they are stored, most of them. So many that were used last are kept decoded as well: of
# what was learned of a pipeline up to 20 kB, else a tenth of that.
_DECODED = {MEMORY: 8_000, LEARNED: 2_000}
_SHAPES: Mapping[str, Any] = {
    ALERT: AlertInstance,
    PAST: FingerprintHistory,
    SILENCE: Silence,
    ENDED: EndedAlert,
    FIRST: FirstEvaluated,
    TRANSITIONS: TransitionCount,
    RULE: StoredRule,
}
_DECODERS = {table: msgspec.json.Decoder(shape) for table, shape in _SHAPES.items()}
_TABLES = (*_SHAPES, *_DECODED)
_NO_HISTORY = FingerprintHistory()

Row = Any  # of the shape of its table; bytes where it is kept encoded


class Tables(dict[str, dict[str, Row]]):
    """The stored rows, by table and key."""

    def __init__(self) -> None:
        super().__init__({table: {} for table in _TABLES})
        # With the bytes that each was decoded from, so that it is never another row's.
        self._decoded: dict[str, BoundedMemory[str, tuple[bytes, Any]]] = {
            table: BoundedMemory(bound) for table, bound in _DECODED.items()
        }

    def decoded(self, table: str, key: str, shape: type[T]) -> T | None:
        """Return a row that is kept encoded; None where there is none that can be decoded."""
        stored = self[table].get(key)
        if stored is None:
            return None
        kept = self._decoded[table].get(key)
        if kept is not None and kept[0] is stored:
            row: T = kept[1]
            return row
        try:
            row = msgspec.json.decode(stored, type=shape)
        except (msgspec.MsgspecError, ValueError) as exc:
            log.warning("alerting row unreadable", key=f"{table}:{key}", reason=str(exc))
            return None
        self.keep_decoded(table, key, stored, row)
        return row

    def newest(self, table: str, key: str) -> Row | None:
        """Return a row, decoded where it is kept so."""
        stored = self[table].get(key)
        if table in _DECODED and stored is not None:
            kept = self._decoded[table].get(key)
            return kept[1] if kept is not None and kept[0] is stored else stored
        return stored

    def keep_decoded(self, table: str, key: str, stored: bytes | None, row: Row) -> None:
        """Keep a row decoded, for when exactly these bytes are stored."""
        if stored is None:
            self._decoded[table].forget(key)
        else:
            self._decoded[table].put(key, (stored, row))


def ended_key(fingerprint: str, starts_at: datetime, opening: int) -> str:
    """Return the key of an ended alert; ``opening`` counts those of the same start, from 1."""
    number = f"#{opening}" if opening > 1 else ""
    return f"{fingerprint}:{starts_at.isoformat()}{number}"


async def tables_of(state: Mapping[str, bytes]) -> Tables:
    """Decode what the store holds. Rows that cannot be decoded are left out and logged."""
    tables = Tables()
    async for name, value in in_slices(state.items()):  # tens of thousands
        table, _, key = name.partition(":")
        if table in _DECODED:
            tables[table][key] = value
        elif table in _DECODERS:
            try:
                tables[table][key] = _DECODERS[table].decode(value)
            except (msgspec.MsgspecError, ValueError) as exc:
                log.warning("alerting row unreadable", key=name, reason=str(exc))
    return tables


class PendingStep:
    """Changes on top of tables that stay as they are until `apply`.

    ``changed`` holds the new rows by table, all of them decoded; None for a row that is dropped.
    """

    def __init__(self, tables: Tables, *, wall_now: datetime) -> None:
        self.events: list[AlertEvent | WorkspaceEvent] = []
        self.changed: dict[str, dict[str, Row | None]] = {table: {} for table in _TABLES}
        self.changes = 0  # of rows; every event comes with one
        self.wall_now = wall_now
        self._tables = tables
        self._encoded: dict[str, dict[str, bytes | None]] = {table: {} for table in _DECODED}

    @property
    def changes_alerts(self) -> bool:
        """True where more has changed than what rules remember and what was learned."""
        return any(rows for table, rows in self.changed.items() if table not in _DECODED)

    def get(self, table: str, key: str) -> Row | None:
        """Return a row; bytes where it is kept encoded and has not changed."""
        changed = self.changed[table]
        return changed[key] if key in changed else self._tables[table].get(key)

    def decoded(self, table: str, key: str, shape: type[T]) -> T | None:
        """Return a row that is kept encoded; None where there is none that can be decoded."""
        changed = self.changed[table]
        return changed[key] if key in changed else self._tables.decoded(table, key, shape)

    def has_any(self, table: str, keys: Iterable[str]) -> bool:
        """True where one of these rows is stored, or has changed."""
        changed, stored = self.changed[table].keys(), self._tables[table].keys()
        return not (stored.isdisjoint(keys) and changed.isdisjoint(keys))

    def put(self, table: str, key: str, row: Row | None) -> None:
        """Set a row, decoded, None to drop it. A row that is equal already is no change."""
        changed = self.changed[table]
        before = changed[key] if key in changed else self._tables.newest(table, key)
        if row is not before and row != before:
            changed[key] = row
            self.changes += 1

    def rows(self, table: str) -> Iterator[tuple[str, Row]]:
        """Yield all rows of a table as they are now; later changes may or may not be included."""
        changed, stored = dict(self.changed[table]), self._tables[table]
        for key in list(stored):  # the keys alone: pairs of all rows would cost more than the rest
            if key not in changed and (row := stored.get(key)) is not None:
                yield key, row
        for key, row in changed.items():
            if row is not None:
                yield key, row

    def keys(self, table: str) -> AbstractSet[str]:
        """Return the keys of all rows of a table, perhaps with some of rows that are dropped."""
        return self._tables[table].keys() | self.changed[table].keys()

    def state_of(self, fingerprint: str) -> FingerprintState:
        """Return the alert of a fingerprint, or what is left of its earlier alerts."""
        return self.get(ALERT, fingerprint) or self.get(PAST, fingerprint) or _NO_HISTORY

    def open_alert(self, fingerprint: str, starts_at: datetime) -> AlertInstance | None:
        """Return the open alert with that start, None where there is none."""
        instance: AlertInstance | None = self.get(ALERT, fingerprint)
        if instance is None or not instance.is_open or instance.alert.starts_at != starts_at:
            return None
        return instance

    def advance(
        self, fingerprint: str, before: FingerprintState, outcome: LifecycleOutcome
    ) -> None:
        """Store the outcome of a step, with its event where it is published.

        An alert that ended goes to the table of ended alerts as well.
        """
        after, word = outcome.state, outcome.step
        if after is not before:
            if isinstance(after, AlertInstance):
                self.put(ALERT, fingerprint, after)
                if isinstance(before, FingerprintHistory) and before is not _NO_HISTORY:
                    self.put(PAST, fingerprint, None)
            else:
                self.put(ALERT, fingerprint, None)
                self.put(PAST, fingerprint, None if after == _NO_HISTORY else after)
            if isinstance(before, AlertInstance) and before.alert.ends_at is None:
                ended = after.alert if isinstance(after, AlertInstance) else before.alert
                if ended.ends_at is not None or not isinstance(after, AlertInstance):
                    row = EndedAlert(alert=ended, word=word, at=self.wall_now)
                    key = ended_key(fingerprint, ended.starts_at, before.opening)
                    # One that was only pending is numbered not yet, and replaces none that fired.
                    if word is not StepWord.ENDED_PENDING or self.get(ENDED, key) is None:
                        self.put(ENDED, key, row)
        if not outcome.is_published or not isinstance(after, AlertInstance):
            return
        alert = after.alert
        self.events.append(
            AlertEvent(
                id=alert_event_id(fingerprint, alert.starts_at, word, outcome.number),
                type=EventType(f"alert.{word}"),
                alert=alert,
                occurred_at=outcome.occurred_at,
                recorded_at=self.wall_now,
                number=outcome.number,
            )
        )
        self._count(alert, word)

    def _count(self, alert: Alert, word: str) -> None:
        key = f"{alert.name}:{word}"
        count: TransitionCount | None = self.get(TRANSITIONS, key)
        total = 1 if count is None else count.count + 1
        self.put(TRANSITIONS, key, TransitionCount(count=total))

    async def state(self) -> dict[str, bytes | None]:
        """Return the changes as the store takes them."""
        state: dict[str, bytes | None] = {}
        for table, rows in self.changed.items():
            # At most a row for each rule and pipeline: tens of thousands, of up to 20 us.
            async for key, row in in_slices(rows.items()):
                encoded = None if row is None else msgspec.json.encode(row)
                state[f"{table}:{key}"] = encoded
                if table in _DECODED:
                    self._encoded[table][key] = encoded
                    self._tables.keep_decoded(table, key, encoded, row)
        return state

    def apply(self) -> None:
        """Put the changes into the tables, once `state` is durable. In one piece for readers."""
        for table, rows in {**self.changed, **self._encoded}.items():
            stored = self._tables[table]
            stored.update(rows)
            for key in [key for key, row in rows.items() if row is None]:
                del stored[key]
