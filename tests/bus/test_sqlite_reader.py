"""One thread answers all queries: a cancelled query disturbs no other."""

from __future__ import annotations

import asyncio
import sqlite3
import threading
from collections.abc import AsyncIterator, Callable
from pathlib import Path

import pytest

from monitor.bus.sqlite.connection import connect_reading
from monitor.bus.sqlite.reader import StoreReader
from monitor.bus.sqlite.upgrade import prepare
from monitor.model.errors import BusUnavailableError

TIMEOUT_SECONDS = 2.0
ROWS = 200_000
COUNT = (
    "WITH RECURSIVE n (i) AS (SELECT started() UNION ALL SELECT i + 1 FROM n WHERE i < ?)"
    " SELECT max(i) FROM n"
)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    (tmp_path / "state.db").touch()
    prepare(tmp_path / "state.db")
    return tmp_path / "state.db"


@pytest.fixture
async def reader(path: Path) -> AsyncIterator[StoreReader]:
    reading = StoreReader(lambda: connect_reading(path), timeout_seconds=TIMEOUT_SECONDS)
    yield reading
    await reading.close()


def counting(rows: int, started: threading.Event) -> Callable[[sqlite3.Connection], int]:
    """Return a query that runs for a while, and that sets ``started`` once it is in the middle."""

    def start() -> int:
        started.set()
        return 1

    def count(db: sqlite3.Connection) -> int:
        db.create_function("started", 0, start)
        return int(db.execute(COUNT, (rows,)).fetchone()[0])

    return count


async def test_a_time_out_does_not_interrupt_the_query_after_it(reader: StoreReader) -> None:
    """The first query ends at its time-out, when the second already runs."""
    loop = asyncio.get_running_loop()
    release, began, started = threading.Event(), threading.Event(), threading.Event()

    def wait_for_release(_: sqlite3.Connection) -> None:
        began.set()
        release.wait(30)

    def let_the_second_begin() -> None:
        release.set()
        started.wait(30)

    first = asyncio.create_task(reader.run(wait_for_release))
    await asyncio.to_thread(began.wait)
    due = loop.time() + TIMEOUT_SECONDS
    await asyncio.wait({first}, timeout=TIMEOUT_SECONDS / 2)
    second = asyncio.create_task(reader.run(counting(ROWS, started)))
    # The loop is busy while the time-out falls due, so that what follows runs between the
    # time-out and what the first caller does about it.
    loop.call_at(due - 0.1, threading.Event().wait, 0.15)
    loop.call_at(due, let_the_second_begin)

    assert await second == ROWS
    with pytest.raises(BusUnavailableError, match="did not answer within"):
        await first


async def test_a_query_that_runs_too_long_is_interrupted(path: Path) -> None:
    """The thread is free again at once, for the next query."""
    reader = StoreReader(lambda: connect_reading(path), timeout_seconds=0.2)
    try:
        with pytest.raises(BusUnavailableError, match=r"did not answer within 0\.2 s"):
            await reader.run(counting(10**12, threading.Event()))
        assert await reader.run(counting(10, threading.Event())) == 10
    finally:
        await reader.close()


async def test_a_query_whose_caller_is_cancelled_is_interrupted(reader: StoreReader) -> None:
    """No caller waits for its answer, so it must not delay the next query until a time-out."""
    started = threading.Event()
    query = asyncio.create_task(reader.run(counting(10**12, started)))
    await asyncio.to_thread(started.wait)
    query.cancel()
    with pytest.raises(asyncio.CancelledError):
        await query
    assert await reader.run(counting(10, threading.Event())) == 10
