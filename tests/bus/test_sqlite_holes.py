"""A log that is not as this process wrote it ends the store; no reader runs in circles."""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from prometheus_client import CollectorRegistry

from monitor.bus.contract import Start
from monitor.bus.sqlite import SqliteBus
from monitor.model.errors import BusLostError
from tests.bus.examples import SOON, events
from tests.clocks import ManualClock
from tests.examples import examples

STORED = 6


async def open_store(path: Path) -> SqliteBus:
    return await SqliteBus.open(path, clock=ManualClock(), registry=CollectorRegistry())


async def store_in_use(path: Path) -> SqliteBus:
    """Open a store with six events of an earlier process, none of them in memory."""
    bus = await open_store(path)
    await bus.subscribe("mqtt", start=Start.OLDEST)
    for number in range(1, STORED + 1):
        await bus.commit(events(number), timeout_seconds=SOON)
    await bus.close()
    return await open_store(path)


def change(path: Path, *statements: str) -> None:
    """Change the file as another program would."""
    with closing(sqlite3.connect(path, timeout=10)) as db, db:
        for statement in statements:
            db.execute(statement)


def delete_middle(path: Path) -> None:
    change(path, "DELETE FROM event WHERE position = 4")


def delete_newest(path: Path) -> None:
    change(path, "DELETE FROM event WHERE position >= 5")


def go_back(path: Path) -> None:
    change(
        path,
        "DELETE FROM event WHERE position >= 3",
        "UPDATE sqlite_sequence SET seq = 2 WHERE name = 'event'",
    )


def skip(path: Path) -> None:
    change(path, "UPDATE sqlite_sequence SET seq = 40 WHERE name = 'event'")


def append(path: Path) -> None:
    change(
        path,
        "INSERT INTO event (id, recorded_at, body)"
        " SELECT 'another', recorded_at, body FROM event WHERE position = 1",
    )


READ = [delete_middle, delete_newest, go_back, skip]
WRITTEN = [go_back, skip, append]


@pytest.mark.parametrize("make_hole", READ)
async def test_a_consumer_that_meets_a_hole_ends_the_store(
    tmp_path: Path, make_hole: Callable[[Path], None]
) -> None:
    """It gets neither nothing, for which it would ask again at once, nor what stands after."""
    bus = await store_in_use(tmp_path / "state.db")
    make_hole(tmp_path / "state.db")
    for ask in (
        lambda: bus.read("mqtt", after=2, limit=10),
        lambda: bus.events(after=2, limit=10),
    ):
        with pytest.raises(BusLostError, match="changed by another program"):
            await ask()
    with pytest.raises(BusLostError, match="changed by another program"):
        await bus.watch()
    await bus.close()


@pytest.mark.parametrize("make_hole", WRITTEN)
async def test_a_write_after_a_hole_ends_the_store(
    tmp_path: Path, make_hole: Callable[[Path], None]
) -> None:
    """A position that another program has used, or that is not the next, acknowledges nothing."""
    bus = await store_in_use(tmp_path / "state.db")
    make_hole(tmp_path / "state.db")
    with pytest.raises(BusLostError, match=f"follows {STORED}"):
        await bus.commit(events(10), timeout_seconds=SOON)
    with pytest.raises(BusLostError, match=f"follows {STORED}"):
        await bus.watch()
    await bus.close()


@pytest.mark.parametrize("make_hole", [*READ, append])
async def test_a_hole_makes_no_reader_run_in_circles(
    tmp_path: Path, make_hole: Callable[[Path], None]
) -> None:
    """A reader that waits and reads, as every output does, ends with the store after few turns."""
    bus = await store_in_use(tmp_path / "state.db")
    make_hole(tmp_path / "state.db")
    turns = 0

    async def read_until_stopped() -> None:
        nonlocal turns
        position = 0
        while True:
            turns += 1
            batch = await bus.read("mqtt", after=position, limit=3)
            if batch.events:
                position = batch.events[-1].position
            else:
                await bus.wait(position, timeout_seconds=0.1)

    reading = asyncio.create_task(read_until_stopped())
    committing = asyncio.create_task(bus.commit(events(10), timeout_seconds=SOON))
    with pytest.raises(BusLostError):
        async with asyncio.timeout(SOON):
            await bus.watch()
    reading.cancel()
    await asyncio.gather(reading, committing, return_exceptions=True)
    await bus.close()

    assert turns < 2 * STORED


async def test_waiting_in_a_loop_lets_others_run(tmp_path: Path) -> None:
    """A wait for what is there already gives way, so that a signal is always handled."""
    bus = await store_in_use(tmp_path / "state.db")
    has_stopped = asyncio.Event()

    async def wait_until_stopped() -> None:
        while not has_stopped.is_set():
            await bus.wait(0, timeout_seconds=SOON)

    waiting = asyncio.create_task(wait_until_stopped())
    await asyncio.sleep(0)
    asyncio.get_running_loop().call_soon(has_stopped.set)
    async with asyncio.timeout(SOON):
        await waiting
    await bus.close()


@settings(max_examples=examples(30))
@given(
    deleted=st.sets(st.integers(1, STORED)),
    after=st.integers(0, STORED),
    limit=st.integers(1, STORED),
)
def test_a_read_is_whole_or_raises(
    tmp_path_factory: pytest.TempPathFactory, deleted: set[int], after: int, limit: int
) -> None:
    """Whatever rows are deleted: the oldest are a gap, others raise, and nothing is skipped."""

    async def check() -> None:
        path = tmp_path_factory.mktemp("holes") / "state.db"
        bus = await store_in_use(path)
        change(path, f"DELETE FROM event WHERE position IN ({', '.join(map(str, deleted))})")  # noqa: S608 - numbers
        left = [position for position in range(1, STORED + 1) if position not in deleted]
        oldest = min(left, default=STORED + 1)
        first = max(after + 1, oldest)
        expected = list(range(first, min(first + limit, STORED + 1)))
        try:
            batch = await bus.read("mqtt", after=after, limit=limit)
        except BusLostError:
            assert set(expected) & deleted
        else:
            assert [recorded.position for recorded in batch.events] == expected
            assert (batch.gap is not None) == (after + 1 < oldest)
        await bus.close()

    asyncio.run(check())
