"""How the embedded store's writer groups, waits, refuses and dies."""

from __future__ import annotations

import asyncio
import sqlite3
import threading
from collections.abc import AsyncIterator, Sequence
from pathlib import Path

import pytest
from prometheus_client import CollectorRegistry, Histogram

from monitor.bus.contract import Start, Step
from monitor.bus.settings import StorageSettings
from monitor.bus.sqlite import SqliteBus
from monitor.bus.sqlite.connection import StoreConnection, connect
from monitor.bus.sqlite.upgrade import prepare
from monitor.bus.sqlite.writer import StoreWriter
from monitor.bus.write_queue import WriteFailureRecord
from monitor.model.errors import BusUnavailableError
from tests.bus.examples import SOON, callback, events, log_of
from tests.clocks import ManualClock

LONG_LINGER = 600.0


class Store:
    """A writer on a file of its own, whose first connections can be limited in size."""

    def __init__(self, path: Path, *, stall_seconds: float = SOON) -> None:
        self.path = path
        self.page_limits: list[int] = []
        path.touch()
        prepare(path)
        registry, clock = CollectorRegistry(), ManualClock()
        self.writer = StoreWriter(
            self._connect,
            clock=clock,
            durations=Histogram("duration", "Of a transaction.", registry=registry),
            on_commit=lambda _news: None,
            verify=lambda: None,
            failures=WriteFailureRecord(clock, registry),
            queue_bound=5,
            stall_seconds=stall_seconds,
        )

    def _connect(self) -> StoreConnection:
        db = connect(self.path)
        if self.page_limits:
            db.execute(f"PRAGMA max_page_count = {self.page_limits.pop(0)}")
        return db

    async def write(self, *keys: str, seconds: float = SOON) -> None:
        """Store entries of these names, each of 100 KB."""
        await asyncio.gather(
            *(self.writer.write(store_entries, key, timeout_seconds=seconds) for key in keys)
        )

    def state_entries(self) -> list[str]:
        db = sqlite3.connect(self.path)
        found = [name for (name,) in db.execute("SELECT key FROM state_entry ORDER BY key")]
        db.close()
        return found


def store_entries(db: sqlite3.Connection, keys: Sequence[str]) -> list[None]:
    for key in keys:
        db.execute("INSERT INTO state_entry VALUES ('w', 't', ?, zeroblob(100000))", (key,))
    return [None for _ in keys]


class Pause:
    """Work that keeps its transaction open until it is released."""

    def __init__(self) -> None:
        self.begun = threading.Event()
        self.released = threading.Event()

    def __call__(self, db: sqlite3.Connection, keys: Sequence[str]) -> list[None]:
        self.begun.set()
        assert self.released.wait(SOON)
        return store_entries(db, keys)


async def begun(store: Store, pause: Pause) -> asyncio.Future[None]:
    """Return a write whose time is over soon, and not before its transaction has begun."""
    writing = asyncio.ensure_future(store.writer.write(pause, "a", timeout_seconds=0.02))
    await asyncio.sleep(0)
    await asyncio.sleep(0)  # the thread has it
    # The loop waits here as well, and with it what would withdraw the write.
    assert pause.begun.wait(SOON)
    return writing


@pytest.fixture
async def store(tmp_path: Path) -> AsyncIterator[Store]:
    made = Store(tmp_path / "state.db")
    yield made
    await made.writer.close()


@pytest.fixture
def registry() -> CollectorRegistry:
    return CollectorRegistry()


@pytest.fixture
async def bus(tmp_path: Path, registry: CollectorRegistry) -> AsyncIterator[SqliteBus]:
    made = await SqliteBus.open(tmp_path / "bus.db", clock=ManualClock(), registry=registry)
    yield made
    await made.close()


def transactions(registry: CollectorRegistry) -> float:
    return registry.get_sample_value("dataprep_monitor_commit_duration_seconds_count") or 0.0


async def test_many_writes_share_a_transaction(bus: SqliteBus, registry: CollectorRegistry) -> None:
    """A hundred commits and a hundred callbacks at once take a few transactions."""
    await asyncio.gather(
        *(bus.commit(events(number), timeout_seconds=SOON) for number in range(100)),
        *(
            bus.receive(callback(number), inbox_bound=999, timeout_seconds=SOON)
            for number in range(100)
        ),
    )

    assert len(await log_of(bus)) == 100
    assert 1 <= transactions(registry) <= 5


