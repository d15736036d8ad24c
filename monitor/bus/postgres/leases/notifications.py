"""Notifications between daemons: by one coalesced NOTIFY, and by a poll for lost ones.

NOTIFY takes a lock of the whole server at commit, so no transaction of the writer has one: it goes
out on this connection, a few times a second at most. A notification carries no facts, only where
to read; a lost one costs the time until the next poll.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable, Collection
from enum import StrEnum
from typing import Any

import msgspec
import structlog
from msgspec import Struct

from monitor.bus.postgres.connections.connecting import Connection
from monitor.bus.postgres.connections.connection_failures import bus_errors
from monitor.bus.postgres.connections.connector import PostgresConnector
from monitor.model.clock import Clock
from monitor.model.errors import BusUnavailableError
from monitor.model.waits import happens_within

log = structlog.get_logger()

CHANNEL = "dataprep_monitor"
POLL_SECONDS = 2.0
_COALESCE_SECONDS = 0.2
_RETRY_SECONDS = 1.0
# Sums move with whatever is stored, since positions, epochs and numbers only grow.
_NEWEST = (
    "SELECT coalesce(sum(newest_position), 0)::bigint, coalesce(sum(epoch), 0)::bigint,"
    " (SELECT max(number) FROM instruction) AS asked,"
    " (SELECT max(done_at) FROM instruction) AS answered FROM shard"
)


class Notice(StrEnum):
    """What another daemon may have to read."""

    LEASES = "leases"  # something can be claimed
    INBOX = "inbox"  # a callback is stored for a shard of another daemon
    INSTRUCTION = "instruction"  # likewise


class Notification(Struct, frozen=True, kw_only=True):
    """One message. ``sender`` is the incarnation of a daemon."""

    sender: str
    notices: list[Notice]


class ClusterNews:
    """Wakes those who show the shards of other daemons. Polled for only while one waits."""

    def __init__(self) -> None:
        self.waiting = 0
        self._has_changed = asyncio.Event()
        self._state: object = None

    @property
    def next(self) -> asyncio.Event:
        """Set when something may have changed; for those who then read, and wait after that."""
        return self._has_changed

    async def wait(self, *, timeout_seconds: float, news: asyncio.Event | None = None) -> bool:
        """Return True once something may have changed in a shard, False after the time-out.

        ``news`` is `next` of an earlier time.
        """
        self.waiting += 1
        try:
            async with asyncio.timeout(timeout_seconds):
                await (news or self._has_changed).wait()
        except TimeoutError:
            return False
        else:
            return True
        finally:
            self.waiting -= 1

    def changed(self) -> None:
        self._has_changed.set()
        self._has_changed = asyncio.Event()

    def learn(self, state: object) -> None:
        """Compare the newest figures of the store with the former ones."""
        if state != self._state:
            self._state = state
            self.changed()


class Notifications:
    """The connection that listens, polls and notifies. Belongs to the event loop."""

    def __init__(
        self,
        connector: PostgresConnector,
        *,
        sender: str,
        on_notice: Callable[[Notice], None],
        poll: Callable[[Collection[Notice]], Awaitable[None]],
        clock: Clock,
    ) -> None:
        """Call ``poll`` with what was notified, and every few seconds with all notices."""
        self.news = ClusterNews()
        self._connector = connector
        self._sender = sender
        self._on_notice = on_notice
        self._poll = poll
        self._clock = clock
        self._connection: Connection | None = None
        self._waiting: set[Notice] = set()
        self._wake = asyncio.Event()
        self._due: set[Notice] = set()  # notified, and not yet polled for
        self._poll_at = 0.0  # for all notices; monotonic

    def notify(self, notice: Notice) -> None:
        """Let the other daemons know soon."""
        self._waiting.add(notice)
        self._wake.set()

    async def run(self) -> None:
        """Listen until cancelled; while the server is away nothing is notified, nothing lost."""
        while True:
            with contextlib.suppress(BusUnavailableError):  # the connector has logged it
                self._connection = await self._connector.connect(purpose="notifications")
            try:
                if self._connection is not None:
                    with bus_errors():
                        await self._listen(self._connection)
            except BusUnavailableError as exc:
                log.warning("notifications interrupted", reason=str(exc))
            finally:
                self._drop()
            await self._clock.sleep(_RETRY_SECONDS)

    async def _listen(self, connection: Connection) -> None:
        await connection.add_listener(CHANNEL, self._on_notification)
        # What was notified before this connection listened.
        self._on_notice(Notice.LEASES)
        self._poll_at = self._clock.monotonic()
        while True:
            due, self._due = self._due, set()
            if self._clock.monotonic() >= self._poll_at:
                self._poll_at = self._clock.monotonic() + POLL_SECONDS
                due = set(Notice)
                await self._read_newest(connection)
            await self._poll(due)
            await self._send_until_poll(connection)

    async def _read_newest(self, connection: Connection) -> None:
        if self.news.waiting:
            self.news.learn(await connection.fetchrow(_NEWEST))
        else:
            # Only finds out whether the connection still is one.
            await connection.execute("SELECT")

    async def _send_until_poll(self, connection: Connection) -> None:
        while not self._due and (left := self._poll_at - self._clock.monotonic()) > 0:
            await happens_within(
                self._wake.wait(), clock=self._clock, seconds=left, name="notification"
            )
            if self._wake.is_set():
                self._wake.clear()
                await self._clock.sleep(_COALESCE_SECONDS)
                await self.send(connection)

    async def send(self, connection: Connection) -> None:
        """Notify now of what waits, which `run` does by itself."""
        waiting, self._waiting = self._waiting, set()
        if not waiting:
            return
        notification = Notification(sender=self._sender, notices=sorted(waiting))
        payload = msgspec.json.encode(notification).decode()
        await connection.execute("SELECT pg_notify($1, $2)", CHANNEL, payload)

    def _on_notification(self, _connection: Any, _process: int, _channel: str, text: Any) -> None:
        try:
            notification = msgspec.json.decode(text, type=Notification)
        except (msgspec.MsgspecError, ValueError):
            return  # of another application, or of a newer version
        if notification.sender == self._sender:
            return
        for notice in notification.notices:
            self._on_notice(notice)
        self.news.changed()
        self._due.update(notification.notices)
        self._wake.set()

    def _drop(self) -> None:
        if self._connection is not None:
            self._connection.terminate()
            self._connection = None
