"""Entries of the whole store: kept by any daemon, in the order of their keys, within bounds."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from prometheus_client import CollectorRegistry

from monitor.bus.contract import store_entries
from monitor.bus.postgres import open_postgres
from monitor.bus.settings import StorageSettings
from monitor.bus.shards import ShardStore
from monitor.bus.sqlite.sole_shard import SqliteStore
from monitor.model.clock import SystemClock
from monitor.model.errors import BusFullError
from tests.bus.conftest import BACKENDS
from tests.bus.examples import SOON

TOPIC = "audit"


async def opened(url: str, *, daemon: str) -> ShardStore:
    settings = StorageSettings(url=url, daemon=daemon)
    registry = CollectorRegistry()
    if url.startswith("sqlite"):
        return await SqliteStore.open(settings, clock=SystemClock(), registry=registry)
    return await open_postgres(
        settings, version="1.0", url=None, clock=SystemClock(), registry=registry
    )


@pytest.fixture(params=BACKENDS)
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    if request.param == "sqlite":
        return f"sqlite://{tmp_path / 'state.db'}"
    return str(request.getfixturevalue("empty_database"))


@pytest.fixture
async def store(url: str) -> AsyncIterator[ShardStore]:
    """Yield a store whose daemon holds no shard."""
    store = await opened(url, daemon="north")
    yield store
    await store.close()


def entries(*numbers: int) -> dict[str, bytes | None]:
    return {f"{number:03}": b"%d" % number for number in numbers}


async def test_the_newest_come_first_page_by_page(store: ShardStore) -> None:
    """Every entry of the topic comes once, by descending key, and none of another topic."""
    await store.entries.put("other", entries(5), timeout_seconds=SOON)
    await store.entries.put(TOPIC, entries(*range(7)), timeout_seconds=SOON)

    shown = await store.entries.newest(TOPIC, limit=3)
    while page := await store.entries.newest(TOPIC, before=shown[-1][0], limit=3):
        shown += page

    assert shown == [(f"{number:03}", b"%d" % number) for number in reversed(range(7))]


async def test_what_was_put_is_there_after_a_restart(url: str, store: ShardStore) -> None:
    """The later value of a key counts, and what was removed is gone."""
    await store.entries.put(TOPIC, entries(1, 2, 3), timeout_seconds=SOON)
    await store.entries.put(TOPIC, {"001": None, "002": b"\xff\0"}, timeout_seconds=SOON)
    await store.close()

    again = await opened(url, daemon="north")
    try:
        assert await again.entries.newest(TOPIC, limit=9) == [("003", b"3"), ("002", b"\xff\0")]
        assert await again.entries.get(TOPIC, "002") == b"\xff\0"
        assert await again.entries.get(TOPIC, "001") is None
        assert await again.entries.get("other", "002") is None
    finally:
        await again.close()


async def test_what_is_old_is_dropped(store: ShardStore) -> None:
    """Entries below the key go, of that topic only, also more than one transaction removes."""
    await store.entries.put("other", entries(1), timeout_seconds=SOON)
    many = {f"{number:05}": b"" for number in range(2_500)}
    await store.entries.put(TOPIC, many, timeout_seconds=SOON)

    assert await store.entries.drop_before(TOPIC, "02400") == 2_400
    assert await store.entries.drop_before(TOPIC, "02400") == 0
    left = await store.entries.newest(TOPIC, limit=1_000)
    assert [key for key, _ in left] == [f"{number:05}" for number in range(2_499, 2_399, -1)]
    assert await store.entries.get("other", "001") == b"1"


async def test_a_full_topic_takes_nothing_new(
    store: ShardStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """All of a put or none of it; known keys may change, and a removal makes room."""
    await store.entries.put(TOPIC, entries(1, 2), timeout_seconds=SOON)
    for module in ("sqlite.entries", "postgres.writing.store_entries"):
        monkeypatch.setattr(f"monitor.bus.{module}.ENTRIES_BOUND", 2)

    with pytest.raises(BusFullError, match="entries of audit and takes no more"):
        await store.entries.put(TOPIC, {"001": b"x", **entries(3)}, timeout_seconds=SOON)
    assert await store.entries.get(TOPIC, "001") == b"1"
    await store.entries.put(TOPIC, {"001": b"x"}, timeout_seconds=SOON)
    await store.entries.put(TOPIC, {"002": None, **entries(3)}, timeout_seconds=SOON)
    assert [key for key, _ in await store.entries.newest(TOPIC, limit=9)] == ["003", "001"]


async def test_what_no_store_can_hold_is_refused(store: ShardStore) -> None:
    """A value over the bound, and a name that not every store compares alike."""
    value = b"x" * (store_entries.VALUE_BYTES_BOUND + 1)
    with pytest.raises(BusFullError, match=r"entry k of audit has 65,537 bytes; .* takes 65,536"):
        await store.entries.put(TOPIC, {"k": value}, timeout_seconds=SOON)
    for name in ("", "a b", "ä", "a\\b", "a\0", "x" * 201):
        with pytest.raises(ValueError, match="no name of an entry"):
            await store.entries.put(TOPIC, {name: b""}, timeout_seconds=SOON)


async def test_writes_at_the_same_time_are_all_kept(store: ShardStore) -> None:
    """Of some topics and keys, in whatever order they come."""
    await asyncio.gather(
        *(
            store.entries.put(topic, entries(number, number % 3), timeout_seconds=SOON)
            for number in range(20)
            for topic in (TOPIC, "other")
        )
    )
    for topic in (TOPIC, "other"):
        assert len(await store.entries.newest(topic, limit=99)) == 20


async def test_daemons_without_a_shard_share_the_entries(empty_database: str) -> None:
    """What one daemon of a cluster has put, another reads, changes and drops."""
    north = await opened(empty_database, daemon="north")
    south = await opened(empty_database, daemon="south")
    try:
        await north.entries.put(TOPIC, entries(1, 2), timeout_seconds=SOON)
        assert await south.entries.get(TOPIC, "001") == b"1"
        await asyncio.gather(
            *(
                daemon.entries.put(TOPIC, entries(*numbers), timeout_seconds=SOON)
                for daemon in (north, south)
                for numbers in ((3, 4, 5), (5, 4, 3))
            )
        )
        assert await south.entries.drop_before(TOPIC, "003") == 2
        assert [key for key, _ in await north.entries.newest(TOPIC, limit=9)] == [
            "005",
            "004",
            "003",
        ]
    finally:
        await north.close()
        await south.close()
