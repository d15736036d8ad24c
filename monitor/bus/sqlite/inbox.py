"""Callbacks that were accepted and not yet processed, and the memory of those that were.

The newest are in memory as well: a reader that keeps up reads there, and not in the file.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import datetime, timedelta
from itertools import islice
from sqlite3 import Connection
from typing import NamedTuple

import msgspec
from msgspec import Struct

from monitor.bus.contract import Received, StoredCallback
from monitor.bus.sqlite import codec
from monitor.bus.sqlite.codec import BulkInsert, JsonQuery
from monitor.bus.sqlite.connection import StoreConnection

# How long the repetition of a processed callback is still recognised.
PROCESSED_MEMORY = timedelta(days=1)
CALLBACKS_KEPT = 2_000  # in memory, for each workspace

_INSERT = BulkInsert("INSERT INTO callback (workspace, fingerprint, received_at, body)", width=4)
_INSERT_PROCESSED = BulkInsert(
    "INSERT INTO callback (workspace, fingerprint, received_at, body, processed_at)", width=5
)
_KNOWN = JsonQuery(
    "SELECT callback.workspace, fingerprint FROM json_each(?) AS arrived"
    " CROSS JOIN callback ON callback.workspace = json_extract(arrived.value, '$[0]')"
    " AND fingerprint = json_extract(arrived.value, '$[1]')",
    item="json_array(workspace, fingerprint)",
)
_WAITING = JsonQuery(
    "SELECT id, body FROM callback"
    " WHERE workspace = ? AND processed_at IS NULL AND id > ? ORDER BY id LIMIT ?",
    item="'[' || id || ',' || body || ']'",
)
_decode_known = msgspec.json.Decoder(set[tuple[str, str]]).decode


class InboxRow(NamedTuple):
    """A callback on its way into an inbox that holds at most ``bound``, or past it."""

    workspace: str
    fingerprint: str
    received_at: int
    body: bytes
    callback: StoredCallback
    bound: int

    @property
    def identity(self) -> tuple[str, str]:
        return (self.workspace, self.fingerprint)


def inbox_row(callback: StoredCallback, *, bound: int = 0) -> InboxRow:
    return InboxRow(
        callback.workspace,
        callback.fingerprint,
        codec.microseconds(callback.received_at),
        codec.encode(callback),
        callback,
        bound,
    )


def receive(db: StoreConnection, arrivals: Sequence[InboxRow]) -> list[Received]:
    """Store those that are new and for which there is room, in their order."""
    known = _known(db, arrivals)
    waiting = sizes(db)
    taken: list[InboxRow] = []
    answers: list[Received] = []
    for arrival in arrivals:
        if arrival.identity in known:
            answers.append(Received.DUPLICATE)
            continue
        if waiting.get(arrival.workspace, 0) >= arrival.bound:
            answers.append(Received.FULL)
            continue
        known.add(arrival.identity)
        waiting[arrival.workspace] = waiting.get(arrival.workspace, 0) + 1
        taken.append(arrival)
        answers.append(Received.STORED)
    last = _INSERT.run(db, [arrival[:4] for arrival in taken])
    # There is no other writer, so the ids are the ones next to each other that end with the last.
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
    known = _known(db, arrivals)
    taken: list[InboxRow] = []
    answers: list[Received] = []
    for arrival in arrivals:
        if arrival.identity in known:
            answers.append(Received.DUPLICATE)
            continue
        known.add(arrival.identity)
        taken.append(arrival)
        answers.append(Received.STORED)
    _INSERT_PROCESSED.run(db, [(*arrival[:3], b"", at) for arrival in taken])
    return answers


def _known(db: StoreConnection, arrivals: Sequence[InboxRow]) -> set[tuple[str, str]]:
    """Return which of them are stored already."""
    named = codec.encode([arrival.identity for arrival in arrivals])
    return _decode_known(_KNOWN.fetch(db, (named,)))


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


class _Inbox(Struct):
    """All callbacks that wait after ``before``; earlier ones are in the file only."""

    before: int
    waiting: dict[int, StoredCallback] = {}  # by id, in the order of arrival


class RecentCallbacks:
    """The newest waiting callbacks of each workspace."""

    def __init__(self) -> None:
        self._inboxes: dict[str, _Inbox] = {}
        self._workspaces: dict[int, str] = {}  # of each callback here, by its id

    def add(self, callbacks: Iterable[StoredCallback]) -> None:
        """Add what has become durable, in the order of the ids."""
        for callback in callbacks:
            inbox = self._inboxes.setdefault(callback.workspace, _Inbox(callback.id - 1))
            inbox.waiting[callback.id] = callback
            self._workspaces[callback.id] = callback.workspace
            if len(inbox.waiting) > CALLBACKS_KEPT:
                inbox.before = next(iter(inbox.waiting))
                self.forget((inbox.before,))

    def forget(self, ids: Iterable[int]) -> None:
        """Drop callbacks that no longer wait."""
        for id_ in ids:
            workspace = self._workspaces.pop(id_, None)
            if workspace is not None:
                del self._inboxes[workspace].waiting[id_]

    def waiting_after(
        self, workspace: str, after: int, *, limit: int
    ) -> list[StoredCallback] | None:
        """Return at most ``limit`` callbacks after that id; None where only the file has them."""
        inbox = self._inboxes.get(workspace)
        if inbox is None or after < inbox.before:
            return None
        return list(
            islice((callback for callback in inbox.waiting.values() if callback.id > after), limit)
        )
