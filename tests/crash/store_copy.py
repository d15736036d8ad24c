"""What a dead daemon has left on disk, read from a copy: its next life finds it as it was."""

from __future__ import annotations

import shutil
import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

from msgspec import Struct


class OnDisk(Struct, frozen=True, kw_only=True):
    """The parts of a store that a crash could tear from each other."""

    waiting: frozenset[str]  # fingerprints
    processed: frozenset[str]
    ended: frozenset[str]  # job groups whose end is in run memory, also an unconfirmed one
    received: frozenset[str]  # job groups whose end is in the log

    def lost(self, fingerprints: set[str]) -> set[str]:
        """Return acknowledged callbacks that neither wait nor were dealt with."""
        return fingerprints - self.waiting - self.processed

    def without_event(self, run_ids: set[str]) -> set[str]:
        """Return runs whose callback was processed although their end is not in the log."""
        processed_ids = {fingerprint.split(":")[1] for fingerprint in self.processed}
        return (processed_ids & run_ids) - self.received


def read(path: Path) -> OnDisk:
    """Read a store that no process has open."""
    with _copy(path) as db:
        return _read(db)


def state_entry(path: Path, topic: str, key: str, *, is_in_use: bool) -> bytes | None:
    """Return a state entry of the workspace; None where there is none."""
    statement = "SELECT value FROM state_entry WHERE workspace = 'acme' AND topic = ? AND key = ?"
    with _in_use(path) if is_in_use else _copy(path) as db:
        row = db.execute(statement, (topic, key)).fetchone()
    return None if row is None else bytes(row[0])


def waiting(path: Path) -> frozenset[str]:
    """Return the fingerprints in the inbox of a store that is in use."""
    with _in_use(path) as db:
        return _column(db, "SELECT fingerprint FROM callback WHERE processed_at IS NULL")


def newest_position(path: Path) -> int:
    """Return the position of the newest event in a store that is in use."""
    with _in_use(path) as db:
        ((position,),) = db.execute("SELECT max(position) FROM event")
        return int(position or 0)


def oldest_position(path: Path) -> int:
    """Return the position of the oldest event that is left."""
    with _in_use(path) as db:
        ((position,),) = db.execute("SELECT min(position) FROM event")
        return int(position or 0)


def positions(path: Path) -> dict[str, int]:
    """Return up to where each consumer has read the log of a store that is in use."""
    with _in_use(path) as db:
        return dict(db.execute("SELECT name, position FROM consumer"))


@contextmanager
def _copy(path: Path) -> Iterator[sqlite3.Connection]:
    with TemporaryDirectory() as folder:
        for suffix in ("", "-wal"):
            if (source := path.with_name(path.name + suffix)).exists():
                shutil.copy(source, folder)
        with closing(sqlite3.connect(Path(folder) / path.name)) as db:
            yield db


def _in_use(path: Path) -> closing[sqlite3.Connection]:
    return closing(sqlite3.connect(f"{path.as_uri()}?mode=ro", uri=True, timeout=10))


def _read(db: sqlite3.Connection) -> OnDisk:
    ends = ("succeeded", "failed", "canceled", "lost")
    events = _column(db, "SELECT id FROM event WHERE id LIKE 'acme:job_group:%'")
    return OnDisk(
        waiting=_column(db, "SELECT fingerprint FROM callback WHERE processed_at IS NULL"),
        processed=_column(db, "SELECT fingerprint FROM callback WHERE processed_at IS NOT NULL"),
        ended=_column(
            db,
            "SELECT id FROM run WHERE kind = 'job_group' AND (ended_at IS NOT NULL"
            " OR json_extract(CAST(body AS TEXT), '$.unconfirmed_end') IS NOT NULL)",
        ),
        received=frozenset(event.split(":")[2] for event in events if event.split(":")[3] in ends),
    )


def _column(db: sqlite3.Connection, statement: str) -> frozenset[str]:
    return frozenset(value for (value,) in db.execute(statement))
