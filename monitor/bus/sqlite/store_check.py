"""Examines a whole store, beside the daemon that holds it or without one. Changes nothing."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from pathlib import Path
from threading import Timer

from monitor.bus.sqlite.lock import holder_of
from monitor.bus.sqlite.snapshot import StoreSnapshot, locate_readable
from monitor.bus.sqlite.soundness import FoundDamage, examine
from monitor.bus.sqlite.upgrade import APPLICATION_ID
from monitor.model.errors import BusUnavailableError

# A store takes far less, also on a slow disk; a file that was made to hold us up has no end.
_LEAST_SECONDS = 60.0
_BYTES_A_SECOND = 1024 * 1024
_LONGEST_VALUE_BYTES = 64 * 1024 * 1024  # a row of the monitor has some kilobytes


class StoreCheck:
    """One examination of one store. `run` may be stopped from another thread.

    The file may come from elsewhere: it has a time limit by its size, and its schema runs nothing.

    Raises:
        BusUnavailableError: there is no store, or it may not be read.
    """

    def __init__(
        self,
        store: Path,
        *,
        least_seconds: float = _LEAST_SECONDS,
        longest_value_bytes: int = _LONGEST_VALUE_BYTES,
    ) -> None:
        self.store = locate_readable(store)
        self.holder = holder_of(self.store)
        self.store_bytes = self.store.stat().st_size
        self._limit_seconds = least_seconds + self.store_bytes / _BYTES_A_SECOND
        self._is_late = False
        self._db = StoreSnapshot(self.store, check_same_thread=False).db
        self._db.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, longest_value_bytes)

    def run(self, on_part: Callable[[str], None]) -> list[FoundDamage]:
        """Return what is wrong; ``on_part`` is called with the name of each part as it begins.

        Takes as long as the store is large, and all of it is one snapshot.

        Raises:
            BusUnavailableError: it was stopped or took too long, or a daemon has opened the store
                meanwhile.
        """
        timer = Timer(self._limit_seconds, self._expire)
        timer.daemon = True
        timer.start()
        try:
            found = self._examine(on_part)
        except sqlite3.OperationalError as exc:
            raise BusUnavailableError(f"the check of {self.store} {self._why()}") from exc
        finally:
            timer.cancel()
            timer.join()  # it uses the connection
            self._db.close()
        if found and holder_of(self.store) != self.holder:
            raise BusUnavailableError(
                f"a daemon has started or ended with {self.store} meanwhile: check it again"
            )
        return found

    def stop(self) -> None:
        """Make `run` raise soon."""
        self._db.interrupt()

    def _expire(self) -> None:
        self._is_late = True
        self._db.interrupt()

    def _why(self) -> str:
        if not self._is_late:
            return "was stopped"
        return (
            f"was stopped after {self._limit_seconds:.0f} seconds: a store of "
            f"{self.store_bytes:,} bytes takes less, so the file is not the monitor's, or its disk "
            "is very slow; check a copy on another disk, or restore a backup"
        )

    def _examine(self, on_part: Callable[[str], None]) -> list[FoundDamage]:
        try:
            self._db.execute("BEGIN")
            (application,) = self._db.execute("PRAGMA application_id").fetchone()
        except (sqlite3.DatabaseError, UnicodeDecodeError) as exc:
            return [FoundDamage("file", str(exc))]
        if application != APPLICATION_ID:
            return [FoundDamage("file", "it is not a store of the monitor")]
        return examine(self._db, on_part)
