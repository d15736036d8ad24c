"""The position of each consumer in the log, and its state in the store."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from datetime import datetime
from sqlite3 import Connection

from monitor.bus.contract import (
    BEFORE_FIRST,
    ConsumerStatus,
    DeadLetter,
    Gap,
    Start,
    Step,
)
from monitor.bus.sqlite import codec, log
from monitor.bus.sqlite.codec import BulkInsert, JsonQuery
from monitor.bus.sqlite.connection import StoreConnection
from monitor.model.errors import BusUnavailableError

# Dead letters kept for each consumer; of more, the oldest are removed.
DEAD_LETTERS_BOUND = 10_000

_STORE_STATE = BulkInsert(
    "INSERT INTO consumer_state (consumer, key, value)",
    width=3,
    tail="ON CONFLICT (consumer, key) DO UPDATE SET value = excluded.value",
)
# A step that is taken again after a crash names the same positions; so does a letter whose event
# was sent again and refused for another reason.
_STORE_DEAD_LETTERS = BulkInsert(
    "INSERT INTO dead_letter (consumer, position, body)",
    width=3,
    tail="ON CONFLICT (consumer, position) DO UPDATE SET body = excluded.body",
)
_NEWEST_DEAD_LETTERS = JsonQuery(
    "SELECT body FROM dead_letter WHERE consumer = ? ORDER BY number DESC LIMIT ?"
)
_DEAD_LETTERS_AFTER = JsonQuery(
    "SELECT body FROM dead_letter WHERE consumer = ? AND position > ? ORDER BY position LIMIT ?"
)


def subscribe(db: Connection, consumer: str, start: Start) -> int:
    before_oldest = log.oldest_position(db) - 1
    position = before_oldest if start is Start.OLDEST else log.newest_position(db)
    db.execute(
        "INSERT INTO consumer (name, position, counted_until) VALUES (?, ?, ?)"
        " ON CONFLICT (name) DO NOTHING",
        (consumer, position, before_oldest),
    )
    (stored,) = db.execute("SELECT position FROM consumer WHERE name = ?", (consumer,)).fetchone()
    return int(stored)


def keep_only(db: Connection, consumers: Collection[str]) -> list[str]:
    dropped = [name for name in _names(db) if name not in consumers]
    db.executemany("DELETE FROM consumer WHERE name = ?", [(name,) for name in dropped])
    return dropped


def advance(db: StoreConnection, step: Step, events: Sequence[log.EventRow]) -> None:
    """Apply a step.

    Raises:
        BusUnavailableError: no consumer of that name has subscribed, or it was dropped since.
    """
    moved = db.execute(
        "UPDATE consumer SET position = max(position, coalesce(?, position)) WHERE name = ?",
        (step.position, step.consumer),
    )
    if moved.rowcount == 0:
        raise BusUnavailableError(f"the consumer {step.consumer} has not subscribed")
    _store_state(db, step)
    _remove_dead_letters(db, step)
    _store_dead_letters(db, step)
    log.append(db, events)


def count_loss(db: Connection, consumer: str, gap: Gap) -> None:
    """Add a gap to what the consumer has lost, less what an earlier reading has added."""
    read_until = gap.until - gap.lost
    db.execute(
        "UPDATE consumer SET lost = lost + ?1 - max(?2, counted_until), counted_until = ?1"
        " WHERE name = ?3 AND counted_until < ?1",
        (gap.until, read_until, consumer),
    )


def uncounted(db: Connection, consumer: str, gap: Gap | None) -> Gap | None:
    """Return the gap if any of it is still to be counted for this consumer."""
    if gap is None:
        return None
    row = db.execute("SELECT counted_until FROM consumer WHERE name = ?", (consumer,)).fetchone()
    return None if row is None or row[0] >= gap.until else gap


def state(db: Connection, consumer: str) -> dict[str, bytes]:
    return dict(db.execute("SELECT key, value FROM consumer_state WHERE consumer = ?", (consumer,)))


def dead_letters(db: Connection, consumer: str, *, limit: int) -> list[DeadLetter]:
    return codec.decode_dead_letters(_NEWEST_DEAD_LETTERS.fetch(db, (consumer, limit)))


def dead_letters_after(
    db: Connection, consumer: str, position: int | None, *, limit: int
) -> list[DeadLetter]:
    after = BEFORE_FIRST if position is None else position
    return codec.decode_dead_letters(_DEAD_LETTERS_AFTER.fetch(db, (consumer, after, limit)))


def consumer_statuses(db: Connection) -> tuple[ConsumerStatus, ...]:
    oldest, newest = log.oldest_position(db), log.newest_position(db)
    return tuple(
        ConsumerStatus(
            consumer=name,
            position=position,
            backlog=max(0, newest - max(position, oldest - 1)),
            oldest_at=_recorded_at(db, max(position + 1, oldest)),
            dead_letters=letters,
            lost=lost,
        )
        for name, position, lost, letters in db.execute(
            "SELECT name, position, lost,"
            " (SELECT count(*) FROM dead_letter WHERE consumer = name)"
            " FROM consumer ORDER BY name"
        ).fetchall()
    )


def _names(db: Connection) -> list[str]:
    return [name for (name,) in db.execute("SELECT name FROM consumer ORDER BY name")]


def _recorded_at(db: Connection, position: int) -> datetime | None:
    row = db.execute("SELECT recorded_at FROM event WHERE position = ?", (position,)).fetchone()
    return None if row is None else codec.instant(row[0])


def _store_state(db: Connection, step: Step) -> None:
    deleted = [key for key, value in step.state.items() if value is None]
    if deleted:
        db.execute(
            "DELETE FROM consumer_state WHERE consumer = ?"
            " AND key IN (SELECT value FROM json_each(?))",
            (step.consumer, codec.encode(deleted)),
        )
    _STORE_STATE.run(
        db,
        [(step.consumer, key, value) for key, value in step.state.items() if value is not None],
    )


def _remove_dead_letters(db: Connection, step: Step) -> None:
    if step.removed_letters:
        db.execute(
            "DELETE FROM dead_letter WHERE consumer = ?"
            " AND position IN (SELECT value FROM json_each(?))",
            (step.consumer, codec.encode(step.removed_letters)),
        )


def _store_dead_letters(db: Connection, step: Step) -> None:
    if not step.dead_letters:
        return
    _STORE_DEAD_LETTERS.run(
        db,
        [(step.consumer, letter.position, codec.encode(letter)) for letter in step.dead_letters],
    )
    db.execute(
        "DELETE FROM dead_letter WHERE consumer = ?1 AND number <= (SELECT number FROM dead_letter"
        " WHERE consumer = ?1 ORDER BY number DESC LIMIT 1 OFFSET ?2)",
        (step.consumer, DEAD_LETTERS_BOUND),
    )
