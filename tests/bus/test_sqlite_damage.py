"""A store that was damaged, emptied or lost between two lives: one clear line, and no half life."""

from __future__ import annotations

import asyncio
import shutil
import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest
import structlog
from hypothesis import given
from hypothesis import strategies as st
from prometheus_client import CollectorRegistry

from monitor.bus.contract import Change, Start, Step
from monitor.bus.sqlite import SqliteBus, soundness
from monitor.model.errors import BusError
from tests.bus.examples import SOON, callback, event, events, log_of, run
from tests.clocks import ManualClock

EVENTS = 120
PAGE_BYTES = 4_096


async def open_store(path: Path) -> SqliteBus:
    return await SqliteBus.open(path, clock=ManualClock(), registry=CollectorRegistry())


@pytest.fixture(scope="module")
def sound(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a closed store of many pages, with rows in every table that grows."""
    path = tmp_path_factory.mktemp("sound") / "state.db"

    async def fill() -> None:
        bus = await open_store(path)
        await bus.subscribe("mqtt", start=Start.OLDEST)
        for number in range(1, EVENTS + 1):
            change = Change(runs=(run(number),), events=(event(number),))
            await bus.commit(change, timeout_seconds=SOON)
            await bus.receive(callback(number), inbox_bound=EVENTS, timeout_seconds=SOON)
        step = Step(consumer="mqtt", position=5, state={"count": b"5"})
        await bus.advance(step, timeout_seconds=SOON)
        await bus.close()

    asyncio.run(fill())
    return path


@pytest.fixture
def store(sound: Path, tmp_path: Path) -> Path:
    return Path(shutil.copy(sound, tmp_path / "state.db"))


def flip(path: Path, offset: int, count: int) -> None:
    with path.open("r+b") as file:
        file.seek(offset)
        taken = file.read(count)
        file.seek(offset)
        file.write(bytes(byte ^ 0xFF for byte in taken))


def size(path: Path) -> int:
    return path.stat().st_size


async def refusal(path: Path) -> str:
    """Return why the store is refused."""
    with pytest.raises(BusError) as refused:
        await open_store(path)
    return str(refused.value)


async def test_flipped_bytes_at_the_front_are_refused(store: Path) -> None:
    """The refusal is one line, names the file and says what to do."""
    flip(store, 0, 100)
    line = await refusal(store)
    assert str(store) in line
    assert "restore a backup, or move the file away" in line
    assert "\n" not in line


async def test_flipped_bytes_in_the_middle_are_refused(store: Path) -> None:
    """Whichever page lost its head, the daemon does not start on the others."""
    pages = size(store) // PAGE_BYTES
    assert pages > 40
    for page in range(1, pages):
        flip(store, page * PAGE_BYTES, 64)
        assert "restore a backup" in await refusal(store)
        flip(store, page * PAGE_BYTES, 64)

    bus = await open_store(store)
    assert len(await log_of(bus)) == EVENTS
    await bus.close()


async def test_a_store_that_was_cut_off_is_refused(store: Path) -> None:
    """Half of a file, as a copy that was interrupted."""
    with store.open("r+b") as file:
        file.truncate(size(store) // 2)
    assert "restore a backup" in await refusal(store)


@given(place=st.floats(0, 1), count=st.integers(1, 300))
def test_damage_anywhere_is_refused_or_harmless(
    sound: Path, tmp_path_factory: pytest.TempPathFactory, place: float, count: int
) -> None:
    """Every answer of a damaged store is its rows or an error of ours, at the start or later."""

    async def check() -> None:
        path = Path(shutil.copy(sound, tmp_path_factory.mktemp("flipped") / "state.db"))
        flip(path, int(place * (size(path) - 1)), count)
        try:
            bus = await open_store(path)
        except BusError:
            return
        assert len(await log_of(bus)) == EVENTS
        assert len(await bus.active_runs("marketing")) == EVENTS
        await bus.commit(events(500), timeout_seconds=SOON)
        await bus.status()
        await bus.close()

    asyncio.run(check())


def statement(sql: str) -> Callable[[Path], None]:
    def run_it(path: Path) -> None:
        with closing(sqlite3.connect(path)) as db, db:
            db.execute(sql)

    return run_it


@pytest.mark.parametrize(
    ("sql", "reason"),
    [
        ("DELETE FROM event WHERE position = 100", "event 99 where 100 belongs"),
        ("DELETE FROM event WHERE position = 120", "event 119 where 120 belongs"),
        ("UPDATE consumer SET position = 121", "mqtt has read up to 121, and the log ends at 120"),
        ("UPDATE run SET body = x'ff' WHERE number = 7", "row 7 of run cannot be understood"),
        ("UPDATE event SET body = '' WHERE position = 9", "row 9 of event has no body"),
        ("UPDATE event SET body = x'7b' WHERE position = 9", "row 9 of event cannot be understood"),
        ("UPDATE run SET id = '77x' WHERE number = 7", "row 7 of run belongs to another body"),
        ("DROP TABLE inbox", "no such table: inbox"),
    ],
)
async def test_a_store_that_the_monitor_cannot_have_written_is_refused(
    store: Path, sql: str, reason: str
) -> None:
    """Sound pages with a hole in the log, unreadable rows or without a table are no store."""
    statement(sql)(store)
    assert reason in await refusal(store)


async def test_a_large_store_is_checked_by_its_newest_rows(
    store: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Past a size the start reads the end of each table only, and takes no longer."""
    monkeypatch.setattr(soundness, "_SMALL_BYTES", 10 * PAGE_BYTES)
    monkeypatch.setattr(soundness, "_NEWEST_ROWS", 10)
    statement("UPDATE event SET body = '' WHERE position = 9")(store)
    await (await open_store(store)).close()

    statement("UPDATE event SET body = '' WHERE position = 115")(store)
    assert "row 115 of event has no body" in await refusal(store)


def lose(path: Path) -> None:
    path.unlink()


def empty(path: Path) -> None:
    path.write_bytes(b"")


@pytest.mark.parametrize("vanish", [lose, empty])
async def test_a_start_beside_traces_of_a_former_store_says_so(
    store: Path, vanish: Callable[[Path], None]
) -> None:
    """One warning names what is left; the former write-ahead log is not deleted by SQLite."""
    folder = store.parent
    (folder / "state.db-wal").write_bytes(b"changes that are nowhere else")
    (folder / "state.db.damaged").write_bytes(b"a former store")
    (folder / "state.db.lock").write_text("4711 2026-11-20T10:00:00+00:00\n")
    vanish(store)
    with structlog.testing.capture_logs() as logged:
        bus = await open_store(store)
    assert await log_of(bus) == []
    await bus.close()

    (warning,) = [line for line in logged if line["log_level"] == "warning"]
    assert warning["event"] == "new store beside leftover files of a former one"
    assert warning["leftovers"] == ["state.db-wal", "state.db.damaged", "state.db.lock"]
    assert (folder / warning["kept_log"]).read_bytes() == b"changes that are nowhere else"


async def test_a_first_start_warns_of_nothing(tmp_path: Path) -> None:
    """Neither a new store nor one that is opened again has anything to say."""
    (tmp_path / "other.db").write_text("another program's")
    with structlog.testing.capture_logs() as logged:
        for _ in range(2):
            await (await open_store(tmp_path / "state.db")).close()
    assert [line for line in logged if line["log_level"] != "info"] == []
