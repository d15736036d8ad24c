"""Small durable facts of a workspace, by topic and key."""

from __future__ import annotations

from collections.abc import Iterable
from sqlite3 import Connection

from monitor.bus.contract import StateEntry
from monitor.bus.sqlite.bulk import BulkInsert

_STORE = BulkInsert(
    "INSERT INTO state_entry (workspace, topic, key, value)",
    width=4,
    tail="ON CONFLICT (workspace, topic, key) DO UPDATE SET value = excluded.value",
)


def store(db: Connection, state_entries: Iterable[StateEntry]) -> None:
    """Write or, where the value is None, delete; of two for one key the later counts."""
    values = {(entry.workspace, entry.topic, entry.key): entry.value for entry in state_entries}
    for identity, value in values.items():
        if value is None:
            db.execute(
                "DELETE FROM state_entry WHERE workspace = ? AND topic = ? AND key = ?", identity
            )
    _STORE.run(db, [(*identity, value) for identity, value in values.items() if value is not None])


def of_topic(db: Connection, workspace: str, topic: str) -> dict[str, bytes]:
    return dict(
        db.execute(
            "SELECT key, value FROM state_entry WHERE workspace = ? AND topic = ?",
            (workspace, topic),
        )
    )
