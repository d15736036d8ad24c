"""A dump that is not as it was written, a store that will not do, and deaths in between."""

from __future__ import annotations

import asyncio
import errno
import gzip
import os
import sqlite3
import sys
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import msgspec
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from prometheus_client import CollectorRegistry

from monitor.bus.dump.dump_file import DumpReader
from monitor.bus.dump.dump_records import COLUMNS, SCHEMA, StoreTable
from monitor.bus.postgres.connections.connecting import connect
from monitor.bus.postgres.connections.migrations import LOCK
from monitor.bus.postgres_address import postgres_address
from monitor.bus.sqlite import SqliteBus
from monitor.model.errors import (
    BusLockedError,
    BusSchemaError,
    ConfigurationError,
    LocalFileError,
)
from tests.app.eventually import eventually
from tests.bus.dump_scenario import (
    NEWEST,
    carried,
    exported,
    file_url,
    fill,
    imported,
    shards_of,
    stored_in,
    target_of,
)
from tests.bus.examples import SOON, events
from tests.clocks import ManualClock
from tests.postgres_server import PostgresServer

_GZIP_HEADER_BYTES = 10  # some of them say nothing
_TREE = Path(__file__).parents[2]


@pytest.fixture
async def store(tmp_path: Path) -> str:
    """Return the URL of a closed file that holds a little of everything."""
    await fill(tmp_path / "state.db")
    return file_url(tmp_path / "state.db")


@pytest.fixture
async def dump(store: str, tmp_path: Path) -> Path:
    return await exported(store, tmp_path / "a.dump")


@pytest.fixture
def new(tmp_path: Path) -> str:
    """Return the URL of a file that is not there."""
    return file_url(tmp_path / "new.db")


def lines_of(dump: Path) -> list[bytes]:
    return gzip.decompress(dump.read_bytes()).splitlines(keepends=True)


def write_lines(path: Path, lines: list[bytes]) -> None:
    path.write_bytes(gzip.compress(b"".join(lines)))


def cut(dump: Path, left: int) -> None:
    """Leave so many bytes, or all but so many."""
    dump.write_bytes(dump.read_bytes()[:left])


def left_of(folder: Path) -> list[str]:
    """Return the names of what an export has left."""
    return [path.name for path in folder.glob("a.dump*")]


async def assert_refused(dump: Path, url: str, words: str) -> None:
    """Import a dump that is refused in one line, before the store is made."""
    with pytest.raises((LocalFileError, BusSchemaError), match=words) as refused:
        await imported(dump, url)
    assert str(dump) in str(refused.value)
    assert "\n" not in str(refused.value)
    assert not os.path.exists(url.removeprefix("sqlite://"))  # noqa: ASYNC240, PTH110 - at once


@pytest.mark.parametrize("left", [0, 5, 200, -1, -40])
async def test_a_cut_file_is_refused(dump: Path, new: str, left: int) -> None:
    """At its beginning, in the middle, and where only the checksum of gzip is missing."""
    cut(dump, left)
    await assert_refused(dump, new, "is cut off after line|no dump that store export")


async def test_a_file_without_its_last_lines_is_refused(dump: Path, new: str) -> None:
    """Also where the rest was compressed again."""
    lines = lines_of(dump)
    write_lines(dump, lines[:-1])
    await assert_refused(dump, new, "is cut off after line")
    write_lines(dump, [*lines[:-3], *lines[-2:]])
    await assert_refused(dump, new, "is damaged after line .*take another copy of the dump")
    write_lines(dump, [*lines, lines[1]])
    await assert_refused(dump, new, "it goes on after its end")


@settings(
    max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None
)
@given(place=st.floats(0, 1, exclude_max=True), bit=st.integers(0, 7))
def test_a_changed_byte_is_refused(dump: Path, place: float, bit: int) -> None:
    """Wherever it is: the file is refused, or what is read of it is the same."""
    whole = bytearray(dump.read_bytes())
    rows = list(DumpReader(dump).records())
    at = _GZIP_HEADER_BYTES + int(place * (len(whole) - _GZIP_HEADER_BYTES))
    whole[at] ^= 1 << bit
    changed = dump.with_name("changed.dump")
    changed.write_bytes(whole)
    try:
        read = list(DumpReader(changed).records())
    except (LocalFileError, BusSchemaError) as exc:
        assert str(changed) in str(exc)  # noqa: PT017 - it need not be refused
    else:
        assert read == rows


