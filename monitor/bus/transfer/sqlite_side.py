"""A file as the source or the target of a transfer."""

from __future__ import annotations

import os
import sqlite3
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path

from monitor.bus.shards import SOLE
from monitor.bus.sqlite import log, store_file
from monitor.bus.sqlite.connection import (
    connect,
    connect_reading,
    keep_log_epoch,
    unavailable,
)
from monitor.bus.sqlite.location import locate
from monitor.bus.sqlite.lock import StoreLock
from monitor.bus.sqlite.traces import traces_beside
from monitor.bus.sqlite.upgrade import prepare
from monitor.bus.transfer.tables import COLUMNS, ShardEnd, ShardRow, StoreTable
from monitor.model.alerts import BRIDGE
from monitor.model.errors import BusUnavailableError, ConfigurationError

_READ_AT_ONCE = 500
_ORDER = {
    StoreTable.EVENT: "position",
    StoreTable.RUN: "number",
    StoreTable.STATE_ENTRY: "workspace, topic, key",
    StoreTable.CALLBACK: "id",
    StoreTable.CONSUMER_STATE: "consumer, key",
    StoreTable.DEAD_LETTER: "number",
    StoreTable.CONSUMER: "name",
}
_WORKSPACES = (
    "SELECT workspace FROM run UNION SELECT workspace FROM state_entry"
    " UNION SELECT workspace FROM callback ORDER BY workspace"
)
_PROGRESS = (
    "CREATE TABLE IF NOT EXISTS store_transfer (source TEXT NOT NULL, part TEXT PRIMARY KEY,"
    " rows INTEGER NOT NULL DEFAULT 0)"
)


@contextmanager
def _bus_errors() -> Iterator[None]:
    try:
        yield
    except sqlite3.Error as exc:
        raise unavailable(exc) from exc


class SqliteSource:
    """A file, locked as by a daemon until `close`. Its schema is brought to the newest.

    Raises:
        BusError: there is none, a daemon holds it, or it is damaged.
    """

    def __init__(self, path: Path, *, now: datetime) -> None:
        self.name = str(path)
        if not locate(path).exists():
            raise BusUnavailableError(f"{path} does not exist")
        self._lock = store_file.take(path, now)
        self._db = connect_reading(self._lock.store)

    def close(self) -> None:
        self._db.close()
        self._lock.release()

    async def shards(self) -> dict[str, ShardEnd]:
        with _bus_errors():
            names = [name for (name,) in self._db.execute(_WORKSPACES) if name != BRIDGE]
            end = ShardEnd(
                newest_position=log.newest_position(self._db),
                oldest_position=log.oldest_position(self._db),
                log_epoch=self._db.log_epoch,
                workspaces=dict.fromkeys(names, ""),
            )
        return {SOLE: end}

    async def count(self, table: StoreTable) -> int:
        with _bus_errors():
            (count,) = self._db.execute(f"SELECT count(*) FROM {table}").fetchone()  # noqa: S608 - a table of ours
        return int(count)

    async def rows(self, table: StoreTable) -> AsyncIterator[ShardRow]:
        for row in _read(self._db, table):
            yield row


class SqliteTarget:
    """A file that takes its name when it is finished; until then it is ``<file>.unfinished``."""

    def __init__(self, path: Path, *, now: datetime) -> None:
        self.name = str(path)
        self._path = locate(path)
        self._unfinished = self._path.with_name(f"{self._path.name}.unfinished")
        self._refuse_present()
        self._log_epoch = 0
        self._lock = StoreLock(self._unfinished, now=now)
        try:
            prepare(self._unfinished)
            self._db = connect(self._unfinished)
            self._db.execute("PRAGMA foreign_keys = OFF")  # rows come before their consumers
        except BaseException:
            self._lock.release()
            raise

    def close(self) -> None:
        self._db.close()
        self._lock.release()

    def _refuse_present(self) -> None:
        left = [path for path in traces_beside(self._path) if path.name != self._unfinished.name]
        left = [path for path in left if not path.name.startswith(self._unfinished.name)]
        if self._path.exists() or left:
            names = ", ".join(path.name for path in left) or self._path.name
            raise ConfigurationError(
                f"{self._path} is there already, or traces of it ({names}); name another file, or "
                "move these away"
            )

    async def begin(
        self, source: str, shards: Mapping[str, Mapping[str, str]], *, log_epoch: int
    ) -> None:
        self._log_epoch = log_epoch
        if set(shards) - {SOLE}:
            raise ConfigurationError(f"{self.name} is a file, which has one shard")
        with _bus_errors():
            self._db.execute(_PROGRESS)
            begun = self._db.execute("SELECT source FROM store_transfer").fetchone()
            if begun is not None and begun[0] != source:
                raise ConfigurationError(
                    f"{self._unfinished} was begun from {begun[0]}; remove it to begin anew"
                )
            self._db.executemany(
                "INSERT OR IGNORE INTO store_transfer (source, part) VALUES (?, ?)",
                [(source, table) for table in StoreTable],
            )

    async def done(self, table: StoreTable) -> int:
        with _bus_errors():
            (rows,) = self._db.execute(
                "SELECT rows FROM store_transfer WHERE part = ?", (table,)
            ).fetchone()
        return int(rows)

    async def write(self, table: StoreTable, rows: list[ShardRow]) -> None:
        columns = COLUMNS[table]
        values = ", ".join("?" * len(columns))
        statement = f"INSERT INTO {table} ({', '.join(columns)}) VALUES ({values})"  # noqa: S608 - a table of ours
        with _bus_errors():
            self._db.execute("BEGIN IMMEDIATE")
            try:
                self._db.executemany(statement, [row.row for row in rows])
                self._db.execute(
                    "UPDATE store_transfer SET rows = rows + ? WHERE part = ?", (len(rows), table)
                )
            except BaseException:
                self._db.execute("ROLLBACK")
                raise
            self._db.execute("COMMIT")

    async def rows(self, table: StoreTable) -> AsyncIterator[ShardRow]:
        for row in _read(self._db, table):
            yield row

    async def finish(self, newest_positions: Mapping[str, int]) -> None:
        newest = newest_positions.get(SOLE, 0)
        with _bus_errors():
            self._db.execute("DELETE FROM sqlite_sequence WHERE name = 'event'")
            self._db.execute("INSERT INTO sqlite_sequence VALUES ('event', ?)", (newest,))
            if self._log_epoch:
                keep_log_epoch(self._db, self._log_epoch)
            self._db.execute("DROP TABLE store_transfer")
            self._db.execute("PRAGMA wal_checkpoint(TRUNCATE)")
            self._db.close()  # which removes the write-ahead log
        try:
            os.link(self._unfinished, self._path)  # which fails where somebody has made it since
            self._unfinished.unlink()
            self._unfinished.with_name(f"{self._unfinished.name}.lock").unlink()
        except OSError as exc:
            raise BusUnavailableError(
                f"{self._unfinished} is complete and cannot be renamed to {self._path}: "
                f"{exc.strerror}; rename it yourself"
            ) from exc


def _read(db: sqlite3.Connection, table: StoreTable) -> Iterator[ShardRow]:
    columns = ", ".join(COLUMNS[table])
    with _bus_errors():
        cursor = db.execute(f"SELECT {columns} FROM {table} ORDER BY {_ORDER[table]}")  # noqa: S608 - a table of ours
        while rows := cursor.fetchmany(_READ_AT_ONCE):
            for row in rows:
                yield ShardRow(SOLE, row)
