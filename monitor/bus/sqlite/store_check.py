"""Examines a whole store, beside the daemon that holds it or without one. Changes nothing."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from pathlib import Path

from monitor.bus.sqlite.lock import holder_of
from monitor.bus.sqlite.snapshot import StoreSnapshot, locate_readable
from monitor.bus.sqlite.soundness import FoundDamage, examine
from monitor.bus.sqlite.upgrade import APPLICATION_ID
from monitor.model.errors import BusUnavailableError


class StoreCheck:
    """One examination of one store. `run` may be stopped from another thread.

    Raises:
        BusUnavailableError: there is no store, or it may not be read.
    """

    def __init__(self, store: Path) -> None:
        self.store = locate_readable(store)
        self.holder = holder_of(self.store)
        self.store_bytes = self.store.stat().st_size
        self._db = StoreSnapshot(self.store, check_same_thread=False).db

    def run(self, on_part: Callable[[str], None]) -> list[FoundDamage]:
        """Return what is wrong; ``on_part`` is called with the name of each part as it begins.

        Takes as long as the store is large, and all of it is one snapshot.

        Raises:
            BusUnavailableError: it was stopped, or a daemon has opened the store meanwhile.
        """
        try:
            found = self._examine(on_part)
        except sqlite3.OperationalError as exc:
            raise BusUnavailableError(f"the check of {self.store} was stopped") from exc
        finally:
            self._db.close()
        if found and holder_of(self.store) != self.holder:
            raise BusUnavailableError(
                f"a daemon has started or ended with {self.store} meanwhile: check it again"
            )
        return found

    def stop(self) -> None:
        """Make `run` raise soon."""
        self._db.interrupt()

    def _examine(self, on_part: Callable[[str], None]) -> list[FoundDamage]:
        try:
            self._db.execute("BEGIN")
            (application,) = self._db.execute("PRAGMA application_id").fetchone()
        except (sqlite3.DatabaseError, UnicodeDecodeError) as exc:
            return [FoundDamage("file", str(exc))]
        if application != APPLICATION_ID:
            return [FoundDamage("file", "it is not a store of the monitor")]
        return examine(self._db, on_part)
