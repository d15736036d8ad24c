"""Callbacks that were accepted and not yet processed, and the memory of those that were."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta
from sqlite3 import Connection
from typing import NamedTuple

import msgspec

from monitor.bus.contract import Received, StoredCallback
from monitor.bus.sqlite import codec
from monitor.bus.sqlite.bulk import BulkInsert, JsonQuery
from monitor.bus.sqlite.connection import StoreConnection
from monitor.model.runs import RunKey, RunKind

# How long the repetition of a processed callback is still recognised.
PROCESSED_MEMORY = timedelta(days=1)

_INSERT = BulkInsert("INSERT INTO callback (workspace, fingerprint, received_at, body)", width=4)
_INSERT_PROCESSED = BulkInsert(
    "INSERT INTO callback (workspace, fingerprint, received_at, body, processed_at)", width=5
)
_KNOWN = JsonQuery(
    "SELECT callback.workspace, fingerprint, processed_at FROM json_each(?) AS arrived"
    " CROSS JOIN callback ON callback.workspace = json_extract(arrived.value, '$[0]')"
    " AND fingerprint = json_extract(arrived.value, '$[1]')",
    item="json_array(workspace, fingerprint, processed_at)",
)
_WAITING = JsonQuery(
    "SELECT id, body FROM callback"
    " WHERE workspace = ? AND processed_at IS NULL AND id > ? ORDER BY id LIMIT ?",
    item="'[' || id || ',' || body || ']'",
)
_WAITING_RUNS = JsonQuery(
    # Whoever reads a damaged one says so; here it is only skipped.
    "SELECT id, workspace, CAST(body AS TEXT) AS body FROM callback"
    " WHERE processed_at IS NULL AND json_valid(CAST(body AS TEXT))",
    item="json_array(id, workspace, body ->> 'kind', body ->> 'run_id')",
)
_KINDS = frozenset(RunKind)
_decode_runs = msgspec.json.Decoder(list[tuple[int, str, str | None, str | None]]).decode
_decode_known = msgspec.json.Decoder(list[tuple[str, str, int | None]]).decode


class InboxRow(NamedTuple):
    """A callback on its way into an inbox that holds at most ``bound``, or past it."""

    workspace: str
    fingerprint: str
    received_at: int
    body: bytes
    callback: StoredCallback
    bound: int
    forgotten_before: int  # a callback processed earlier is forgotten


def inbox_row(callback: StoredCallback, *, bound: int = 0, now: datetime) -> InboxRow:
    return InboxRow(
        callback.workspace,
        callback.fingerprint,
        codec.microseconds(callback.received_at),
        codec.encode(callback),
        callback,
        bound,
        codec.microseconds(now - PROCESSED_MEMORY),
    )


def receive(db: StoreConnection, arrivals: Sequence[InboxRow]) -> list[Received]:
    """Store those that are new and for which there is room, in their order."""
    known = _Known(db, arrivals)
    waiting = sizes(db)
    taken: list[InboxRow] = []
    answers: list[Received] = []
    for arrival in arrivals:
        if known.has(arrival):
            answers.append(Received.DUPLICATE)
            continue
        if waiting.get(arrival.workspace, 0) >= arrival.bound:
            answers.append(Received.FULL)
            continue
        known.add(arrival)
        waiting[arrival.workspace] = waiting.get(arrival.workspace, 0) + 1
        taken.append(arrival)
        answers.append(Received.STORED)
    last = _INSERT.run(db, [arrival[:4] for arrival in taken])
    # Nobody else writes, so the ids are the ones next to each other that end with the last.
    for number, arrival in enumerate(taken, last - len(taken) + 1):
        db.news.callbacks.append(msgspec.structs.replace(arrival.callback, id=number))
    return answers


def store_processed(
    db: StoreConnection, arrivals: Sequence[InboxRow], *, now: datetime
) -> list[Received]:
    """Store those that are new as processed, so that their repetition is recognised."""
    if not arrivals:
        return []
    at = codec.microseconds(now)
    rows = [(*arrival[:3], b"", at) for arrival in arrivals]
    if _INSERT_PROCESSED.run_if_new(db, rows) is not None:
        return [Received.STORED] * len(arrivals)
    known = _Known(db, arrivals)
    taken: list[InboxRow] = []
    answers: list[Received] = []
    for arrival in arrivals:
        if known.has(arrival):
            answers.append(Received.DUPLICATE)
            continue
        known.add(arrival)
        taken.append(arrival)
        answers.append(Received.STORED)
    _INSERT_PROCESSED.run(db, [(*arrival[:3], b"", at) for arrival in taken])
    return answers


class _Known:
    """Which fingerprints are stored already; those processed too long ago are forgotten."""

    def __init__(self, db: StoreConnection, arrivals: Sequence[InboxRow]) -> None:
        self._db = db
        named = codec.encode([(arrival.workspace, arrival.fingerprint) for arrival in arrivals])
        known = _decode_known(_KNOWN.fetch(db, (named,)))
        self._processed_at = {(row[0], row[1]): row[2] for row in known}

    def has(self, arrival: InboxRow) -> bool:
        identity = (arrival.workspace, arrival.fingerprint)
        if identity not in self._processed_at:
            return False
        processed_at = self._processed_at[identity]
        return processed_at is None or processed_at > arrival.forgotten_before

    def add(self, arrival: InboxRow) -> None:
        """Count one that is not known, and drop what is stored of it from long ago."""
        identity = (arrival.workspace, arrival.fingerprint)
        if identity in self._processed_at:
            # Retention has not removed it yet.
            self._db.execute(
                "DELETE FROM callback WHERE workspace = ? AND fingerprint = ?", identity
            )
        self._processed_at[identity] = None


def mark_processed(db: StoreConnection, ids: Sequence[int], *, now: datetime) -> None:
    """Mark callbacks as processed; one that is not waiting stays as it is."""
    if ids:
        db.execute(
            "UPDATE callback SET processed_at = ?, body = x''"
            " WHERE id IN (SELECT value FROM json_each(?)) AND processed_at IS NULL",
            (codec.microseconds(now), codec.encode(ids)),
        )
        db.news.processed.extend(ids)


def waiting(db: Connection, workspace: str, *, after: int, limit: int) -> list[StoredCallback]:
    return stored(_WAITING.fetch(db, (workspace, after, limit)))


def waiting_runs(db: Connection) -> list[tuple[int, RunKey]]:
    """Return the id and the run of each callback that waits, of all workspaces."""
    return [
        (id_, RunKey(workspace, RunKind(kind), run_id or ""))
        for id_, workspace, kind, run_id in _decode_runs(_WAITING_RUNS.fetch(db, ()))
        if kind in _KINDS
    ]


def sizes(db: Connection) -> dict[str, int]:
    """Return how many wait, for each workspace where any does."""
    return dict(db.execute("SELECT workspace, waiting FROM inbox WHERE waiting > 0"))


def stored(array: str) -> list[StoredCallback]:
    """Decode pairs of id and body."""
    return [
        msgspec.structs.replace(callback, id=callback_id)
        for callback_id, callback in codec.decode_callbacks(array)
    ]
