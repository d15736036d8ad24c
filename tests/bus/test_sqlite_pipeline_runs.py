"""The column and the index of the runs of a pipeline: how they are made, and that they are used."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable
from contextlib import closing
from importlib import resources
from pathlib import Path

import pytest
from prometheus_client import CollectorRegistry

from monitor.bus.sqlite import SqliteBus, codec, runs
from monitor.bus.sqlite.store_check import StoreCheck
from monitor.bus.sqlite.upgrade import prepare, schema_files
from monitor.model.errors import BusError
from monitor.model.runs import RunState, Status
from tests.bus.examples import run
from tests.bus.test_contract_pipeline_runs import ELSEWHERE, MONTHLY, ORDERS, UNKNOWN, run_of
from tests.clocks import ManualClock

_OLD_COLUMNS = "workspace, kind, id, status, created_at, ended_at, flow_run, plan_run, body"


async def open_store(path: Path) -> SqliteBus:
    return await SqliteBus.open(path, clock=ManualClock(), registry=CollectorRegistry())


def second_schema(path: Path) -> None:
    """Make an empty store as the version before this column made it."""
    files = schema_files(resources.files("monitor.bus.sqlite") / "schema")
    folder = path.parent / "schema"
    folder.mkdir()
    for number in (1, 2):
        (folder / f"{number:04}_step.sql").write_text(files[number])
    path.touch()
    prepare(path, schema=folder)


def insert(path: Path, rows: Iterable[tuple[object, ...]]) -> None:
    with closing(sqlite3.connect(path)) as db, db:
        db.executemany(
            f"INSERT INTO run ({_OLD_COLUMNS}) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)",  # noqa: S608 - a constant
            rows,
        )


def old_row(state: RunState, *, body: bytes | None = None) -> tuple[object, ...]:
    (row,) = runs.rows([state])
    return (*row[:8], codec.encode(state) if body is None else body)


async def test_a_store_of_the_second_schema_finds_its_runs_by_pipeline(tmp_path: Path) -> None:
    """The upgrade reads each run's pipeline from its body; a run without one stays without."""
    path = tmp_path / "state.db"
    second_schema(path)
    stored = [run_of(ORDERS, 1), run_of(ORDERS, 2), run_of(MONTHLY, 3), run_of(ELSEWHERE, 4)]
    insert(path, map(old_row, [*stored, run(5, Status.FAILED)]))

    bus = await open_store(path)
    found = await bus.pipeline_runs([ORDERS, MONTHLY, ELSEWHERE, UNKNOWN], limit=9)
    everything = await bus.recent_runs(limit=9)
    await bus.close()
    assert found == {
        ORDERS: [stored[1], stored[0]],
        MONTHLY: [stored[2]],
        ELSEWHERE: [stored[3]],
        UNKNOWN: [],
    }
    assert len(everything) == 5
    assert StoreCheck(path).run(lambda _part: None) == []


@pytest.mark.parametrize(
    "body", [b"", b"\xff", b'{"pipeline":{"id":"7"', b"\0", b"[" * 50_000, b'"pipeline"', b"7"]
)
async def test_a_damaged_run_does_not_stop_the_upgrade(tmp_path: Path, body: bytes) -> None:
    """It is the check of the store that judges it, with the same words as before."""
    path = tmp_path / "state.db"
    second_schema(path)
    insert(path, [old_row(run_of(ORDERS, 1), body=body), old_row(run_of(ORDERS, 2))])

    prepare(path)
    with pytest.raises(BusError, match="row 1 of run cannot be understood"):
        await open_store(path)
    (damage,) = StoreCheck(path).run(lambda _part: None)
    assert (damage.part, damage.what.split(":")[0]) == (
        "rows",
        "row 1 of run cannot be understood",
    )
    with closing(sqlite3.connect(path)) as db:
        assert runs.of_pipelines(db, [ORDERS], since=None, before=None, limit=9) == {
            ORDERS: [run_of(ORDERS, 2)]
        }


async def test_a_run_in_another_pipeline_than_its_body_says_is_refused(tmp_path: Path) -> None:
    """The column is judged with the others."""
    path = tmp_path / "state.db"
    second_schema(path)
    insert(path, [old_row(run_of(ORDERS, 1))])
    prepare(path)
    with closing(sqlite3.connect(path)) as db, db:
        db.execute("UPDATE run SET pipeline_id = '8'")

    with pytest.raises(BusError, match="row 1 of run belongs to another body"):
        await open_store(path)


def test_histories_are_found_by_the_index_and_not_sorted(tmp_path: Path) -> None:
    """The cost of a history does not grow with the runs of others."""
    path = tmp_path / "state.db"
    path.touch()
    prepare(path)
    asked: list[str] = []
    with closing(sqlite3.connect(path)) as db:
        db.set_trace_callback(asked.append)
        runs.of_pipelines(db, [ORDERS, MONTHLY], since=None, before=None, limit=9)
        db.set_trace_callback(None)
        steps = [
            (parent, str(detail))
            for statement in asked
            for _, parent, _, detail in db.execute(f"EXPLAIN QUERY PLAN {statement}")
        ]
    (parent,) = [
        parent
        for parent, detail in steps
        if "USING COVERING INDEX run_pipeline (workspace=? AND kind=? AND pipeline_id=?"
        " AND created_at>? AND created_at<?)" in detail
    ]
    beside = [detail for step_parent, detail in steps if step_parent == parent]
    assert len(beside) == 1  # no sorting behind it
    assert [detail for _, detail in steps if detail.startswith("SCAN run")] == []
