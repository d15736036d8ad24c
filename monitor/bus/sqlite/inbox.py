"""Callbacks that were accepted and not yet dealt with, and the memory of those that were."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta
from sqlite3 import Connection
from typing import NamedTuple

import msgspec

from monitor.bus.contract import Received, StoredCallback
from monitor.bus.sqlite import codec
from monitor.bus.sqlite.bulk import Gathering, Insertion
from monitor.bus.sqlite.connection import StoreConnection

# How long the repetition of a settled callback is still recognised.
SETTLED_MEMORY = timedelta(days=1)

_INSERT = Insertion("INSERT INTO callback (workspace, fingerprint, received_at, body)", width=4)
_KNOWN = Gathering(
    "SELECT callback.workspace, fingerprint, settled_at FROM json_each(?) AS asked"
    " CROSS JOIN callback ON callback.workspace = json_extract(asked.value, '$[0]')"
    " AND fingerprint = json_extract(asked.value, '$[1]')",
    item="json_array(workspace, fingerprint, settled_at)",
)
_WAITING = Gathering(
    "SELECT id, body FROM callback"
    " WHERE workspace = ? AND settled_at IS NULL AND id > ? ORDER BY id LIMIT ?",
    item="'[' || id || ',' || body || ']'",
)
_decode_known = msgspec.json.Decoder(list[tuple[str, str, int | None]]).decode


class Arrival(NamedTuple):
    """A callback on its way into an inbox that holds at most ``bound``."""

    workspace: str
    fingerprint: str
    received_at: int
    body: bytes
    callback: StoredCallback
    bound: int
    forgotten_before: int  # one that was settled until then is no longer remembered


def arrival(callback: StoredCallback, *, bound: int, now: datetime) -> Arrival:
    return Arrival(
        callback.workspace,
        callback.fingerprint,
        codec.microseconds(callback.received_at),
        codec.encode(callback),
        callback,
        bound,
        codec.microseconds(now - SETTLED_MEMORY),
    )


def receive(db: StoreConnection, arrivals: Sequence[Arrival]) -> list[Received]:
    """Keep those that are new and for which there is room, in their order."""
    asked = codec.encode([(arrival.workspace, arrival.fingerprint) for arrival in arrivals])
    known = {(row[0], row[1]): row[2] for row in _decode_known(_KNOWN.ask(db, (asked,)))}
    waiting = sizes(db)
    taken: list[Arrival] = []
    answers: list[Received] = []
    for arrival in arrivals:
        identity = (arrival.workspace, arrival.fingerprint)
        if identity in known:
            settled_at = known[identity]
            if settled_at is None or settled_at > arrival.forgotten_before:
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


def settle(db: StoreConnection, ids: Sequence[int], *, now: datetime) -> None:
    """Take callbacks out of the inbox; one that is not waiting there is left alone."""
    if ids:
        db.execute(
            "UPDATE callback SET settled_at = ?, body = x''"
            " WHERE id IN (SELECT value FROM json_each(?)) AND settled_at IS NULL",
            (codec.microseconds(now), codec.encode(ids)),
        )
        db.news.settled.extend(ids)


def waiting(db: Connection, workspace: str, *, after: int, limit: int) -> list[StoredCallback]:
    return stored(_WAITING.ask(db, (workspace, after, limit)))


def sizes(db: Connection) -> dict[str, int]:
    """Return how many wait, for each workspace where any does."""
    return dict(db.execute("SELECT workspace, waiting FROM inbox WHERE waiting > 0"))


def stored(found: str) -> list[StoredCallback]:
    """Decode pairs of id and body."""
    return [
        msgspec.structs.replace(callback, id=callback_id)
        for callback_id, callback in codec.decode_callbacks(found)
    ]


def _forget(db: Connection, arrival: Arrival) -> None:
    # Too old to count as a repetition, and retention has not come round yet.
    db.execute(
        "DELETE FROM callback WHERE workspace = ? AND fingerprint = ?",
        (arrival.workspace, arrival.fingerprint),
    )
