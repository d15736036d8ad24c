"""Reading connections of a daemon, so that no read waits for a write.

A read takes a connection for itself. One whose read was late, cancelled or broken is dropped: the
next read makes a new one.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any, Protocol

import asyncpg

from monitor.bus.postgres.connections.connecting import Connection
from monitor.bus.postgres.connections.connection_failures import SERVER_ERRORS, unavailable
from monitor.bus.postgres.connections.sessions import set_up
from monitor.model.errors import BusUnavailableError

# Reads that may wait at a time; one more is refused at once.
_WAITING_BOUND = 10_000
# Of all tables of the monitor: those beside the log.
_SIZE = (
    "SELECT sum(pg_total_relation_size(tables.oid))::bigint AS bytes FROM pg_class AS tables"
    " WHERE tables.relkind = 'r' AND tables.relnamespace ="
    " (SELECT relnamespace FROM pg_class WHERE oid = 'event'::regclass)"
)
_SIZE_SECONDS = 60.0  # between two measurements


class Reading(Protocol):
    """Answers queries; raises BusUnavailableError."""

    async def fetch(self, statement: str, *values: Any) -> list[asyncpg.Record]: ...


class PostgresReader:
    """Answers queries on a few connections."""

    def __init__(
        self,
        connect: Callable[[], Awaitable[Connection]],
        *,
        connections: int = 2,
        timeout_seconds: float,
    ) -> None:
        self._connect = connect
        self._timeout_seconds = timeout_seconds
        self._room = asyncio.Semaphore(connections)
        self._idle: list[Connection] = []
        self._in_use: set[Connection] = set()
        self._waiting = 0
        self._is_closed = False
        self._measuring = asyncio.Lock()
        self._measured: tuple[float, int] | None = None

    async def fetch(self, statement: str, *values: Any) -> list[asyncpg.Record]:
        """Return all rows.

        Raises:
            BusUnavailableError: there is no answer, or none in time.
        """
        async with self.connection() as connection:
            return list(await connection.fetch(statement, *values))

    @asynccontextmanager
    async def connection(self) -> AsyncIterator[Connection]:
        """Yield a connection that may only read; errors as of `fetch`."""
        if self._is_closed:
            raise BusUnavailableError("the store is closed")
        if self._waiting >= _WAITING_BOUND:
            raise BusUnavailableError(f"{_WAITING_BOUND} reads are waiting already")
        self._waiting += 1
        try:
            async with asyncio.timeout(self._timeout_seconds), self._room:
                connection = await self._take()
                try:
                    yield connection
                except BaseException:
                    connection.terminate()
                    raise
                finally:
                    self._release(connection)
        except TimeoutError as exc:
            late = f"the store did not answer within {self._timeout_seconds:g} s"
            raise BusUnavailableError(late) from exc
        except SERVER_ERRORS as exc:
            raise unavailable(exc) from exc
        finally:
            self._waiting -= 1

    async def store_bytes(self) -> int:
        """Return the size of all tables with their indexes, at most a minute old."""
        async with self._measuring:
            now = asyncio.get_running_loop().time()
            if self._measured is None or self._measured[0] <= now - _SIZE_SECONDS:
                (row,) = await self.fetch(_SIZE)
                self._measured = (now, row["bytes"])
            return self._measured[1]

    async def close(self) -> None:
        """Drop all connections; reads that are under way fail."""
        self._is_closed = True
        for connection in (*self._idle, *self._in_use):
            connection.terminate()
        self._idle.clear()

    async def _take(self) -> Connection:
        while self._idle:
            connection = self._idle.pop()
            if not connection.is_closed():
                self._in_use.add(connection)
                return connection
        connection = await self._connect()
        try:
            await set_up(connection, is_reader=True)
        except BaseException:
            connection.terminate()
            raise
        self._in_use.add(connection)
        return connection

    def _release(self, connection: Connection) -> None:
        self._in_use.discard(connection)
        if self._is_closed:
            connection.terminate()
        elif not connection.is_closed():
            self._idle.append(connection)


class ShardReading:
    """The reader as one shard has it: after its end every read fails."""

    def __init__(self, reader: PostgresReader) -> None:
        self._reader = reader
        self._end: BusUnavailableError | None = None

    async def fetch(self, statement: str, *values: Any) -> list[asyncpg.Record]:
        self.check()
        rows = await self._reader.fetch(statement, *values)
        self.check()  # what was read meanwhile may be another holder's
        return rows

    async def store_bytes(self) -> int:
        self.check()
        return await self._reader.store_bytes()

    def check(self) -> None:
        """Raise if the shard is not read any more."""
        if self._end is not None:
            raise type(self._end)(str(self._end))

    def end(self, error: BusUnavailableError) -> None:
        self._end = self._end or error
