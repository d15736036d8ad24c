"""Which process owns the store's file, and which files are accepted as a store."""

from __future__ import annotations

import os
import sqlite3
import stat
from collections import defaultdict
from importlib import resources
from pathlib import Path

import pytest
from prometheus_client import CollectorRegistry

from monitor.bus.contract import Change
from monitor.bus.settings import StorageSettings, store_path
from monitor.bus.sqlite import SqliteBus, codec
from monitor.bus.sqlite.upgrade import prepare, schema_files
from monitor.model.errors import (
    BusLockedError,
    BusSchemaError,
    BusUnavailableError,
    ConfigurationError,
)
from tests.bus.examples import SOON, callback, events, log_of
from tests.bus.test_sqlite_crash import child, listen
from tests.clocks import ManualClock


async def open_store(path: Path) -> SqliteBus:
    return await SqliteBus.open(path, clock=ManualClock(), registry=CollectorRegistry())


async def test_a_second_daemon_learns_which_process_has_locked_the_store(tmp_path: Path) -> None:
    """While a daemon has the store open, another is refused with the process id of the first."""
    path = tmp_path / "state.db"
    bus = await open_store(path)
    with pytest.raises(BusLockedError, match=rf"process {os.getpid()} since 2026-11-21T10:00:00"):
        await open_store(path)
    await bus.close()

    await (await open_store(path)).close()


async def test_the_lock_dies_with_its_process(tmp_path: Path) -> None:
    """A killed daemon keeps no lock: the next one opens the store at once."""
    path = tmp_path / "state.db"
    with child(path, 0) as process:
        listen(process, defaultdict(set), lines=1)
        with pytest.raises(BusLockedError, match=str(process.pid)):
            await open_store(path)

    await (await open_store(path)).close()


async def test_only_the_owner_can_read_the_store(tmp_path: Path) -> None:
    """File, folder, lock and write-ahead log are closed to others."""
    path = tmp_path / "made" / "state.db"
    bus = await open_store(path)
    await bus.commit(events(1), timeout_seconds=SOON)
    rights = {file.name: stat.S_IMODE(file.stat().st_mode) for file in path.parent.iterdir()}
    await bus.close()

    assert rights["state.db"] == rights["state.db-wal"] == rights["state.db.lock"] == 0o600
    assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700


async def test_the_settings_name_the_file(tmp_path: Path) -> None:
    """A store opened by its settings is the file that the URL names."""
    settings = StorageSettings(url=f"sqlite://{tmp_path}/a%20store.db")
    bus = await SqliteBus.open(settings, clock=ManualClock(), registry=CollectorRegistry())
    await bus.close()

    assert (tmp_path / "a store.db").exists()


@pytest.mark.parametrize("slashes", ["///", "////"])
def test_a_path_begins_with_one_slash(slashes: str) -> None:
    """Other tools write a fourth slash before an absolute path."""
    assert str(store_path(f"sqlite:{slashes}srv/state.db")) == "/srv/state.db"


@pytest.mark.parametrize(
    "url", ["postgres:///x", "sqlite://", "sqlite:///", "sqlite://host/x", "state.db"]
)
def test_a_url_that_names_no_file_is_refused(url: str) -> None:
    """Anything but sqlite:// and an absolute path is a problem of the configuration."""
    with pytest.raises(ConfigurationError, match=r"storage\.url"):
        store_path(url)


async def test_a_file_that_is_no_database_is_refused(tmp_path: Path) -> None:
    """A text file is not overwritten, and the refusal releases the lock."""
    path = tmp_path / "state.db"
    path.write_text("a letter, long enough to be no empty file" * 100)
    for _ in range(2):
        with pytest.raises(BusSchemaError, match="not a sound SQLite database"):
            await open_store(path)

    assert path.read_text().startswith("a letter")


async def test_a_foreign_database_is_left_alone(tmp_path: Path) -> None:
    """An SQLite file of another program is refused and not changed by a byte."""
    path = tmp_path / "state.db"
    foreign = sqlite3.connect(path)
    foreign.execute("CREATE TABLE run (theirs)")
    foreign.close()
    before = path.read_bytes()
    with pytest.raises(BusSchemaError, match="not a store of the monitor"):
        await open_store(path)

    assert path.read_bytes() == before


async def test_a_newer_schema_is_refused(tmp_path: Path) -> None:
    """A store of a later version reports its schema and the newest that is known here."""
    path = tmp_path / "state.db"
    await (await open_store(path)).close()
    db = sqlite3.connect(path)
    db.execute("PRAGMA user_version = 999")
    db.close()

    with pytest.raises(BusSchemaError, match=r"its schema is 999, .* up to 5"):
        await open_store(path)


async def test_a_path_that_cannot_be_made_is_unavailable(tmp_path: Path) -> None:
    """Where a file stands in place of the folder, nothing can be opened."""
    (tmp_path / "file").write_text("")
    with pytest.raises(BusUnavailableError):
        await open_store(tmp_path / "file" / "state.db")


