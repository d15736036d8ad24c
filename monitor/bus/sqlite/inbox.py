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

# How long the repetition of a processed callback is still recognised.
PROCESSED_MEMORY = timedelta(days=1)

_INSERT = BulkInsert("INSERT INTO callback (workspace, fingerprint, received_at, body)", width=4)
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
_decode_known = msgspec.json.Decoder(list[tuple[str, str, int | None]]).decode


class InboxRow(NamedTuple):
    """A callback on its way into an inbox that holds at most ``bound``."""

    workspace: str
    fingerprint: str
    received_at: int
    body: bytes
    callback: StoredCallback
    bound: int
    forgotten_before: int  # a callback processed earlier is forgotten


def inbox_row(callback: StoredCallback, *, bound: int, now: datetime) -> InboxRow:
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
    fingerprints = codec.encode([(arrival.workspace, arrival.fingerprint) for arrival in arrivals])
    known = {(row[0], row[1]): row[2] for row in _decode_known(_KNOWN.fetch(db, (fingerprints,)))}
    waiting = sizes(db)
    taken: list[InboxRow] = []
    answers: list[Received] = []
    for arrival in arrivals:
        identity = (arrival.workspace, arrival.fingerprint)
        if identity in known:
            processed_at = known[identity]
            if processed_at is None or processed_at > arrival.forgotten_before:
                answers.append(Received.DUPLICATE)
                continue
        if waiting.get(arrival.workspace, 0) >= arrival.bound:
            answers.append(Received.FULL)
            continue
        if identity in known:
            _forget(db, arrival)
        known[identity] = None
        waiting[arrival.workspace] = waiting.get(arrival.workspace, 0) + 1
        taken.append(arrival)
        answers.append(Received.STORED)
    last = _INSERT.run(db, [arrival[:4] for arrival in taken])
    # Nobody else writes, so the ids are the ones next to each other that end with the last.
    for number, arrival in enumerate(taken, last - len(taken) + 1):
        db.news.callbacks.append(msgspec.structs.replace(arrival.callback, id=number))
    return answers


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


def sizes(db: Connection) -> dict[str, int]:
    """Return how many wait, for each workspace where any does."""
    return dict(db.execute("SELECT workspace, waiting FROM inbox WHERE waiting > 0"))


def stored(array: str) -> list[StoredCallback]:
    """Decode pairs of id and body."""
    return [
        msgspec.structs.replace(callback, id=callback_id)
        for callback_id, callback in codec.decode_callbacks(array)
    ]


def _forget(db: Connection, row: InboxRow) -> None:
    # Too old to count as a duplicate, and not yet removed by retention.
    db.execute(
        "DELETE FROM callback WHERE workspace = ? AND fingerprint = ?",
        (row.workspace, row.fingerprint),
    )
