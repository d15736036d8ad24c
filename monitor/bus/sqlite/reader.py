"""One thread reads, on a connection of its own, so that no read waits for a write."""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

import msgspec

from monitor.bus.sqlite.connection import is_damaged, unavailable
from monitor.model.errors import BusSchemaError, BusUnavailableError

T = TypeVar("T")

# Questions that may wait at a time; one more is refused at once.
_WAITING_BOUND = 1_000


class Reader:
    """Answers questions, each from one unchanging picture of the store."""

    def __init__(
        self, connect: Callable[[], sqlite3.Connection], *, timeout_seconds: float
    ) -> None:
        # Told, on the loop, of a question that found the file damaged.
        self.on_damage: Callable[[sqlite3.Error], None] | None = None
        self._connect = connect
        self._timeout_seconds = timeout_seconds
        self._loop = asyncio.get_running_loop()
        self._thread = ThreadPoolExecutor(max_workers=1, thread_name_prefix="store-reader")
        self._db: sqlite3.Connection | None = None
        self._waiting = 0
        self._is_closed = False

    async def ask(self, question: Callable[[sqlite3.Connection], T]) -> T:
        """Return what ``question`` finds.

        Raises:
            BusUnavailableError: there is no answer, or none in time.
            BusSchemaError: what is stored cannot be understood.
        """
        if self._is_closed:
            raise BusUnavailableError("the store is closed")
        if self._waiting >= _WAITING_BOUND:
            raise BusUnavailableError(f"{_WAITING_BOUND} reads are waiting already")
        self._waiting += 1
        try:
            async with asyncio.timeout(self._timeout_seconds):
                return await self._loop.run_in_executor(self._thread, self._answer, question)
        except TimeoutError as exc:
            self._interrupt()
            late = f"the store did not answer within {self._timeout_seconds:g} s"
            raise BusUnavailableError(late) from exc
        except BusUnavailableError as exc:
            if isinstance(exc.__cause__, sqlite3.Error) and is_damaged(exc.__cause__):
                self._tell_damage(exc.__cause__)
            raise
        finally:
            self._waiting -= 1

    async def close(self) -> None:
        """Finish what was asked, then close the connection."""
        self._is_closed = True
        await self._loop.run_in_executor(self._thread, self._drop_connection)
        self._thread.shutdown(wait=False)

    def _tell_damage(self, error: sqlite3.Error) -> None:
        if self.on_damage is not None:
            self.on_damage(error)

    def _interrupt(self) -> None:
        # Ends whatever runs now: our own question, or the slow one that ours stood behind.
        if self._db is not None:
            self._db.interrupt()

    # From here on in the reader's thread.

    def _answer(self, question: Callable[[sqlite3.Connection], T]) -> T:
        try:
            if self._db is None:
                self._db = self._connect()
            self._db.execute("BEGIN")
            try:
                return question(self._db)
            finally:
                self._db.execute("ROLLBACK")
        except sqlite3.Error as exc:
            self._drop_connection()
            raise unavailable(exc) from exc
        except (msgspec.MsgspecError, ValueError, RecursionError) as exc:
            raise BusSchemaError(f"something in the store cannot be understood: {exc}") from exc

    def _drop_connection(self) -> None:
        if self._db is not None:
            self._db.close()
            self._db = None
