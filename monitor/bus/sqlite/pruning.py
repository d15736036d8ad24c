"""Retention, in pieces small enough that other writes pass between them.

Each function here removes one piece and returns what it removed; the caller repeats it until
nothing is left. The limits are read again for every piece, because consumers move
and new ones subscribe in between.
"""

from __future__ import annotations

from datetime import datetime, timedelta
from sqlite3 import Connection

from monitor.bus.contract import Retention, StoredCallback
from monitor.bus.sqlite import codec, inbox, log
from monitor.bus.sqlite.codec import JsonQuery

PIECE = 1_000
# Processed callbacks remembered at most, however many arrive within their day.
PROCESSED_BOUND = 500_000

# A callback is as young as any that came before it: the clock may have been behind when it came.
# One that is dated later than now shows nothing.
_EXPIRED = JsonQuery(
    "SELECT id, body FROM callback WHERE processed_at IS NULL AND received_at < ?1"
    " AND id < coalesce((SELECT young.id FROM callback AS young"
    " WHERE young.received_at BETWEEN ?1 AND ?2 ORDER BY young.id LIMIT 1), id + 1)"
    " ORDER BY received_at, id LIMIT ?3",
    item="'[' || id || ',' || body || ']'",
)


def cut_events(db: Connection, retention: Retention, now: datetime) -> int:
    """Remove the oldest events as far as age, count and the consumers' positions allow."""
    oldest, newest = log.oldest_position(db), log.newest_position(db)
    end = oldest + PIECE - 1
    (first_young,) = db.execute(
        "SELECT min(position) FROM event WHERE position BETWEEN ? AND ? AND recorded_at >= ?",
        (oldest, end, _cutoff(now, retention.events_seconds)),
    ).fetchone()
    aged = end if first_young is None else first_young - 1
    (slowest,) = db.execute("SELECT min(position) FROM consumer").fetchone()
    removable = max(aged, newest - retention.events_count)
    allowed = removable if slowest is None else min(removable, slowest)
    last = min(end, newest, max(allowed, newest - retention.events_hard_cap))
    if last < oldest:
        return 0
    return db.execute("DELETE FROM event WHERE position <= ?", (last,)).rowcount


def forget_runs(db: Connection, retention: Retention, now: datetime) -> int:
    """Remove the finished runs that ended first."""
    return db.execute(
        "DELETE FROM run WHERE number IN"
        " (SELECT number FROM run WHERE ended_at < ? ORDER BY ended_at LIMIT ?)",
        (_cutoff(now, retention.runs_seconds), PIECE),
    ).rowcount


def expire_callbacks(db: Connection, retention: Retention, now: datetime) -> list[StoredCallback]:
    """Remove callbacks that have waited too long, and return them."""
    cutoff = _cutoff(now, retention.callbacks_seconds)
    expired = inbox.stored(_EXPIRED.fetch(db, (cutoff, codec.microseconds(now), PIECE)))
    db.execute(
        "DELETE FROM callback WHERE id IN (SELECT value FROM json_each(?))",
        (codec.encode([callback.id for callback in expired]),),
    )
    return expired


def forget_processed(db: Connection, now: datetime) -> int:
    """Remove processed callbacks whose repetition need no longer be recognised.

    In the order of their arrival: those after a piece that stays have arrived later.
    """
    (waiting,) = db.execute("SELECT coalesce(sum(waiting), 0) FROM inbox").fetchone()
    (newest,) = db.execute("SELECT coalesce(max(id), 0) FROM callback").fetchone()
    return db.execute(
        "DELETE FROM callback WHERE id IN (SELECT id FROM"
        " (SELECT id, processed_at FROM callback ORDER BY id LIMIT ?)"
        " WHERE processed_at <= ? OR (processed_at IS NOT NULL AND id <= ?))",
        (
            PIECE + waiting,
            codec.microseconds(now - inbox.PROCESSED_MEMORY),
            newest - PROCESSED_BOUND,
        ),
    ).rowcount


def _cutoff(now: datetime, seconds: float) -> int:
    return codec.microseconds(now - timedelta(seconds=seconds))
