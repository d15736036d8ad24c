"""Changes on their way into the store, many at once, and the state entries among them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import datetime
from itertools import chain, islice
from sqlite3 import Connection
from typing import NamedTuple

from monitor.bus.contract import Change, Received, StateEntry
from monitor.bus.sqlite import inbox, log, runs
from monitor.bus.sqlite.codec import BulkInsert
from monitor.bus.sqlite.connection import StoreConnection

_STORE_ENTRIES = BulkInsert(
    "INSERT INTO state_entry (workspace, topic, key, value)",
    width=4,
    tail="ON CONFLICT (workspace, topic, key) DO UPDATE SET value = excluded.value",
)


class PreparedChange(NamedTuple):
    """A change as rows: encoding it is the caller's work and not the transaction's."""

    runs: list[runs.RunRow]
    events: list[log.EventRow]
    state_entries: tuple[StateEntry, ...]
    processed: tuple[int, ...]
    arrived: list[inbox.InboxRow]
    at: datetime


def prepare_change(change: Change, *, now: datetime) -> PreparedChange:
    return PreparedChange(
        runs.rows(change.runs),
        log.rows(change.events),
        change.state_entries,
        change.processed,
        [inbox.inbox_row(callback) for callback in change.arrived],
        now,
    )


def store(db: StoreConnection, changes: Sequence[PreparedChange]) -> list[tuple[Received, ...]]:
    """Store the changes as if one after the other."""
    runs.store(db, chain.from_iterable(change.runs for change in changes))
    log.append(db, chain.from_iterable(change.events for change in changes))
    store_entries(db, chain.from_iterable(change.state_entries for change in changes))
    processed = list(chain.from_iterable(change.processed for change in changes))
    now = max(change.at for change in changes)
    inbox.mark_processed(db, processed, now=now)
    arrived = list(chain.from_iterable(change.arrived for change in changes))
    answers = iter(inbox.store_processed(db, arrived, now=now))
    return [tuple(islice(answers, len(change.arrived))) for change in changes]


def store_entries(db: Connection, state_entries: Iterable[StateEntry]) -> None:
    """Write or, where the value is None, delete; of two for one key the later counts."""
    values = {(entry.workspace, entry.topic, entry.key): entry.value for entry in state_entries}
    for identity, value in values.items():
        if value is None:
            db.execute(
                "DELETE FROM state_entry WHERE workspace = ? AND topic = ? AND key = ?", identity
            )
    _STORE_ENTRIES.run(
        db, [(*identity, value) for identity, value in values.items() if value is not None]
    )


def entries_of_topic(db: Connection, workspace: str, topic: str) -> dict[str, bytes]:
    return dict(
        db.execute(
            "SELECT key, value FROM state_entry WHERE workspace = ? AND topic = ?",
            (workspace, topic),
        )
    )