async def test_a_newer_schema_is_refused(dump: Path, new: str) -> None:
    """In one line with both numbers and the version, whatever else its header has."""
    lines = lines_of(dump)
    header = {"format": "dataprep-monitor dump", "schema": SCHEMA + 1, "version": "9.0", "x": []}
    write_lines(dump, [msgspec.json.encode(header) + b"\n", *lines[1:]])
    await assert_refused(
        dump, new, f"newer version of the monitor, 9.0: its schema is {SCHEMA + 1}, this version"
    )


async def test_another_file_is_refused(store: str, dump: Path, new: str) -> None:
    """A store instead of its dump, and compressed lines of another program."""
    words = "is no dump that store export has written"
    await assert_refused(Path(store.removeprefix("sqlite://")), new, words)
    write_lines(dump, [b'{"a": 1}\n'])
    await assert_refused(dump, new, words)


async def test_a_file_that_is_not_there_is_one_line(tmp_path: Path, new: str) -> None:
    await assert_refused(tmp_path / "no.dump", new, "cannot be read: No such file or directory")


async def test_a_store_with_rows_is_left_alone(
    store: str, dump: Path, empty_database: str, tmp_path: Path
) -> None:
    """A file and a database with contents, and tables of other applications."""
    before = await stored_in(store)
    with pytest.raises(ConfigurationError, match=r"state.db is not empty: it has rows in event"):
        await imported(dump, store)
    assert await stored_in(store) == before
    await imported(dump, empty_database)
    with pytest.raises(ConfigurationError, match="is not empty: it has shard _cluster, shard acme"):
        await imported(dump, empty_database)
    with closing(sqlite3.connect(tmp_path / "theirs.db")) as db, db:
        db.execute("CREATE TABLE theirs (x)")
    with pytest.raises(BusSchemaError, match="not a store of the monitor"):
        await imported(dump, file_url(tmp_path / "theirs.db"))
    with pytest.raises(BusSchemaError, match="not a store of the monitor"):
        await exported(file_url(tmp_path / "theirs.db"), tmp_path / "b.dump")


async def test_a_database_of_another_application_is_left_alone(
    dump: Path, empty_database: str, postgres: PostgresServer, tmp_path: Path
) -> None:
    """Neither filled nor read."""
    name = empty_database.rpartition("/")[2]
    await postgres.execute("CREATE TABLE theirs (x int)", database=name)
    for work in (imported(dump, empty_database), exported(empty_database, tmp_path / "b.dump")):
        with pytest.raises(BusSchemaError, match="tables of another application"):
            await work


async def test_a_store_in_use_is_not_filled(
    dump: Path, new: str, postgres: PostgresServer, empty_database: str
) -> None:
    """A file that a daemon holds, a database with a living daemon, and one that is filled."""
    path = Path(new.removeprefix("sqlite://"))
    bus = await SqliteBus.open(path, clock=ManualClock(), registry=CollectorRegistry())
    with pytest.raises(BusLockedError, match="is held by process"):
        await imported(dump, new)
    await bus.close()
    async with target_of(empty_database):
        with pytest.raises(BusLockedError, match="or another import runs; wait until it is done"):
            await imported(dump, empty_database)
    await postgres.execute(
        "INSERT INTO daemon (id, incarnation, host, process, process_id, version, schema,"
        " started_at, renewed_at, expires_at, lease_seconds) SELECT 'm1', gen_random_uuid(), 'h1',"
        " '', 1, '1', 1, now(), now(), now() + interval '1 minute', 9",
        database=empty_database.rpartition("/")[2],
    )
    with pytest.raises(BusLockedError, match="is in use by m1 on h1; end these daemons first"):
        await imported(dump, empty_database)


