"""A file as the source or the target of a dump."""

from __future__ import annotations

import sqlite3
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, closing, contextmanager
from datetime import datetime
from pathlib import Path

from monitor.bus.dump.dump_records import (
    COLUMNS,
    ROWS_AT_ONCE,
    Shard,
    ShardRow,
    Shards,
    StoreTable,
)
from monitor.bus.shards import SOLE
from monitor.bus.sqlite import log
from monitor.bus.sqlite.connection import (
    LOG_EPOCH,
    StoreConnection,
    connect,
    connect_readonly,
    keep_log_epoch,
    unavailable,
)
from monitor.bus.sqlite.leftover_files import leftovers_beside
from monitor.bus.sqlite.location import locate
from monitor.bus.sqlite.lock import StoreLock
from monitor.bus.sqlite.snapshot import StoreSnapshot, locate_readable
from monitor.bus.sqlite.sole_shard import JUDGED
from monitor.bus.sqlite.upgrade import newest_schema, prepare, schema_of
from monitor.model.alerts import BRIDGE
from monitor.model.errors import BusSchemaError, ConfigurationError

# About the file: the header of a dump has the epoch of its log, and each store judges ages itself.
_OF_FILE = " OR ".join(
    f"(workspace, topic, key) = ('{workspace}', '{topic}', '{key}')"
    for workspace, topic, key in (LOG_EPOCH, JUDGED)
)
_ROWS = {
    StoreTable.CONSUMER: "FROM consumer ORDER BY name",
    StoreTable.DEAD_LETTER: "FROM dead_letter ORDER BY number",
    StoreTable.EVENT: "FROM event ORDER BY position",
    StoreTable.RUN: "FROM run ORDER BY number",
    StoreTable.STATE_ENTRY: f"FROM state_entry WHERE NOT ({_OF_FILE})"
    " ORDER BY workspace, topic, key",
    StoreTable.CALLBACK: "FROM callback ORDER BY id",
    StoreTable.CONSUMER_STATE: "FROM consumer_state ORDER BY consumer, key",
    StoreTable.STORE_ENTRY: "FROM store_entry ORDER BY topic, key",
}
_WORKSPACES = (
    "SELECT workspace FROM run UNION SELECT workspace FROM state_entry"
    " UNION SELECT workspace FROM callback ORDER BY workspace"
)
_TABLES = "SELECT name FROM sqlite_schema WHERE type = 'table' AND name NOT GLOB 'sqlite_*'"
_EPOCH = "epoch"  # of the whole log here, not of each event


class SqliteSource:
    """A file in one read transaction; a daemon may write beside it, whose log grows meanwhile."""

    kind = "sqlite"

    def __init__(self, store: Path) -> None:
        self.name = str(store)
        self._snapshot = StoreSnapshot(store)
        self.db = self._snapshot.db

    async def shards(self) -> dict[str, Shard]:
        with self._errors():
            names = [name for (name,) in self.db.execute(_WORKSPACES) if name != BRIDGE]
            shard = Shard(
                newest_position=log.newest_position(self.db),
                oldest_position=log.oldest_position(self.db),
                log_epoch=self.db.log_epoch,
                workspaces=dict.fromkeys(names, ""),
            )
        return {SOLE: shard}

    async def count(self) -> int:
        with self._errors():
            return sum(_count(self.db, table) for table in StoreTable)

    async def rows(self, table: StoreTable) -> AsyncIterator[ShardRow]:
        epoch = str(self.db.log_epoch)
        columns = ", ".join(epoch if name == _EPOCH else name for name in COLUMNS[table])
        with self._errors():
            cursor = self.db.execute(f"SELECT {columns} {_ROWS[table]}")
            while rows := cursor.fetchmany(ROWS_AT_ONCE):
                for row in rows:
                    yield ShardRow(SOLE, row)
        self._snapshot.verify()

    @contextmanager
    def _errors(self) -> Iterator[None]:
        try:
            yield
        except sqlite3.Error as exc:
            self._snapshot.verify()
            raise unavailable(exc) from exc


