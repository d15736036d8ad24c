"""Daemons wake each other: soon, seldom, and without relying on it."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable, Collection

import pytest

from monitor.bus.postgres.connections.connector import PostgresConnector
from monitor.bus.postgres.leases.notifications import (
    CHANNEL,
    ClusterNews,
    Notice,
    Notifications,
)
from monitor.bus.postgres_address import postgres_address
from tests.bus.postgres_members import prepare_database
from tests.clocks import FastClock
from tests.servers import Relay


class Listener:
    """The notifications of one daemon, and what it has learned from them."""

    def __init__(self, url: str, sender: str) -> None:
        self.notices: list[Notice] = []
        self.polls = 0
        self.polled_for: list[frozenset[Notice]] = []
        self._has_learned = asyncio.Condition()
        self.notifications = Notifications(
            PostgresConnector(address=postgres_address(url), password=None, lease_seconds=9.0),
            sender=sender,
            on_notice=self.notices.append,
            poll=self._poll,
            clock=FastClock(speed=20),
        )

    async def _poll(self, notices: Collection[Notice]) -> None:
        self.polls += 1
        self.polled_for.append(frozenset(notices))
        async with self._has_learned:
            self._has_learned.notify_all()

    async def until(self, condition: Callable[[], bool]) -> None:
        """Return once the condition holds after a poll."""
        async with asyncio.timeout(20), self._has_learned:
            await self._has_learned.wait_for(condition)

    async def next_poll(self) -> None:
        polls = self.polls
        await self.until(lambda: self.polls > polls)

    @contextlib.asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        task = asyncio.create_task(self.notifications.run())
        try:
            await self.until(lambda: self.polls > 0)
            yield
        finally:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)


@pytest.fixture
async def database(empty_database: str) -> str:
    (await prepare_database(empty_database)).terminate()
    return empty_database


async def test_a_burst_is_one_notification_and_not_an_echo(database: str) -> None:
    """A hundred changes at once reach the others as one message, and not the sender itself."""
    north, south = Listener(database, "north"), Listener(database, "south")
    messages: list[object] = []
    async with north.running(), south.running():
        connection = await prepare_database(database)
        await connection.add_listener(CHANNEL, lambda *message: messages.append(message[-1]))
        north.notices.clear()
        south.notices.clear()
        for _ in range(100):
            north.notifications.notify(Notice.LEASES)
            north.notifications.notify(Notice.INBOX)
        await south.until(lambda: len(south.notices) >= 2)
        await connection.execute("SELECT 1")
        connection.terminate()

    assert sorted(south.notices) == [Notice.INBOX, Notice.LEASES]
    assert north.notices == []
    assert len(messages) == 1


async def test_only_what_was_notified_is_read(database: str) -> None:
    """A callback for another's shard costs no query for instructions; all is read at intervals."""
    north, south = Listener(database, "north"), Listener(database, "south")
    async with north.running(), south.running():
        south.polled_for.clear()
        while len(south.polled_for) < 30:  # more often than by the clock alone
            north.notifications.notify(Notice.INBOX)
            await south.next_poll()

    alone, everything = frozenset({Notice.INBOX}), frozenset(Notice)
    assert set(south.polled_for) == {alone, everything}
    assert south.polled_for.count(alone) > south.polled_for.count(everything)


async def test_missed_notices_are_found_by_the_poll(database: str) -> None:
    """After its connection broke a daemon connects again, and reads all there is to read."""
    port = int(database.rpartition(":")[2].partition("/")[0])
    async with Relay(port) as front:
        north = Listener(database.replace(f":{port}", f":{front.port}"), "north")
        async with north.running():
            before = len(north.notices)
            front.cut()
            await north.until(lambda: len(north.notices) > before)
            assert north.notices[-1] is Notice.LEASES


async def test_messages_of_others_change_nothing(database: str) -> None:
    """Another application on the channel, or a newer version, does not end the listening."""
    north = Listener(database, "north")
    async with north.running():
        north.notices.clear()
        connection = await prepare_database(database)
        for text in ("", "[]", '{"sender": "x", "notices": ["of tomorrow"]}'):
            await connection.execute("SELECT pg_notify($1, $2)", CHANNEL, text)
        await connection.execute(
            "SELECT pg_notify($1, $2)", CHANNEL, '{"sender": "x", "notices": ["leases"]}'
        )
        await north.until(lambda: bool(north.notices))
        connection.terminate()

    assert north.notices == [Notice.LEASES]


async def test_who_shows_other_shards_learns_of_their_changes(database: str) -> None:
    """Positions are polled while a reader waits; a wait whose time is over returns False."""
    north = Listener(database, "north")
    news = north.notifications.news
    async with north.running():
        connection = await prepare_database(database)
        await connection.execute("INSERT INTO shard (name) VALUES ('sales')")
        asking = asyncio.create_task(news.wait(timeout_seconds=20))
        assert await asking  # the first poll for it
        asking = asyncio.create_task(news.wait(timeout_seconds=20))
        polls = north.polls
        await north.until(lambda: north.polls > polls + 1)
        assert not asking.done()
        await connection.execute("UPDATE shard SET newest_position = 1")
        assert await asking
        assert not await news.wait(timeout_seconds=0.001)
        connection.terminate()
    assert news.waiting == 0


async def test_a_change_during_a_read_wakes_the_reader() -> None:
    """The news are taken before the read; what comes after that needs no further one."""
    news = ClusterNews()
    before = news.next
    news.learn((1,))
    assert await news.wait(timeout_seconds=0.0, news=before)
    assert not await news.wait(timeout_seconds=0.0, news=news.next)