async def test_an_import_waits_for_the_end_of_the_one_before(
    dump: Path, empty_database: str
) -> None:
    """The session of one that has just ended may hold its lock for another moment."""
    before = await connect(
        postgres_address(empty_database), None, purpose="test", timeout_seconds=20.0
    )
    await before.execute("SELECT pg_advisory_lock($1)", LOCK)
    importing = asyncio.create_task(imported(dump, empty_database))
    waiting = (
        "SELECT EXISTS (SELECT FROM pg_locks JOIN pg_database ON pg_database.oid = database"
        " WHERE datname = current_database() AND locktype = 'advisory' AND NOT granted)"
    )
    await eventually(lambda: before.fetchval(waiting), why="it does not wait")
    before.terminate()
    assert sum(rows[StoreTable.EVENT] for rows in (await importing).values() if rows) == NEWEST


async def test_a_former_write_ahead_log_is_not_destroyed(dump: Path, new: str) -> None:
    """SQLite would delete it beside a new file."""
    wal = Path(new.removeprefix("sqlite://") + "-wal")
    write_lines(wal, [b"former"])
    with pytest.raises(ConfigurationError, match=r"new\.db-wal is the write-ahead log of a former"):
        await imported(dump, new)
    assert lines_of(wal) == [b"former"]


async def test_a_dump_replaces_no_file(store: str, dump: Path) -> None:
    """Neither one that is complete nor one that is being written."""
    before = lines_of(dump)
    with pytest.raises(LocalFileError, match=r"a\.dump is there already"):
        await exported(store, dump)
    assert lines_of(dump) == before
    unfinished = dump.with_name("b.dump.unfinished")
    write_lines(unfinished, before)
    with pytest.raises(LocalFileError, match="of an export that runs, or was killed"):
        await exported(store, dump.with_name("b.dump"))
    assert lines_of(unfinished) == before


async def test_a_store_of_an_older_schema_is_not_exported(store: str, tmp_path: Path) -> None:
    """Its daemon upgrades it; an export changes nothing."""
    with closing(sqlite3.connect(tmp_path / "state.db")) as db, db:
        db.execute("PRAGMA user_version = 2")
    with pytest.raises(BusSchemaError, match=r"has schema 2, .*start its daemon once"):
        await exported(store, tmp_path / "a.dump")


async def test_a_damaged_event_is_found_by_the_export(store: str, tmp_path: Path) -> None:
    """Rather than on the day that the dump is needed."""
    with closing(sqlite3.connect(tmp_path / "state.db")) as db, db:
        db.execute("UPDATE event SET body = x'7b' WHERE position = 9")
    with pytest.raises(BusSchemaError, match=r"event 9 is damaged: .*restore a backup"):
        await exported(store, tmp_path / "a.dump")
    assert left_of(tmp_path) == []


