"""Reads a file as it is at one time, beside the daemon that holds it or without one.

Changes nothing: without a write-ahead log no process has the file open, and no side files are made,
which a daemon of another user could not open. With one, its changes belong to the store.
"""

from __future__ import annotations

import os
import sqlite3
from pathlib import Path

from monitor.bus.sqlite.connection import UNTRUSTED_SCHEMA, StoreConnection
from monitor.bus.sqlite.location import locate
from monitor.model.errors import BusUnavailableError


def locate_readable(path: Path) -> Path:
    """Return where the store is.

    Raises:
        BusUnavailableError: there is none, or it may not be read.
    """
    store = locate(path)
    if not store.exists():
        raise BusUnavailableError(f"{store} does not exist: no daemon has made it yet")
    if not os.access(store, os.R_OK):
        raise BusUnavailableError(f"{store} may not be read: run this as its owner")
    return store


class StoreSnapshot:
    """A read-only connection, for one transaction that the caller begins.

    Raises:
        sqlite3.Error: the file cannot be opened.
    """

    def __init__(self, store: Path, *, check_same_thread: bool = True) -> None:
        self._store = store
        self._stat: os.stat_result | None = None
        mode = "mode=ro"
        if not store.with_name(f"{store.name}-wal").exists():
            mode, self._stat = "mode=ro&immutable=1", store.stat()
        self.db = sqlite3.connect(
            f"{store.as_uri()}?{mode}",
            uri=True,
            isolation_level=None,
            check_same_thread=check_same_thread,
            factory=StoreConnection,
        )
        self.db.execute(f"PRAGMA {UNTRUSTED_SCHEMA}")

    def verify(self) -> None:
        """Return where all that was read is of one state.

        Raises:
            BusUnavailableError: a daemon has started, and written, meanwhile.
        """
        before, now = self._stat, self._store.stat()
        if before and (before.st_mtime_ns, before.st_size) != (now.st_mtime_ns, now.st_size):
            raise BusUnavailableError(f"a daemon has started with {self._store}: begin again")