async def test_a_write_that_may_linger_goes_with_the_next_one(
    bus: SqliteBus, registry: CollectorRegistry
) -> None:
    """Steps that can wait cause no transaction while others write, and are in theirs."""
    await bus.subscribe("mqtt", start=Start.OLDEST)
    await bus.commit(events(*range(1, 6)), timeout_seconds=SOON)
    before = transactions(registry)
    steps = [
        asyncio.create_task(
            bus.advance(
                Step(consumer="mqtt", position=position),
                timeout_seconds=SOON,
                linger_seconds=LONG_LINGER,
            )
        )
        for position in (1, 2)
    ]
    await asyncio.sleep(0)
    await bus.commit(events(6), timeout_seconds=SOON)
    await asyncio.gather(*steps)

    assert transactions(registry) == before + 1
    assert await bus.subscribe("mqtt", start=Start.OLDEST) == 2


async def test_a_write_that_may_linger_is_stored_at_its_end(bus: SqliteBus) -> None:
    """Without other writes, a step is stored by itself once its linger is over."""
    await bus.subscribe("mqtt", start=Start.OLDEST)
    step = Step(consumer="mqtt", position=1)
    await bus.advance(step, timeout_seconds=SOON, linger_seconds=0.01)

    assert await bus.subscribe("mqtt", start=Start.OLDEST) == 1


async def test_closing_stores_writes_that_linger(tmp_path: Path) -> None:
    """A write that still waits for company is durable when the store is closed."""
    store = Store(tmp_path / "state.db")
    patient = store.writer.write(
        store_entries, "a", timeout_seconds=SOON, linger_seconds=LONG_LINGER
    )
    waiting = asyncio.create_task(patient)
    await asyncio.sleep(0)
    await store.writer.close()
    await waiting

    assert store.state_entries() == ["a"]


async def test_a_locked_file_costs_only_time(store: Store) -> None:
    """A write waits while another process locks the file, and is stored when it is free."""
    locking = sqlite3.connect(store.path, isolation_level=None)
    locking.execute("BEGIN IMMEDIATE")
    writing = asyncio.ensure_future(store.write("a"))
    await asyncio.wait([writing], timeout=0.15)
    assert not writing.done()
    locking.execute("COMMIT")
    locking.close()
    await writing

    assert store.state_entries() == ["a"]


async def test_a_write_that_waits_too_long_is_not_kept(store: Store) -> None:
    """A time-out before the transaction stores nothing, also when the file is free later."""
    locking = sqlite3.connect(store.path, isolation_level=None)
    locking.execute("BEGIN IMMEDIATE")
    with pytest.raises(BusUnavailableError, match="not free within"):
        await store.write("a", seconds=0.05)
    locking.execute("COMMIT")
    locking.close()
    await store.write("b")

    assert store.state_entries() == ["b"]


async def test_a_write_inside_a_transaction_is_awaited(store: Store) -> None:
    """A write that times out during its transaction is awaited, so its outcome is known."""
    pause = Pause()
    writing = await begun(store, pause)
    await asyncio.wait([writing], timeout=0.05)
    assert not writing.done()
    pause.released.set()
    await writing

    assert store.state_entries() == ["a"]


async def test_a_cancelled_write_that_waits_is_not_kept(store: Store) -> None:
    """Cancelling a caller whose write has not begun withdraws the write."""
    pause = Pause()
    first = asyncio.ensure_future(store.writer.write(pause, "a", timeout_seconds=SOON))
    await asyncio.to_thread(pause.begun.wait, SOON)
    second = asyncio.ensure_future(store.write("b"))
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    second.cancel()
    await asyncio.wait([second])
    pause.released.set()
    await first
    await store.write("c")

    assert store.state_entries() == ["a", "c"]


async def test_a_full_queue_refuses_at_once(store: Store) -> None:
    """Above the bound of waiting writes, a write is refused and the waiting ones are stored."""
    results = await asyncio.gather(
        *(store.write(str(number)) for number in range(8)), return_exceptions=True
    )

    assert [type(result) for result in results] == [type(None)] * 5 + [BusUnavailableError] * 3
    assert store.state_entries() == ["0", "1", "2", "3", "4"]


