"""A database as the source or the target of a dump."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Any

import asyncpg

from monitor.bus.dump.dump_records import (
    COLUMNS,
    ROWS_AT_ONCE,
    Row,
    Shard,
    ShardRow,
    Shards,
    StoreTable,
)
from monitor.bus.postgres import codec
from monitor.bus.postgres.connections.connecting import Connection, connect
from monitor.bus.postgres.connections.connection_failures import bus_errors
from monitor.bus.postgres.connections.migrations import (
    IS_ALIVE,
    LOCK,
    examine,
    newest_schema,
    prepare,
)
from monitor.bus.postgres_address import PostgresAddress
from monitor.bus.shards import CLUSTER
from monitor.model.errors import BusLockedError, BusSchemaError, ConfigurationError
from monitor.model.secrets import Secret

_CONNECT_SECONDS = 10.0
_STATEMENT_SECONDS = 3_600.0  # counting and sorting a large store
_IDLE_SECONDS = 600  # between two pieces, also where the disk of the dump is slow
_FREE_WITHIN_SECONDS = 3
_RECEIVED_BY = "import"
_SHOWN = 5
_TEXTS = frozenset(
    {
        *("id", "workspace", "kind", "status", "flow_run", "plan_run", "pipeline_id", "topic"),
        *("key", "fingerprint", "consumer", "name"),
    }
)
_ORDER = {
    StoreTable.CONSUMER: "shard.name, consumer.name",
    StoreTable.DEAD_LETTER: "dead_letter.number",
    # In one shard the order is that of positions, also where a clock was set back.
    StoreTable.EVENT: "max(recorded_at) OVER (PARTITION BY shard ORDER BY position), shard.name,"
    " position",
    StoreTable.RUN: "run.number",
    StoreTable.STATE_ENTRY: "workspace, topic, key",
    StoreTable.CALLBACK: "callback.id",
    StoreTable.CONSUMER_STATE: "consumer, key, shard.name",
}
# Entries of the whole store go with the shard that every cluster has, or the first one.
_ENTRIES = (
    f"WITH first AS (SELECT name FROM shard ORDER BY name <> '{CLUSTER}', name LIMIT 1)"  # noqa: S608 - a constant
    " SELECT first.name AS shard_name, topic, key, value FROM store_entry, first"
    " ORDER BY topic, key"
)
_ENDS = (
    "SELECT name, newest_position, log_epoch, coalesce((SELECT min(position) FROM event"
    " WHERE event.shard = shard.number), newest_position + 1) AS oldest_position,"
    " (SELECT array_agg(ARRAY[workspace.name, url] ORDER BY workspace.name) FROM workspace"
    " WHERE workspace.shard = shard.number) AS workspaces FROM shard ORDER BY name"
)
_ALIVE = f"SELECT id, host FROM daemon WHERE {IS_ALIVE} ORDER BY id"  # noqa: S608 - a constant
_PRESENT = (
    "SELECT 'shard ' || name AS what FROM shard WHERE name = ANY($1::text[]) UNION ALL"
    " SELECT 'workspace ' || name FROM workspace WHERE name = ANY($2::text[])"
)
_ADD_SHARDS = (
    "INSERT INTO shard (name, newest_position, log_epoch)"
    " SELECT * FROM unnest($1::text[], $2::bigint[], $3::integer[]) RETURNING name, number"
)


@asynccontextmanager
async def _open(
    address: PostgresAddress, password: Secret | None, purpose: str
) -> AsyncIterator[Connection]:
    connection = await connect(
        address,
        password,
        purpose=purpose,
        timeout_seconds=_CONNECT_SECONDS,
        statement_seconds=_STATEMENT_SECONDS,
    )
    try:
        with bus_errors(str(address)):
            await connection.execute(
                f"SET idle_in_transaction_session_timeout = '{_IDLE_SECONDS}s'"
            )
        yield connection
    finally:
        connection.terminate()  # which rolls back what was not committed


class PostgresSource:
    """A database in one read transaction, beside the daemons that change it."""

    kind = "postgres"

    def __init__(self, connection: Connection, address: PostgresAddress) -> None:
        self.name = str(address)
        self._connection = connection

    async def shards(self) -> dict[str, Shard]:
        with bus_errors(self.name):
            rows = await self._connection.fetch(_ENDS)
        return {
            row["name"]: Shard(
                newest_position=row["newest_position"],
                oldest_position=row["oldest_position"],
                log_epoch=row["log_epoch"],
                workspaces=dict(row["workspaces"] or ()),
            )
            for row in rows
        }

    async def waiting_instructions(self) -> int:
        """Return how many instructions wait for a daemon; a dump has none."""
        with bus_errors(self.name):
            return int(
                await self._connection.fetchval(
                    "SELECT count(*) FROM instruction WHERE done_at IS NULL"
                )
            )

    async def count(self) -> int:
        with bus_errors(self.name):
            return sum(
                [
                    await self._connection.fetchval(f"SELECT count(*) FROM {table}")  # noqa: S608 - tables of ours
                    for table in StoreTable
                ]
            )

    async def rows(self, table: StoreTable) -> AsyncIterator[ShardRow]:
        texts = [column in _TEXTS for column in COLUMNS[table]]
        with bus_errors(self.name):
            async for record in self._connection.cursor(_query(table), prefetch=ROWS_AT_ONCE):
                shard, *values = record.values()
                row = (
                    codec.read_text(value) if is_text and value is not None else value
                    for is_text, value in zip(texts, values, strict=True)
                )
                yield ShardRow(shard, tuple(row))


@asynccontextmanager
async def open_source(
    address: PostgresAddress, password: Secret | None
) -> AsyncIterator[PostgresSource]:
    """Yield a database as it is now.

    Raises:
        ConfigurationError: it holds no store of the monitor.
        BusSchemaError: its schema is not that of this version.
        BusError: as `connect`.
    """
    async with _open(address, password, "export") as connection:
        with bus_errors(str(address)):
            await connection.execute("BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY")
        present, newest = await examine(connection), newest_schema()
        if present == 0:
            raise ConfigurationError(f"{address} holds no store of the monitor")
        if present < newest:
            raise BusSchemaError(
                f"{address} has schema {present}, and this version exports {newest}: start a "
                "daemon of it once, which upgrades the store"
            )
        yield PostgresSource(connection, address)


class PostgresTarget:
    """A database in one transaction."""

    def __init__(self, connection: Connection, address: PostgresAddress) -> None:
        self._name = str(address)
        self._connection = connection
        self._numbers: dict[str, int] = {}
        self._entries_before = 0

    async def begin(self, shards: Shards) -> None:
        workspaces = [
            (codec.text(name), shard, url)
            for shard, new in shards.items()
            for name, url in new.workspaces.items()
        ]
        with bus_errors(self._name):
            present = await self._connection.fetch(
                _PRESENT, list(shards), [name for name, *_ in workspaces]
            )
            if present:
                shown = ", ".join(sorted(row["what"] for row in present)[:_SHOWN])
                raise ConfigurationError(
                    f"{self._name} is not empty: it has {shown} already; name an empty database"
                )
            self._entries_before = await _count_entries(self._connection)
            rows = await self._connection.fetch(
                _ADD_SHARDS,
                list(shards),
                [new.newest_position for new in shards.values()],
                [new.log_epoch for new in shards.values()],
            )
            self._numbers = {row["name"]: row["number"] for row in rows}
            await self._connection.executemany(
                "INSERT INTO workspace (name, shard, url) VALUES ($1, $2, $3)",
                [(name, self._numbers[shard], url) for name, shard, url in workspaces],
            )

    async def write(self, table: StoreTable, rows: list[ShardRow]) -> None:
        if table is StoreTable.STORE_ENTRY:
            await self._write_entries([row.row for row in rows])
            return
        more = {"received_by": _RECEIVED_BY} if table is StoreTable.CALLBACK else {}
        records = [
            (self._numbers[shard], *_stored(table, row), *more.values()) for shard, row in rows
        ]
        with bus_errors(self._name):
            await self._connection.copy_records_to_table(
                table, records=records, columns=["shard", *COLUMNS[table], *more]
            )

    async def _write_entries(self, rows: list[Row]) -> None:
        with bus_errors(self._name):
            await self._connection.copy_records_to_table(
                StoreTable.STORE_ENTRY, records=rows, columns=COLUMNS[StoreTable.STORE_ENTRY]
            )

    async def count(self, table: StoreTable) -> int:
        with bus_errors(self._name):
            if table is StoreTable.STORE_ENTRY:
                return await _count_entries(self._connection) - self._entries_before
            return int(
                await self._connection.fetchval(
                    f"SELECT count(*) FROM {table} WHERE shard = ANY($1::integer[])",  # noqa: S608 - tables of ours
                    list(self._numbers.values()),
                )
            )


@asynccontextmanager
async def open_target(
    address: PostgresAddress, password: Secret | None
) -> AsyncIterator[PostgresTarget]:
    """Yield a database without daemons; what was stored is kept if the block ends.

    The lock of the schema is held throughout, so that no daemon starts meanwhile.

    Raises:
        BusLockedError: a daemon runs, or another process has the lock.
        BusError, ConfigurationError: as `connect` and `prepare`.
    """
    async with _open(address, password, "import") as connection:
        await _refuse_company(connection, address)
        await prepare(connection)
        with bus_errors(str(address)):
            await connection.execute("BEGIN")
        yield PostgresTarget(connection, address)
        with bus_errors(str(address)):
            await connection.execute("COMMIT")
            await connection.execute("ANALYZE")


async def _refuse_company(connection: Connection, address: PostgresAddress) -> None:
    """Take the lock of the schema for the session; return where no daemon runs on the store."""
    with bus_errors(str(address)):
        # The session of an import that has just ended may not have.
        await connection.execute(f"SET lock_timeout = '{_FREE_WITHIN_SECONDS}s'")
        try:
            await connection.execute(f"SELECT pg_advisory_lock({LOCK})")
        except asyncpg.LockNotAvailableError as exc:
            raise BusLockedError(
                f"{address}: a daemon starts, or another import runs; wait until it is done"
            ) from exc
        await connection.execute("SET lock_timeout = 0")
        is_store = await connection.fetchval("SELECT to_regclass('daemon') IS NOT NULL")
        alive = await connection.fetch(_ALIVE) if is_store else []
    if alive:
        names = ", ".join(f"{row['id']} on {row['host']}" for row in alive)
        raise BusLockedError(f"{address} is in use by {names}; end these daemons first")


async def _count_entries(connection: Connection) -> int:
    return int(await connection.fetchval("SELECT count(*) FROM store_entry"))


def _query(table: StoreTable) -> str:
    if table is StoreTable.STORE_ENTRY:
        return _ENTRIES
    listed = ", ".join(f"{table}.{column}" for column in COLUMNS[table])
    return (
        f"SELECT shard.name AS shard_name, {listed} FROM {table}"  # noqa: S608 - tables of ours
        f" JOIN shard ON shard.number = {table}.shard ORDER BY {_ORDER[table]}"
    )


def _stored(table: StoreTable, row: Row) -> Sequence[Any]:
    return [
        codec.text(value) if column in _TEXTS and value is not None else value
        for column, value in zip(COLUMNS[table], row, strict=True)
    ]
