"""A file that was made to look like a store: its examination ends, and runs nothing of it."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest
from prometheus_client import CollectorRegistry

from monitor.bus.sqlite import SqliteBus
from monitor.bus.sqlite.connection import connect, connect_reading, connect_readonly
from monitor.bus.sqlite.snapshot import StoreSnapshot
from monitor.bus.sqlite.store_check import StoreCheck
from monitor.model.errors import BusUnavailableError
from tests.clocks import ManualClock

# A view in the place of a table: a reader never comes to its end.
_ENDLESS = """
    DROP TABLE event;
    CREATE VIEW event (position, body, id, recorded_at) AS
        WITH RECURSIVE number (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM number)
        SELECT n, NULL, NULL, NULL FROM number WHERE n < 0;
"""


@pytest.fixture
async def store(tmp_path: Path) -> Path:
    path = tmp_path / "state.db"
    bus = await SqliteBus.open(path, clock=ManualClock(), registry=CollectorRegistry())
    await bus.close()
    return path


def spoil(store: Path, script: str) -> None:
    with closing(sqlite3.connect(store)) as db:
        db.executescript(script)


def test_the_check_of_an_endless_view_ends(store: Path) -> None:
    """It stops at its time limit, and says what to do."""
    spoil(store, _ENDLESS)
    with pytest.raises(
        BusUnavailableError, match=r"was stopped after 0 seconds: .* restore a backup"
    ):
        StoreCheck(store, least_seconds=0.3).run(lambda _part: None)


def test_a_sound_store_is_checked_within_the_limit(store: Path) -> None:
    """The limit grows with the file, and is no limit to an honest one."""
    assert StoreCheck(store).run(lambda _part: None) == []


def test_a_value_above_the_limit_is_not_read(store: Path) -> None:
    """A row that would fill the memory is damage, in one line."""
    spoil(store, "INSERT INTO consumer_state VALUES ('mqtt', 'x', zeroblob(300000))")
    found = StoreCheck(store, longest_value_bytes=200_000).run(lambda _part: None)

    assert found
    assert "too big" in found[-1].what


def test_the_schema_of_a_file_is_not_trusted(store: Path) -> None:
    """No connection lets functions with side effects run in what a file defines."""
    for db in (
        connect(store),
        connect_reading(store),
        connect_readonly(store),
        StoreSnapshot(store).db,
    ):
        with closing(db):
            assert db.execute("PRAGMA trusted_schema").fetchone() == (0,)