async def test_a_full_store_refuses_the_group_and_continues(store: Store) -> None:
    """When there is no room, nothing of the group is kept; with room again, writes succeed."""
    store.page_limits = [60]
    results = await asyncio.gather(
        *(store.write(str(number)) for number in range(5)), return_exceptions=True
    )
    assert [type(result) for result in results] == [BusUnavailableError] * 5
    assert store.state_entries() == []

    await store.write("later")
    assert store.state_entries() == ["later"]


async def test_a_write_that_violates_a_constraint_spoils_no_other(store: Store) -> None:
    """A write that violates a constraint is refused alone, and stores nothing."""
    results = await asyncio.gather(
        store.write("a"), store.write("b"), store.write("a"), return_exceptions=True
    )

    assert [type(result) for result in results] == [type(None), type(None), BusUnavailableError]
    assert store.state_entries() == ["a", "b"]


async def test_a_dead_writer_stores_nothing_later(tmp_path: Path) -> None:
    """A write that waited for the file when the writer died is not kept, and closing ends."""
    store = Store(tmp_path / "state.db")
    locking = sqlite3.connect(store.path, isolation_level=None)
    locking.execute("BEGIN IMMEDIATE")
    writing = asyncio.create_task(store.write("a"))
    for _ in range(3):
        await asyncio.sleep(0)  # until the thread has it
    store.writer.die(BusUnavailableError("a reader found damage"))
    with pytest.raises(BusUnavailableError, match="damage"):
        await writing
    locking.execute("ROLLBACK")
    locking.close()
    async with asyncio.timeout(SOON):
        await store.writer.close()

    assert store.state_entries() == []


async def test_the_death_of_the_writer_is_noticed(store: Store) -> None:
    """An unexpected error ends the watch, and every write from then on."""

    def broken(_db: sqlite3.Connection, _items: Sequence[str]) -> list[None]:
        raise KeyError("unforeseen")

    watching = asyncio.ensure_future(store.writer.watch())
    with pytest.raises(BusUnavailableError, match="unforeseen"):
        await store.writer.write(broken, "a", timeout_seconds=SOON)
    with pytest.raises(BusUnavailableError, match="has died"):
        await watching
    with pytest.raises(BusUnavailableError, match="has died"):
        await store.write("b")


async def test_a_damaged_file_ends_the_writer(store: Store) -> None:
    """A database that is found damaged is not written any more."""

    def damaged(_db: sqlite3.Connection, _items: Sequence[str]) -> list[None]:
        error = sqlite3.DatabaseError("database disk image is malformed")
        error.sqlite_errorcode = sqlite3.SQLITE_CORRUPT
        raise error

    with pytest.raises(BusUnavailableError, match="malformed"):
        await store.writer.write(damaged, "a", timeout_seconds=SOON)
    with pytest.raises(BusUnavailableError, match="malformed"):
        await store.writer.watch()


async def test_a_hung_disk_ends_the_writer(tmp_path: Path) -> None:
    """A transaction that does not end is given up, and the watch raises that."""
    store, pause = Store(tmp_path / "state.db", stall_seconds=0.1), Pause()
    writing = await begun(store, pause)
    with pytest.raises(BusUnavailableError, match="does not come to its end"):
        await writing
    with pytest.raises(BusUnavailableError, match="has died"):
        await store.writer.watch()
    pause.released.set()
    await store.writer.close()


async def test_closing_ends_the_watch(bus: SqliteBus) -> None:
    """A store that is closed in order ends its watch without an error."""
    watching = asyncio.ensure_future(bus.watch())
    await bus.close()
    await watching

    assert watching.exception() is None


async def test_a_read_that_runs_too_long_is_interrupted(tmp_path: Path) -> None:
    """A read has a time limit, after which the next one is answered."""
    settings = StorageSettings(url=f"sqlite://{tmp_path}/slow.db", read_timeout_seconds=0.1)
    bus = await SqliteBus.open(settings, clock=ManualClock(), registry=CollectorRegistry())
    endless = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT sum(i) FROM n"
    with pytest.raises(BusUnavailableError, match="did not answer within"):
        await bus._reader.run(lambda db: db.execute(endless).fetchone())

    assert await bus.events(after=0, limit=1) == []
    await bus.close()
