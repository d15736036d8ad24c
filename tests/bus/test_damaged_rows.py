"""A row that was damaged on the disk raises a clear error, never a plausible answer."""

from __future__ import annotations

import sqlite3
from collections.abc import AsyncIterator
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

import msgspec
import pytest
import structlog
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from prometheus_client import CollectorRegistry

from monitor.bus.contract import Change, StateEntry, decode_entries, decode_entry
from monitor.bus.sqlite import SqliteBus
from monitor.model.errors import BusError, BusSchemaError
from tests.bus.examples import SOON, callback, event, run
from tests.clocks import ManualClock

DAMAGES = st.binary(max_size=40) | st.sampled_from(
    [b"", b"{}", b"[]", b"null", b"0", b"{", b"}", b",", b"[" * 50_000, b"\xff", b"\0", b'"\xff"']
)
MANY = settings(suppress_health_check=[HealthCheck.function_scoped_fixture])


@dataclass
class Store:
    """An open store, and its file for the damage."""

    bus: SqliteBus
    path: Path

    def damage(self, table: str, body: bytes) -> None:
        with sqlite3.connect(self.path, timeout=10) as db:
            db.execute(f"UPDATE {table} SET body = ?", (body,))  # noqa: S608 - names of this file
        db.close()


@pytest.fixture
async def store(tmp_path: Path) -> AsyncIterator[Store]:
    """Open a store with a run, an event and a callback from an earlier process, none in memory."""
    path = tmp_path / "state.db"
    bus = await SqliteBus.open(path, clock=ManualClock(), registry=CollectorRegistry())
    await bus.commit(Change(runs=(run(1),), events=(event(1),)), timeout_seconds=SOON)
    await bus.receive(callback(1), inbox_bound=10, timeout_seconds=SOON)
    await bus.close()
    bus = await SqliteBus.open(path, clock=ManualClock(), registry=CollectorRegistry())
    yield Store(bus, path)
    await bus.close()


@MANY
@given(body=DAMAGES)
@example(body=b"")
@example(body=b"\r")
async def test_a_damaged_run_is_no_unknown_run(store: Store, body: bytes) -> None:
    """Every query that meets it fails; an unknown run would emit its events again."""
    store.damage("run", body)
    key = run(1).key
    for question in (
        lambda: store.bus.runs([key]),
        lambda: store.bus.recent_runs(limit=10),
    ):
        with pytest.raises(BusError):
            await question()


async def test_a_run_under_another_key_is_refused(store: Store) -> None:
    """A body that belongs to another run is no answer for this one."""
    store.damage("run", msgspec.json.encode(run(2)))

    with pytest.raises(BusSchemaError, match="a stored run has the key"):
        await store.bus.runs([run(1).key])


@MANY
@given(body=DAMAGES)
async def test_a_damaged_event_is_not_passed_over(store: Store, body: bytes) -> None:
    """A consumer that meets it does not continue as if it were absent."""
    store.damage("event", body)
    for question in (
        lambda: store.bus.events(after=0, limit=10),
        lambda: store.bus.read("mqtt", after=0, limit=10),
    ):
        with pytest.raises(BusError):
            await question()


@MANY
@given(body=DAMAGES)
async def test_a_damaged_callback_is_not_passed_over(store: Store, body: bytes) -> None:
    """Reading the inbox raises the error."""
    store.damage("callback", body)
    with pytest.raises(BusError):
        await store.bus.inbox("marketing", limit=10)


async def test_the_store_works_beside_a_damaged_row(store: Store) -> None:
    """Queries that do not meet the row are answered, and new rows are stored."""
    store.damage("event", b"{")
    await store.bus.commit(Change(runs=(run(2),)), timeout_seconds=SOON)

    assert list(await store.bus.runs([run(2).key])) == [run(2).key]


INSTANTS = msgspec.json.Decoder(datetime)


@MANY
@given(value=DAMAGES)
def test_a_damaged_state_entry_is_an_error_or_skipped(value: bytes) -> None:
    """An entry that can be rebuilt is skipped with a log event, any other is an error."""
    good = b'"2026-01-01T00:00:00Z"'
    with structlog.testing.capture_logs() as logged:
        decoded = decode_entries({"good": good, "bad": value}, INSTANTS, topic="watermark")

    assert decoded == {"good": datetime(2026, 1, 1, tzinfo=UTC)}
    assert [line["event"] for line in logged] == ["damaged state entry skipped"]
    with pytest.raises(BusSchemaError, match="what is stored as the begin cannot be understood"):
        decode_entry(value, INSTANTS, what="the begin")


async def test_state_entries_are_kept_as_they_are(store: Store) -> None:
    """The store itself does not decode an entry; any bytes come back."""
    entry = StateEntry(workspace="acme", topic="t", key="k", value=b"\xff\0")
    await store.bus.commit(Change(state_entries=(entry,)), timeout_seconds=SOON)

    assert await store.bus.state_entries("acme", "t") == {"k": b"\xff\0"}
