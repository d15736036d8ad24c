"""Opens the file, and turns SQLite's errors into ours."""

from __future__ import annotations

import sqlite3
from functools import cached_property
from pathlib import Path
from typing import Any

from msgspec import Struct

from monitor.bus.contract import Recorded, StoredCallback
from monitor.model.alerts import BRIDGE
from monitor.model.errors import BusLostError, BusUnavailableError

# Short, because the writer repeats its attempt while a caller still waits for it.
_BUSY_TIMEOUT_MILLISECONDS = 100
# The write-ahead log is cut back to this after a burst.
_WAL_LIMIT_BYTES = 64 * 1024 * 1024
_CACHE_KIBIBYTES = 16 * 1024
_STATEMENTS_KEPT = 256
# A file may come from elsewhere: its views, triggers and indexes run no function with side effects.
UNTRUSTED_SCHEMA = "trusted_schema = OFF"
_PRIMARY_CODE = 0xFF
LOG_EPOCH = (BRIDGE, "log", "epoch")  # a state entry
_READ_EPOCH = "SELECT value FROM state_entry WHERE workspace = ? AND topic = ? AND key = ?"


class CommitNews(Struct, kw_only=True):
    """What one transaction has changed, for the copies in memory."""

    events: list[Recorded] = []
    callbacks: list[StoredCallback] = []  # stored in an inbox, with their ids
    processed: list[int] = []  # ids of callbacks that wait no longer

    def copy(self) -> CommitNews:
        """Return the news up to here, to return to at a rollback to a savepoint."""
        return CommitNews(
            events=self.events[:], callbacks=self.callbacks[:], processed=self.processed[:]
        )


class StoreConnection(sqlite3.Connection):
    """A connection that remembers the news of the open transaction."""

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self.news = CommitNews()

    @cached_property
    def log_epoch(self) -> int:
        """The epoch of all events: 0, but for what a database brought whose log went back."""
        row = self.execute(_READ_EPOCH, LOG_EPOCH).fetchone()
        return 0 if row is None else int(row[0])


def keep_log_epoch(db: sqlite3.Connection, epoch: int) -> None:
    """Store the epoch of a log that is made from another one."""
    value = str(epoch).encode()
    db.execute("INSERT OR REPLACE INTO state_entry VALUES (?, ?, ?, ?)", (*LOG_EPOCH, value))


def connect(path: Path) -> StoreConnection:
    """Open an existing file for writing, with every change on disk before COMMIT returns.

    The file must exist: a store that was deleted under us must not come back empty.
    """
    db = sqlite3.connect(
        f"{path.absolute().as_uri()}?mode=rw",
        uri=True,
        isolation_level=None,
        timeout=_BUSY_TIMEOUT_MILLISECONDS / 1000,
        cached_statements=_STATEMENTS_KEPT,
        factory=StoreConnection,
    )
    try:
        for pragma in (
            "journal_mode = WAL",
            "synchronous = FULL",
            "foreign_keys = ON",
            f"busy_timeout = {_BUSY_TIMEOUT_MILLISECONDS}",
            f"journal_size_limit = {_WAL_LIMIT_BYTES}",
            f"cache_size = -{_CACHE_KIBIBYTES}",
            "temp_store = MEMORY",
            UNTRUSTED_SCHEMA,
        ):
            db.execute(f"PRAGMA {pragma}")
    except sqlite3.Error:
        db.close()
        raise
    return db


def connect_reading(path: Path) -> StoreConnection:
    """Open an existing file read-only."""
    db = connect(path)
    db.execute("PRAGMA query_only = ON")
    return db


def connect_readonly(path: Path) -> sqlite3.Connection:
    """Open an existing file, of whatever application, and change nothing of it."""
    db = sqlite3.connect(f"{path.absolute().as_uri()}?mode=ro", uri=True, isolation_level=None)
    db.execute(f"PRAGMA {UNTRUSTED_SCHEMA}")
    return db


def connect_idle(path: Path) -> sqlite3.Connection:
    """Open an existing file and keep its write-ahead log in being; closed by any thread.

    It has read once, and has no transaction open that would hold up others.
    """
    db = sqlite3.connect(
        f"{path.absolute().as_uri()}?mode=rw",
        uri=True,
        isolation_level=None,
        check_same_thread=False,
    )
    try:
        db.execute("SELECT count(*) FROM sqlite_schema").fetchone()
    except sqlite3.Error:
        db.close()
        raise
    return db


def is_busy(error: sqlite3.Error) -> bool:
    """True when another process locks the file at the moment."""
    return _primary_code(error) in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED)


def is_damaged(error: sqlite3.Error) -> bool:
    """True when the file is not, or is no longer, a sound database."""
    return _primary_code(error) in (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB)


def unavailable(error: Exception) -> BusUnavailableError:
    """Return our error for one of SQLite's; the caller raises it ``from`` the original."""
    if isinstance(error, sqlite3.Error) and is_damaged(error):
        return BusLostError(f"the store is damaged: {error}")
    return BusUnavailableError(f"the store did not take it: {error}")


def _primary_code(error: sqlite3.Error) -> int | None:
    # Errors of the binding itself carry no code.
    code = getattr(error, "sqlite_errorcode", None)
    return None if code is None else code & _PRIMARY_CODE