async def test_a_deleted_store_does_not_come_back_empty(tmp_path: Path) -> None:
    """When the file vanishes, reopening a connection fails instead of forgetting everything."""
    path = tmp_path / "state.db"
    bus = await open_store(path)
    for name in ("state.db", "state.db-wal", "state.db-shm"):
        (tmp_path / name).unlink(missing_ok=True)
    with pytest.raises(BusUnavailableError):
        await bus.commit(events(1), timeout_seconds=SOON)
    await bus.close()

    assert not path.exists()


def schema_of(folder: Path, *files: str) -> Path:
    folder.mkdir()
    for number, sql in enumerate(files, start=1):
        (folder / f"{number:04}_step.sql").write_text(sql)
    return folder


FIRST = "PRAGMA application_id = 1146113357; CREATE TABLE a (x); INSERT INTO a VALUES (1);"


def test_a_store_is_brought_to_the_newest_schema(tmp_path: Path) -> None:
    """Only the versions that are missing are applied, in order, and the data stays."""
    path = tmp_path / "state.db"
    path.touch()
    prepare(path, schema=schema_of(tmp_path / "one", FIRST))
    second = "ALTER TABLE a ADD COLUMN y DEFAULT 2;"
    third = "UPDATE a SET y = y + 1;"
    newest = schema_of(tmp_path / "three", FIRST, second, third)
    for _ in range(2):
        prepare(path, schema=newest)

    db = sqlite3.connect(path)
    assert db.execute("SELECT x, y FROM a").fetchall() == [(1, 3)]
    assert db.execute("PRAGMA user_version").fetchone() == (3,)
    db.close()


def test_an_upgrade_that_fails_has_not_happened(tmp_path: Path) -> None:
    """A version that breaks half-way leaves the store as it was, and can be applied later."""
    path = tmp_path / "state.db"
    path.touch()
    prepare(path, schema=schema_of(tmp_path / "one", FIRST))
    broken = schema_of(tmp_path / "broken", FIRST, "DROP TABLE a; CREATE TABLE b (x); NONSENSE;")
    with pytest.raises(BusUnavailableError, match="NONSENSE"):
        prepare(path, schema=broken)
    db = sqlite3.connect(path)
    assert db.execute("SELECT x FROM a").fetchall() == [(1,)]
    assert db.execute("PRAGMA user_version").fetchone() == (1,)
    db.close()

    prepare(path, schema=schema_of(tmp_path / "mended", FIRST, "DROP TABLE a;"))


async def test_a_store_keeps_its_promises_on_disk(tmp_path: Path) -> None:
    """The file is in WAL mode, and committed rows can be read by any SQLite."""
    path = tmp_path / "state.db"
    bus = await open_store(path)
    await bus.commit(events(1, 2), timeout_seconds=SOON)
    assert len(await log_of(bus)) == 2
    db = sqlite3.connect(path)
    assert db.execute("PRAGMA journal_mode").fetchone() == ("wal",)
    assert db.execute("SELECT count(*) FROM event").fetchone() == (2,)
    db.close()
    await bus.close()


def spoil(folder: Path) -> None:
    for file_path in folder.glob("state.db*"):
        size = file_path.stat().st_size
        with file_path.open("r+b") as file:  # in place: a mapped file must not shrink
            file.write(b"\xff" * size)


async def test_damage_that_a_read_finds_ends_the_store(tmp_path: Path) -> None:
    """The writer may work for long from memory; the store must not count as alive."""
    path = tmp_path / "state.db"
    bus = await open_store(path)
    await bus.commit(events(1), timeout_seconds=SOON)
    spoil(tmp_path)

    with pytest.raises(BusUnavailableError):
        await bus.recent_runs(limit=10)
    with pytest.raises(BusUnavailableError):
        await bus.watch()
    with pytest.raises(BusUnavailableError):
        await bus.commit(events(2), timeout_seconds=SOON)
    await bus.close()


async def test_a_store_of_the_first_schema_keeps_entries_and_callbacks(tmp_path: Path) -> None:
    """The upgrade renames tables and columns; waiting and processed callbacks stay so."""
    path = tmp_path / "state.db"
    first = schema_files(resources.files("monitor.bus.sqlite") / "schema")[1]
    path.touch()
    prepare(path, schema=schema_of(tmp_path / "first", first))
    db = sqlite3.connect(path)
    db.execute("INSERT INTO note VALUES ('w', 'watermark', 'changes', x'31')")
    columns = "(workspace, fingerprint, received_at, settled_at, body)"
    waiting = codec.encode(callback(1, workspace="w"))
    row = ("w", "fingerprint-1", waiting)
    db.execute(f"INSERT INTO callback {columns} VALUES (?, ?, 0, NULL, ?)", row)  # noqa: S608 - a constant
    db.execute(f"INSERT INTO callback {columns} VALUES ('w', 'f2', 0, 1, x'')")  # noqa: S608 - a constant
    db.commit()
    db.close()

    bus = await SqliteBus.open(path, clock=ManualClock(), registry=CollectorRegistry())
    try:
        assert await bus.state_entries("w", "watermark") == {"changes": b"1"}
        (left,) = (await bus.inbox("w", limit=10)).callbacks
        assert (left.run_id, (await bus.status()).inbox) == ("1", {"w": 1})
        await bus.commit(Change(processed=(left.id,)), timeout_seconds=5)
        assert (await bus.status()).inbox == {}
    finally:
        await bus.close()