@asynccontextmanager
async def open_source(path: Path) -> AsyncIterator[SqliteSource]:
    """Yield a file as it is now.

    Raises:
        BusUnavailableError: there is none, or it may not be read.
        BusSchemaError: its schema is not that of this version, or it is no store of the monitor.
    """
    store = locate_readable(path)
    with _bus_errors():
        source = SqliteSource(store)
    try:
        with _bus_errors():
            source.db.execute("BEGIN")
            _refuse_other_schema(source.db, store)
        yield source
    finally:
        source.db.close()


class SqliteTarget:
    """An empty file in one transaction."""

    def __init__(self, db: StoreConnection) -> None:
        self._db = db

    async def begin(self, shards: Shards) -> None:
        shard = shards[SOLE]
        with _bus_errors():
            self._db.execute("BEGIN IMMEDIATE")
            self._db.execute(
                "INSERT INTO sqlite_sequence VALUES ('event', ?)", (shard.newest_position,)
            )
            if shard.log_epoch:
                keep_log_epoch(self._db, shard.log_epoch)

    async def write(self, table: StoreTable, rows: list[ShardRow]) -> None:
        columns = [column for column in COLUMNS[table] if column != _EPOCH]
        values = ", ".join(
            f"?{number}"
            for number, column in enumerate(COLUMNS[table], start=1)
            if column != _EPOCH
        )
        statement = f"INSERT INTO {table} ({', '.join(columns)}) VALUES ({values})"  # noqa: S608 - a table of ours
        with _bus_errors():
            self._db.executemany(statement, [row.row for row in rows])

    async def count(self, table: StoreTable) -> int:
        with _bus_errors():
            return _count(self._db, table)


@asynccontextmanager
async def open_target(path: Path, *, now: datetime) -> AsyncIterator[SqliteTarget]:
    """Yield an empty file, made where there is none; what was stored is kept if the block ends.

    Raises:
        BusLockedError: a daemon holds it.
        ConfigurationError: it has rows, or a write-ahead log of a former store is beside it.
        BusSchemaError: it is no store of the monitor.
    """
    for trace in leftovers_beside(locate(path)):
        if trace.name == f"{path.name}-wal":
            raise ConfigurationError(
                f"{trace} is the write-ahead log of a former store; move it away"
            )
    lock = StoreLock(path, now=now)
    try:
        _refuse_rows(lock.store)
        prepare(lock.store)
        with _bus_errors():
            db = connect(lock.store)
            db.execute("PRAGMA foreign_keys = OFF")  # a database has no such rule
        try:
            yield SqliteTarget(db)
            with _bus_errors():
                db.execute("COMMIT")
                db.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        finally:
            db.close()  # which rolls back what was not committed
    finally:
        lock.release()


@contextmanager
def _bus_errors() -> Iterator[None]:
    try:
        yield
    except sqlite3.Error as exc:
        raise unavailable(exc) from exc


def _refuse_other_schema(db: sqlite3.Connection, store: Path) -> None:
    present, newest = schema_of(db, store), newest_schema()
    if present < newest:
        raise BusSchemaError(
            f"{store} has schema {present}, and this version exports {newest}: start its daemon "
            "once, which upgrades the store"
        )


def _refuse_rows(store: Path) -> None:
    """Return where the file, which may have a schema of any version, is empty."""
    with _bus_errors(), closing(connect_readonly(store)) as db:
        schema_of(db, store)
        for (table,) in db.execute(_TABLES).fetchall():
            if db.execute(f'SELECT EXISTS (SELECT 1 FROM "{table}")').fetchone()[0]:  # noqa: S608 - a table of ours
                raise ConfigurationError(
                    f"{store} is not empty: it has rows in {table}; name another file, or stop "
                    "its daemon and move it away with all that is beside it"
                )


def _count(db: sqlite3.Connection, table: StoreTable) -> int:
    where = f"WHERE NOT ({_OF_FILE})" if table is StoreTable.STATE_ENTRY else ""
    (count,) = db.execute(f"SELECT count(*) FROM {table} {where}").fetchone()  # noqa: S608 - a table of ours
    return int(count)
