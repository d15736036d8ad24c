"""Pages that a commit writes: an index that nothing needs, or that stays as it is, costs none."""

from __future__ import annotations

import sqlite3
import sys
from collections.abc import AsyncIterator
from contextlib import closing
from importlib import resources
from pathlib import Path

import pytest
from msgspec.structs import replace
from prometheus_client import CollectorRegistry

from monitor.bus.contract import Change, Retention
from monitor.bus.sqlite import SqliteBus, pruning, runs
from monitor.bus.sqlite.upgrade import prepare, schema_files
from monitor.model.runs import Pipeline, PipelineKind, RunState, Status
from tests.bus.examples import NOW, SOON, at, callback, event, run
from tests.clocks import ManualClock

RUNS = 2_000
FLOW = Pipeline(kind=PipelineKind.FLOW, id="7", name="Orders")


class Pages:
    """A store with many active runs, and the pages that go into its write-ahead log."""

    def __init__(self, bus: SqliteBus, path: Path) -> None:
        self.bus = bus
        self._index = path.with_name(f"{path.name}-shm")

    def _frames(self) -> int:
        return int.from_bytes(self._index.read_bytes()[16:20], sys.byteorder)

    async def written_by(self, change: Change) -> int:
        before = self._frames()
        await self.bus.commit(change, timeout_seconds=SOON)
        return self._frames() - before


def known(number: int, status: Status = Status.RUNNING) -> RunState:
    return replace(run(number, status), pipeline=FLOW)


async def open_store(path: Path) -> SqliteBus:
    return await SqliteBus.open(path, clock=ManualClock(), registry=CollectorRegistry())


@pytest.fixture
async def pages(tmp_path: Path) -> AsyncIterator[Pages]:
    path = tmp_path / "state.db"
    bus = await open_store(path)
    change = Change(runs=tuple(known(number) for number in range(RUNS)))
    await bus.commit(change, timeout_seconds=SOON)
    await bus.close()  # so that the log begins with the next commit
    bus = await open_store(path)
    yield Pages(bus, path)
    await bus.close()


async def test_a_run_that_stays_where_it_is_writes_its_own_page_only(pages: Pages) -> None:
    """A change of a run that moves in no index writes no page of an index."""
    change = Change(runs=(replace(known(700), updated_at=at(9)),))

    assert await pages.written_by(change) == 1
    assert (await pages.bus.runs([known(700).key]))[known(700).key].updated_at == at(9)


async def test_a_callback_of_an_active_run_writes_seven_pages(pages: Pages) -> None:
    """The run, its event with its id and time, the callback with its fingerprint, the numbers."""
    first = Change(runs=(known(1),), events=(event(1),), arrived=(callback(1),))
    await pages.bus.commit(first, timeout_seconds=SOON)
    state = replace(known(700), updated_at=at(9))
    change = Change(runs=(state,), events=(event(700),), arrived=(callback(700),))

    assert await pages.written_by(change) == 7


async def test_of_many_runs_those_that_move_are_found_where_they_are(pages: Pages) -> None:
    """Some stay where they are, some end, some are new: each is found by what it is now."""
    moved = [known(1, Status.FAILED), replace(known(2), updated_at=at(9)), known(RUNS + 1)]
    await pages.bus.commit(Change(runs=tuple(moved)), timeout_seconds=SOON)

    assert await pages.bus.recent_runs(statuses=[Status.FAILED], limit=9) == [moved[0]]
    active = await pages.bus.active_runs("marketing")
    assert [state.key.id for state in active] == [str(n) for n in range(RUNS) if n != 1] + [
        str(RUNS + 1)
    ]
    assert active[1] == moved[1]


def test_active_runs_are_found_by_their_status(tmp_path: Path) -> None:
    """No query goes over all runs, the ended ones included."""
    path = tmp_path / "state.db"
    path.touch()
    prepare(path)
    with closing(sqlite3.connect(path)) as db:
        asked: list[str] = []
        db.set_trace_callback(asked.append)
        assert runs.active(db, "marketing") == []
        db.set_trace_callback(None)
        steps = [
            str(detail)
            for statement in asked
            for *_, detail in db.execute(f"EXPLAIN QUERY PLAN {statement}")
        ]
    assert any(
        "USING COVERING INDEX run_recent (workspace=? AND kind=? AND status=?)" in step
        for step in steps
    )
    assert not any(step.startswith("SCAN run") for step in steps)


async def test_a_store_of_the_third_schema_keeps_what_it_has(tmp_path: Path) -> None:
    """Its active runs are found after the upgrade, and its processed callbacks are forgotten."""
    path, folder = tmp_path / "state.db", tmp_path / "schema"
    folder.mkdir()
    files = schema_files(resources.files("monitor.bus.sqlite") / "schema")
    for number in (1, 2, 3):
        (folder / f"{number:04}_step.sql").write_text(files[number])
    path.touch()
    prepare(path, schema=folder)
    (row,) = runs.rows([known(1)])
    with closing(sqlite3.connect(path)) as db, db:
        values = (1, *row[:8], row[9], row[8])
        db.execute("INSERT INTO run VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)", values)
        db.execute("INSERT INTO callback VALUES (1, 'marketing', 'a', 0, 0, x'')")
    bus = await open_store(path)

    assert await bus.active_runs("marketing") == [known(1)]
    await bus.prune(Retention(), now=NOW)
    await bus.close()
    with closing(sqlite3.connect(path)) as db:
        assert db.execute("SELECT count(*) FROM callback").fetchone() == (0,)


async def test_processed_callbacks_are_forgotten_after_any_number_that_wait(
    tmp_path: Path,
) -> None:
    """The memory of what was processed ends after a day, though older callbacks still wait."""
    bus = await open_store(tmp_path / "state.db")
    waiting, processed = pruning.PIECE + 5, pruning.PIECE + 7
    for number in range(waiting):
        await bus.receive(callback(number), inbox_bound=waiting, timeout_seconds=SOON)
    arrived = tuple(callback(number) for number in range(waiting, waiting + processed))
    await bus.commit(Change(arrived=arrived), timeout_seconds=SOON)
    later = ManualClock().now().timestamp() - NOW.timestamp() + 86_400
    await bus.prune(Retention(callbacks_seconds=1e7), now=at(later))
    await bus.close()

    with closing(sqlite3.connect(tmp_path / "state.db")) as db:
        assert db.execute("SELECT count(*), count(processed_at) FROM callback").fetchone() == (
            waiting,
            0,
        )
