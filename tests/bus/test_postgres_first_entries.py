"""State entries of a shard that has just begun are read at once, and stay as they are stored."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest

from monitor.bus.contract import Change, StateEntry
from monitor.bus.postgres.bus import PostgresBus
from monitor.bus.postgres.writing.first_entries import FirstEntries
from tests.bus.postgres_backend import TestDaemon, new_database
from tests.postgres_server import PostgresServer


class CountedReads:
    """The reads of a daemon, in place of its own."""

    def __init__(self, daemon: TestDaemon) -> None:
        self.statements: list[str] = []
        self._fetch = daemon.reader.fetch
        daemon.reader.fetch = self.fetch  # type: ignore[method-assign]  # what it does stays

    async def fetch(self, statement: str, *values: Any) -> list[Any]:
        self.statements.append(statement)
        return await self._fetch(statement, *values)


@pytest.fixture
async def daemon(postgres: PostgresServer) -> AsyncIterator[TestDaemon]:
    async with TestDaemon(postgres.url(await new_database(postgres))) as made:
        yield made


async def store(bus: PostgresBus, topic: str, value: bytes | None, *, key: str = "key") -> None:
    entry = StateEntry(workspace="acme", topic=topic, key=key, value=value)
    await bus.commit(Change(state_entries=(entry,)), timeout_seconds=5)


async def test_all_topics_of_a_workspace_are_read_by_one_query(daemon: TestDaemon) -> None:
    """Entries stored, changed and deleted meanwhile are seen without another query."""
    before = await daemon.open()
    await store(before, "one", b"1")
    await store(before, "two", b"2")
    await before.close()
    bus = await daemon.open()
    reads = CountedReads(daemon)
    first = await bus.state_entries("acme", "one")
    await store(bus, "one", None)
    await store(bus, "two", b"3")
    await store(bus, "new\0\\", b"4", key="\0\\")

    assert first == {"key": b"1"}
    assert await bus.state_entries("acme", "one") == {}
    assert await bus.state_entries("acme", "two") == {"key": b"3"}
    assert await bus.state_entries("acme", "new\0\\") == {"\0\\": b"4"}
    assert await bus.state_entries("acme", "none") == {}
    assert len(reads.statements) == 1


async def test_each_topic_is_read_when_the_first_minute_is_over(daemon: TestDaemon) -> None:
    """Nothing of the entries stays in memory, and answers come from the store."""
    bus = await daemon.open()
    await store(bus, "topic", b"1")
    await bus.state_entries("acme", "topic")
    bus.leased.first_entries.forget()
    reads = CountedReads(daemon)
    await store(bus, "topic", b"2")

    assert await bus.state_entries("acme", "topic") == {"key": b"2"}
    assert len(reads.statements) == 1


async def test_entries_stored_during_the_read_are_not_lost() -> None:
    """An answer that is older than a write does not hide it."""
    entries = FirstEntries()
    is_read, may_answer = asyncio.Event(), asyncio.Event()

    async def fetch(*_: object) -> list[dict[str, Any]]:
        is_read.set()
        await may_answer.wait()
        return [{"topic": "topic", "key": "key", "value": b"old"}]

    reading = asyncio.create_task(entries.of_topic("acme", "topic", fetch))
    await is_read.wait()
    entries.learn("acme", "topic", "key", b"new")
    may_answer.set()

    assert await reading == {"key": b"new"}
    entries.forget()