async def test_a_full_disk_leaves_nothing(
    store: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One line names the file, the reason and the way out; no half dump stays."""

    def full(_descriptor: int) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(
        LocalFileError, match=r"a.dump.unfinished cannot be written: No space left .*make room"
    ):
        await exported(store, tmp_path / "a.dump")
    assert left_of(tmp_path) == []


def interrupted(_done: int) -> None:
    raise KeyboardInterrupt


async def test_an_interrupted_export_leaves_nothing(store: str, tmp_path: Path) -> None:
    """As Ctrl-C does."""
    with pytest.raises(KeyboardInterrupt):
        await exported(store, tmp_path / "a.dump", on_progress=interrupted)
    assert left_of(tmp_path) == []


async def killed(way: str, url: str, dump: Path, rows: int) -> None:
    """Let a process do it, which kills itself after so many rows."""
    child = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "tests.bus.dying_child", way, url, str(dump), str(rows), cwd=_TREE
    )
    assert await child.wait() == -9


async def test_a_killed_export_leaves_no_dump(store: str, tmp_path: Path) -> None:
    """Only a file that says what it is, and nothing that could be imported."""
    await killed("export", store, tmp_path / "a.dump", 1)
    assert left_of(tmp_path) == ["a.dump.unfinished"]
    with pytest.raises(LocalFileError):
        await imported(tmp_path / "a.dump.unfinished", file_url(tmp_path / "new.db"))


@pytest.mark.parametrize("rows", [1, 40, 80])
@pytest.mark.parametrize("is_file", [True, False])
async def test_a_killed_import_leaves_an_empty_store(
    dump: Path, new: str, empty_database: str, rows: int, *, is_file: bool
) -> None:
    """The next attempt does all of it."""
    url = new if is_file else empty_database
    await killed("import", url, dump, rows)
    assert not any((await stored_in(url)).values())
    await imported(dump, url)
    assert {shard.newest_position for shard in (await shards_of(url)).values()} == {NEWEST}
    assert all((await stored_in(url)).values())


async def columns_of(url: str, postgres: PostgresServer) -> set[tuple[str, str]]:
    if url.startswith("sqlite"):
        with closing(sqlite3.connect(url.removeprefix("sqlite://"))) as db:
            tables = db.execute("SELECT name FROM sqlite_schema WHERE sql LIKE 'CREATE TABLE%'")
            return {
                (table, row[1])
                for (table,) in tables.fetchall()
                for row in db.execute(f"PRAGMA table_info({table})")
            }
    rows = await postgres.fetch(
        "SELECT table_name, column_name FROM information_schema.columns"
        " WHERE table_schema = 'public'",
        database=url.rpartition("/")[2],
    )
    return {(row[0], row[1]) for row in rows}


# What a store gives its rows by itself, and what is about the store or its daemons.
_LOCAL_TABLES = {
    "sqlite": {"inbox", "sqlite_sequence"},  # made by triggers
    "postgres": {"store", "schema_version", "daemon", "instruction", "probe"},
}
_LOCAL_COLUMNS = {
    *(("run", "number"), ("dead_letter", "number"), ("callback", "id"), ("event", "epoch")),
    *((table, "shard") for table in StoreTable),
    *(("callback", "received_by"), ("consumer", "unnamed_since")),
}


async def test_a_dump_has_every_column_of_both_kinds(
    store: str, dump: Path, empty_database: str, postgres: PostgresServer
) -> None:
    """A column that is added to a store is added to the dump, whose schema is raised with it."""
    await imported(dump, empty_database)
    dumped = {(table.value, column) for table in StoreTable for column in COLUMNS[table]}
    for url, kind in ((store, "sqlite"), (empty_database, "postgres")):
        stored = await columns_of(url, postgres)
        of_tables = {
            (table, column)
            for table, column in stored
            if table not in {*_LOCAL_TABLES[kind], "shard", "workspace"}
        }
        assert of_tables - _LOCAL_COLUMNS == dumped - _LOCAL_COLUMNS, kind


async def test_a_running_store_is_exported_as_it_is_at_one_time(
    store: str, new: str, tmp_path: Path
) -> None:
    """While a daemon commits between any two rows, state and events of one time are read."""
    bus = await SqliteBus.open(
        tmp_path / "state.db", clock=ManualClock(), registry=CollectorRegistry()
    )
    before = await stored_in(store)
    numbers = iter(range(1_000, 9_000))
    writing = asyncio.create_task(commit_until_stopped(bus, numbers))
    for number in range(3):
        await exported(store, tmp_path / f"{number}.dump")
    writing.cancel()
    await asyncio.gather(writing, return_exceptions=True)
    await bus.close()
    await carried(store, new, tmp_path / "last.dump")
    for number in range(3):
        url = file_url(tmp_path / f"{number}.db")
        await imported(tmp_path / f"{number}.dump", url)
        stored = await stored_in(url)
        positions = [row[0] for _, row in stored[StoreTable.EVENT]]
        assert positions == list(range(1, len(positions) + 1))
        assert stored[StoreTable.RUN] == before[StoreTable.RUN]
        assert (await shards_of(url))[""].newest_position == len(positions)


async def commit_until_stopped(bus: SqliteBus, numbers: Iterator[int]) -> None:
    for number in numbers:
        await bus.commit(events(number), timeout_seconds=SOON)
