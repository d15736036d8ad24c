"""The log of events. Positions have no holes, so their differences count events."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from datetime import datetime
from sqlite3 import Connection
from typing import NamedTuple

from monitor.bus.contract import Batch, Gap, Recorded
from monitor.bus.sqlite import codec
from monitor.bus.sqlite.codec import DECODED_AT_ONCE, BulkInsert, JsonQuery
from monitor.bus.sqlite.connection import StoreConnection
from monitor.model.errors import BusLostError
from monitor.model.events import Event

_INSERT = BulkInsert("INSERT INTO event (id, recorded_at, body)", width=3)
_STORED_IDS = JsonQuery(
    "SELECT id FROM event WHERE id IN (SELECT value FROM json_each(?))", item="json_quote(id)"
)
_READ = JsonQuery(
    "SELECT position, body FROM event WHERE position > ? ORDER BY position LIMIT ?",
    item="'[' || position || ',' || body || ']'",
)
_BY_ID = JsonQuery(
    "SELECT position, body FROM event WHERE id IN (SELECT value FROM json_each(?))",
    item="'[' || position || ',' || body || ']'",
)


class EventRow(NamedTuple):
    """An event on its way into the log; the first three are stored."""

    id: str
    recorded_at: int
    body: bytes
    event: Event


def rows(events: Iterable[Event]) -> list[EventRow]:
    return [
        EventRow(event.id, codec.microseconds(event.recorded_at), codec.encode(event), event)
        for event in events
    ]


def append(db: StoreConnection, events: Iterable[EventRow]) -> None:
    """Add the events whose ids are not in the log, in their order."""
    new: dict[str, EventRow] = {}
    for row in events:
        new.setdefault(row.id, row)
    if not new:
        return
    last = _INSERT.run_if_new(db, [row[:3] for row in new.values()])
    if last is None:
        # Read first: INSERT OR IGNORE would use up a position for every event that it ignores.
        for stored_id in codec.decode_texts(_STORED_IDS.fetch(db, (codec.encode(list(new)),))):
            del new[stored_id]
        last = _INSERT.run(db, [row[:3] for row in new.values()])
    # With a single writer the places are the ones next to each other that end with the last.
    for position, row in enumerate(new.values(), last - len(new) + 1):
        db.news.events.append(Recorded(position, row.event, db.log_epoch))


def newest_position(db: Connection) -> int:
    """Return the last position ever given, whether or not its event is still stored."""
    row = db.execute("SELECT seq FROM sqlite_sequence WHERE name = 'event'").fetchone()
    return 0 if row is None else int(row[0])


def oldest_position(db: Connection) -> int:
    """Return the first position still stored; the newest plus 1 without any."""
    (oldest,) = db.execute("SELECT min(position) FROM event").fetchone()
    return newest_position(db) + 1 if oldest is None else int(oldest)


def read(db: StoreConnection, *, after: int, limit: int, known: int) -> list[Recorded]:
    """Return events after ``after``, at most ``limit``, none missing between them.

    ``known`` is the newest position that this process knows of.

    Raises:
        BusLostError: events are gone that retention has not removed. A reader that got nothing
            here would ask again at once, without end.
    """
    recorded: list[tuple[int, Event]] = []
    while len(recorded) < limit:
        last = recorded[-1][0] if recorded else after
        at_once = min(limit - len(recorded), DECODED_AT_ONCE)
        piece = codec.decode_recorded(_READ.fetch(db, (last, at_once)))
        recorded += piece
        if len(piece) < at_once:
            break
    first, newest = max(after + 1, oldest_position(db)), max(newest_position(db), known)
    expected = range(first, min(first + limit, newest + 1))
    if [position for position, _ in recorded] != list(expected):
        raise BusLostError(
            f"the log was changed by another program: of the positions {first} to "
            f"{expected.stop - 1} it has {len(recorded)}"
        )
    return [Recorded(position, event, db.log_epoch) for position, event in recorded]


def by_id(db: StoreConnection, *, ids: Collection[str]) -> dict[str, Recorded]:
    recorded = codec.decode_recorded(_BY_ID.fetch(db, (codec.encode(list(ids)),)))
    return {event.id: Recorded(position, event, db.log_epoch) for position, event in recorded}


def read_batch(db: StoreConnection, *, after: int, limit: int, known: int) -> Batch:
    """Return events, and what is missing between ``after`` and the first that is still stored.

    ``known`` and errors as for `read`.
    """
    oldest = oldest_position(db)
    gap = None
    if after + 1 < oldest:
        gap = Gap(until=oldest - 1, lost=oldest - 1 - after)
    return Batch(events=tuple(read(db, after=after, limit=limit, known=known)), gap=gap)


def position_before(db: Connection, recorded_at: datetime) -> int:
    """Return the position before the first event recorded at or after that instant."""
    (first,) = db.execute(
        "SELECT min(position) FROM event INDEXED BY event_recorded WHERE recorded_at >= ?",
        (codec.microseconds(recorded_at),),
    ).fetchone()
    return newest_position(db) if first is None else int(first) - 1
