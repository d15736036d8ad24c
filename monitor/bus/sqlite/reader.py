"""One thread reads, on a connection of its own, so that no read waits for a write.

The queue of the executor holds the queries that wait. A query belongs to the thread; the loop only
sets its ``is_withdrawn``, which makes the thread skip it or stop in the middle. `interrupt` of the
connection is not used: it stops whatever runs by then, which may be the next caller's query.
"""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Generic, TypeVar

import msgspec

from monitor.bus.sqlite.connection import StoreConnection, unavailable
from monitor.model.errors import BusLostError, BusSchemaError, BusUnavailableError

T = TypeVar("T")

# Queries that may wait at a time; one more is refused at once.
_WAITING_BOUND = 1_000
# SQLite checks so often whether to stop: after some 10 ms. More often would cost more, because each
# question waits for the interpreter's lock.
_STEPS_BETWEEN_CHECKS = 1_000_000


class _Query(Generic[T]):
    """One read, until its caller gives up."""

    __slots__ = ("is_withdrawn", "read")

    def __init__(self, read: Callable[[StoreConnection], T]) -> None:
        self.read = read
        self.is_withdrawn = False


class StoreReader:
    """Answers queries, each from one unchanging snapshot of the store."""

    def __init__(self, connect: Callable[[], StoreConnection], *, timeout_seconds: float) -> None:
        # Called on the loop when a query found the store damaged, or not as we have written it.
        self.on_loss: Callable[[BusLostError], None] | None = None
        self._connect = connect
        self._timeout_seconds = timeout_seconds
        self._loop = asyncio.get_running_loop()
        self._thread = ThreadPoolExecutor(max_workers=1, thread_name_prefix="store-reader")
        self._db: StoreConnection | None = None
        self._waiting = 0
        self._is_closed = False

    async def run(self, read: Callable[[StoreConnection], T]) -> T:
        """Return the result of ``read``.

        A call that is cancelled or late leaves nothing behind: its query is skipped or stopped.

        Raises:
            BusUnavailableError: there is no answer, or none in time.
            BusSchemaError: what is stored cannot be understood.
        """
        if self._is_closed:
            raise BusUnavailableError("the store is closed")
        if self._waiting >= _WAITING_BOUND:
            raise BusUnavailableError(f"{_WAITING_BOUND} reads are waiting already")
        self._waiting += 1
        query = _Query(read)
        try:
            async with asyncio.timeout(self._timeout_seconds):
                return await self._loop.run_in_executor(self._thread, self._answer, query)
        except TimeoutError as exc:
            late = f"the store did not answer within {self._timeout_seconds:g} s"
            raise BusUnavailableError(late) from exc
        except BusLostError as exc:
            if self.on_loss is not None:
                self.on_loss(exc)
            raise
        finally:
            query.is_withdrawn = True
            self._waiting -= 1

    async def close(self) -> None:
        """Answer the queries that wait, then close the connection."""
        self._is_closed = True
        await self._loop.run_in_executor(self._thread, self._drop_connection)
        self._thread.shutdown(wait=False)

    # From here on in the reader's thread.

    def _answer(self, query: _Query[T]) -> T:
        try:
            if self._db is None:
                self._db = self._connect()
            if query.is_withdrawn:
                raise BusUnavailableError("the read was withdrawn")
            return self._read(self._db, query)
        except sqlite3.Error as exc:
            self._drop_connection()
            raise unavailable(exc) from exc
        except (msgspec.MsgspecError, ValueError, RecursionError) as exc:
            raise BusSchemaError(f"something in the store cannot be understood: {exc}") from exc

    def _read(self, db: StoreConnection, query: _Query[T]) -> T:
        db.set_progress_handler(lambda: query.is_withdrawn, _STEPS_BETWEEN_CHECKS)
        db.execute("BEGIN")
        try:
            return query.read(db)
        finally:
            # The rollback itself must not be stopped.
            db.set_progress_handler(None, 0)
            db.execute("ROLLBACK")

    def _drop_connection(self) -> None:
        if self._db is not None:
            self._db.close()
            self._db = None
