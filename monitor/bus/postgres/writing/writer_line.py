"""The writer's connection: made again with growing waits, and cut where an answer is late."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable
from typing import TypeVar

import structlog

from monitor.bus.postgres.connections.connecting import Connection
from monitor.bus.postgres.connections.connection_failures import SERVER_ERRORS, reason_of
from monitor.bus.postgres.connections.sessions import set_up
from monitor.model.errors import MonitorError
from monitor.model.waits import backoff_seconds

T = TypeVar("T")

log = structlog.get_logger()

_RECONNECT_SECONDS, _LONGEST_RECONNECT_SECONDS = 0.05, 1.0


class WriterLine:
    """One connection at a time, for one task."""

    def __init__(
        self, connect: Callable[[], Awaitable[Connection]], *, answer_seconds: float
    ) -> None:
        """``answer_seconds``: a connection that gives no answer for so long is cut."""
        self._connect = connect
        self._answer_seconds = answer_seconds
        self._connection: Connection | None = None
        self._failures = 0  # since the last answer
        self._attempts = 0  # at a connection, since one has done its work
        self._closing = asyncio.Event()

    async def connection(self, is_needed: Callable[[], bool]) -> Connection | None:
        """Return the connection, trying for as long as it is needed; then None."""
        while is_needed() and not self._closing.is_set():
            if self._connection is not None and not self._connection.is_closed():
                return self._connection
            await self._pause()
            self._attempts += 1
            try:
                self._connection = await self._connect_once()
            except (*SERVER_ERRORS, MonitorError) as exc:
                self.report(exc)
        return None

    async def in_time(self, connection: Connection, answer: Awaitable[T]) -> T:
        """Return the answer. A late one is not cancelled, which is no answer: its line is cut."""
        loop = asyncio.get_running_loop()
        limit = loop.call_later(self._answer_seconds, connection.terminate)
        try:
            return await answer
        except (AttributeError, TypeError) as exc:
            # So asyncpg fails where it is cut between two of its own requests.
            if connection.is_closed():
                raise ConnectionResetError("cut between two requests") from exc
            raise
        finally:
            limit.cancel()

    def report(self, cause: Exception, *, what: str = "store connection lost") -> None:
        """Log the first failure since the last answer."""
        self._failures += 1
        if self._failures == 1 and not self._closing.is_set():
            reason = str(cause) if isinstance(cause, MonitorError) else reason_of(cause)
            log.warning(what, error=reason)

    def report_work(self) -> None:
        """Note that the connection has done what it was made for."""
        self._attempts = 0

    def report_answer(self) -> None:
        """Log the end of failures, if there were any."""
        if self._failures:
            log.info("store writable again", failures=self._failures)
            self._failures = 0

    def drop(self) -> None:
        if self._connection is not None:
            self._connection.terminate()
            self._connection = None

    def close(self) -> None:
        """Cut the connection, and make none any more."""
        self._closing.set()
        if self._connection is not None:
            self._connection.terminate()

    async def _connect_once(self) -> Connection:
        connection = await self._connect()
        try:
            await self.in_time(connection, set_up(connection, is_reader=False))
        except BaseException:
            connection.terminate()
            raise
        return connection

    async def _pause(self) -> None:
        """Wait before the next attempt, not before the first one."""
        if self._attempts == 0:
            return
        seconds = backoff_seconds(
            self._attempts,
            base_seconds=_RECONNECT_SECONDS,
            cap_seconds=_LONGEST_RECONNECT_SECONDS,
        )
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._closing.wait()
