"""A store is judged by the writes that it was given, and not by a probe that always fits."""

from __future__ import annotations

import sqlite3
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import closing
from pathlib import Path

import pytest
from prometheus_client import CollectorRegistry, Histogram

from monitor.bus.contract import Retention, WriteFailures
from monitor.bus.sqlite import SqliteBus
from monitor.bus.sqlite.connection import StoreConnection, connect
from monitor.bus.sqlite.upgrade import prepare
from monitor.bus.sqlite.writer import StoreWriter
from monitor.bus.write_queue import WriteFailureRecord
from monitor.model.errors import BusUnavailableError
from tests.bus.examples import NOW, SOON, events
from tests.clocks import ManualClock

LARGE = b"x" * 200_000
SHORT_SECONDS = 0.05


def insert(db: StoreConnection, bodies: Sequence[bytes]) -> list[None]:
    for body in bodies:
        db.execute(
            "INSERT INTO state_entry VALUES ('w', 't', 'k', ?)"
            " ON CONFLICT DO UPDATE SET value = excluded.value",
            (body,),
        )
    return [None] * len(bodies)


def change_nothing(_: StoreConnection, given: Sequence[None]) -> list[None]:
    return list(given)


@pytest.fixture
def registry() -> CollectorRegistry:
    return CollectorRegistry()


@pytest.fixture
def record(clock: ManualClock, registry: CollectorRegistry) -> WriteFailureRecord:
    return WriteFailureRecord(clock, registry)


@pytest.fixture
async def writer(
    tmp_path: Path, clock: ManualClock, record: WriteFailureRecord
) -> AsyncIterator[StoreWriter]:
    """Return a writer on a disk that has room for small writes only."""
    path = tmp_path / "state.db"
    path.touch()
    prepare(path)

    def connect_full() -> StoreConnection:
        db = connect(path)
        (pages,) = db.execute("PRAGMA page_count").fetchone()
        db.execute(f"PRAGMA max_page_count = {pages + 2}")
        return db

    writing = StoreWriter(
        connect_full,
        clock=clock,
        durations=Histogram("duration", "Of a transaction.", registry=CollectorRegistry()),
        on_commit=lambda _news: None,
        verify=lambda: None,
        failures=record,
        queue_bound=5,
        stall_seconds=SOON,
    )
    yield writing
    await writing.close()


def present(record: WriteFailureRecord) -> WriteFailures:
    assert record.failures is not None
    return record.failures


async def test_a_probe_that_fits_ends_no_trouble(
    writer: StoreWriter,
    record: WriteFailureRecord,
    clock: ManualClock,
    registry: CollectorRegistry,
) -> None:
    """A write was refused; only another write that was stored ends that, and time does not."""
    assert record.failures is None
    for _ in range(2):
        with pytest.raises(BusUnavailableError):
            await writer.write(insert, LARGE, timeout_seconds=SOON)
    await writer.write(insert, b"", timeout_seconds=SOON, is_probe=True)
    await writer.write(change_nothing, None, timeout_seconds=SOON)
    await clock.advance(1_000)

    assert present(record) == WriteFailures(
        since=NOW, quiet_seconds=1_000, count=2, reason="database or disk is full"
    )
    await writer.write(insert, b"1", timeout_seconds=SOON)
    assert present(record).is_over
    assert registry.get_sample_value("dataprep_monitor_store_writes_refused_total") == 2


async def test_trouble_after_a_quiet_time_restarts_the_count(
    writer: StoreWriter, record: WriteFailureRecord, clock: ManualClock
) -> None:
    """Trouble of an hour ago is over; trouble that comes and goes within minutes is one."""
    counts = []
    for pause_seconds in (60, 3_600, 0):
        with pytest.raises(BusUnavailableError):
            await writer.write(insert, LARGE, timeout_seconds=SOON)
        await writer.write(insert, b"1", timeout_seconds=SOON)
        counts.append(present(record).count)
        await clock.advance(pause_seconds)
    assert counts == [1, 2, 1]


async def test_a_store_that_another_program_locks_refuses_writes(
    tmp_path: Path, clock: ManualClock
) -> None:
    """A write that waited in vain counts, a probe that did does not, and retention ends nothing."""
    path = tmp_path / "state.db"
    bus = await SqliteBus.open(path, clock=clock, registry=CollectorRegistry())
    writes: list[Callable[[], Awaitable[object]]] = [
        lambda: bus.commit(events(1), timeout_seconds=SHORT_SECONDS),
        lambda: bus.probe(timeout_seconds=SHORT_SECONDS),
    ]
    with closing(sqlite3.connect(path, isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        for write in writes:
            with pytest.raises(BusUnavailableError):
                await write()
        other.execute("COMMIT")
    await bus.prune(Retention(), now=NOW)
    failures = (await bus.status()).write_failures
    assert failures is not None
    assert (failures.count, failures.is_over) == (1, False)
    assert failures.reason == "the store was not free within 0.05 s"

    await bus.commit(events(1), timeout_seconds=SOON)
    failures = (await bus.status()).write_failures
    assert failures is not None
    assert failures.is_over
    await bus.close()
