"""A database as the source or the target of a transfer.

The lock of the schema is held throughout, so that no daemon starts meanwhile. A target that is not
finished says that it belongs to another application, so that none starts afterwards either.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping, Sequence
from typing import Any

import asyncpg

from monitor.bus.postgres import codec
from monitor.bus.postgres.connections.connecting import Connection, connect
from monitor.bus.postgres.connections.failures import bus_errors
from monitor.bus.postgres.connections.migrations import (
    APPLICATION,
    IS_ALIVE,
    LOCK,
    UNFINISHED,
    examine,
    prepare,
)
from monitor.bus.postgres_address import PostgresAddress
from monitor.bus.transfer.tables import COLUMNS, Row, ShardEnd, ShardRow, StoreTable
from monitor.model.errors import BusLockedError, ConfigurationError
from monitor.model.secrets import Secret

_READ_AT_ONCE = 500
_CONNECT_SECONDS = 10.0
_FREE_WITHIN_SECONDS = 3
_RECEIVED_BY = "transfer"
_TEXTS = frozenset(
    {
        *("id", "workspace", "kind", "status", "flow_run", "plan_run", "pipeline_id", "topic"),
        *("key", "fingerprint", "consumer", "name"),
    }
)
_ORDER = {
    StoreTable.RUN: "number",
    StoreTable.STATE_ENTRY: "workspace, topic, key",
    StoreTable.CALLBACK: "id",
    StoreTable.CONSUMER_STATE: "consumer, key, shard_name",
    StoreTable.DEAD_LETTER: "number",
    StoreTable.CONSUMER: "shard_name, name",
}
# In one shard the order is that of positions, also where a clock was set back.
_EVENTS = (
    "SELECT shard_name, position, id, recorded_at, body FROM (SELECT shard.name AS shard_name,"
    " position, id, recorded_at, body, max(recorded_at) OVER (PARTITION BY shard ORDER BY position)"
    " AS placed_at FROM event JOIN shard ON shard.number = event.shard) AS placed"
    " ORDER BY placed_at, shard_name, position"
)
_ENDS = (
    "SELECT name, newest_position, coalesce((SELECT min(position) FROM event"
    " WHERE event.shard = shard.number), newest_position + 1) AS oldest_position FROM shard"
    " ORDER BY name"
)
_WORKSPACES = (
    "SELECT shard.name AS shard, workspace.name, url FROM workspace"
    " JOIN shard ON shard.number = workspace.shard ORDER BY workspace.name"
)
_INSTRUCTIONS = "SELECT count(*) FROM instruction WHERE done_at IS NULL"
_ALIVE = f"SELECT id, host FROM daemon WHERE {IS_ALIVE} ORDER BY id"  # noqa: S608 - a constant
_PROGRESS = (
    'CREATE TABLE store_transfer (part text COLLATE "C" PRIMARY KEY,'
    " source text NOT NULL, rows bigint NOT NULL DEFAULT 0)"
)


async def open_database(address: PostgresAddress, password: Secret | None) -> Connection:
    """Return a connection that holds the lock of the schema; no daemon runs on the store.

    Raises:
        BusLockedError: one does, or another process has the lock.
        BusError, ConfigurationError: as `connect`.
    """
    connection = await connect(
        address, password, purpose="transfer", timeout_seconds=_CONNECT_SECONDS
    )
    try:
        with bus_errors(str(address)):
            await connection.execute("SET statement_timeout = 0")
            await connection.execute("SET idle_in_transaction_session_timeout = 0")
            await _refuse_company(connection, address)
    except BaseException:
        connection.terminate()
        raise
    return connection


async def _refuse_company(connection: Connection, address: PostgresAddress) -> None:
    """Take the lock of the schema for the session; return where nobody runs on the store."""
    try:
        # The session of a transfer that has just ended may not have.
        await connection.execute(f"SET lock_timeout = '{_FREE_WITHIN_SECONDS}s'")
        await connection.execute(f"SELECT pg_advisory_lock({LOCK})")
    except asyncpg.LockNotAvailableError as exc:
        raise BusLockedError(
            f"{address}: a daemon starts, or another transfer runs; wait until it is done"
        ) from exc
    await connection.execute("SET lock_timeout = 0")
    is_store = await connection.fetchval("SELECT to_regclass('daemon') IS NOT NULL")
    alive = await connection.fetch(_ALIVE) if is_store else []
    if alive:
        names = ", ".join(f"{row['id']} on {row['host']}" for row in alive)
        raise BusLockedError(f"{address} is in use by {names}; end these daemons first")


async def open_store(address: PostgresAddress, password: Secret | None) -> Connection:
    """Return a connection as `open_database`, to a store of the newest schema.

    Raises:
        BusError, ConfigurationError: as `open_database`, there is no store that can be used, or
            instructions wait in it.
    """
    connection = await open_database(address, password)
    try:
        await _refuse_unfit(connection, address)
    except BaseException:
        connection.terminate()
        raise
    return connection


async def _refuse_unfit(connection: Connection, address: PostgresAddress) -> None:
    """Bring the store to the newest schema; return where nothing waits in it."""
    if await examine(connection) == 0:
        raise ConfigurationError(f"{address} holds no store of the monitor")
    await prepare(connection)
    with bus_errors(str(address)):
        waiting = await connection.fetchval(_INSTRUCTIONS)
    if waiting:
        raise ConfigurationError(
            f"{address}: {waiting} instructions (silences, track, replay) wait for a daemon; start "
            "one until they are executed, and end it with SIGTERM"
        )


class PostgresSource:
    """A database as it was when it was first read."""

    def __init__(self, connection: Connection, address: PostgresAddress) -> None:
        self.name = str(address)
        self._connection = connection

    @classmethod
    async def open(cls, address: PostgresAddress, password: Secret | None) -> PostgresSource:
        """Return the store.

        Raises:
            BusError, ConfigurationError: as `open_store`.
        """
        connection = await open_store(address, password)
        try:
            with bus_errors(str(address)):
                await connection.execute("BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY")
        except BaseException:
            connection.terminate()
            raise
        return cls(connection, address)

    async def close(self) -> None:
        await _close(self._connection)

    async def shards(self) -> dict[str, ShardEnd]:
        with bus_errors(self.name):
            ends = await self._connection.fetch(_ENDS)
            workspaces = await self._connection.fetch(_WORKSPACES)
        return {
            row["name"]: ShardEnd(
                newest_position=row["newest_position"],
                oldest_position=row["oldest_position"],
                workspaces={
                    workspace["name"]: workspace["url"]
                    for workspace in workspaces
                    if workspace["shard"] == row["name"]
                },
            )
            for row in ends
        }

    async def count(self, table: StoreTable) -> int:
        with bus_errors(self.name):
            count = await self._connection.fetchval(f"SELECT count(*) FROM {table}")  # noqa: S608 - a table of ours
        return int(count)

    async def rows(self, table: StoreTable) -> AsyncIterator[ShardRow]:
        async for row in _read(self._connection, table, self.name):
            yield row


class PostgresTarget:
    """A database that is being filled."""

    def __init__(self, connection: Connection, address: PostgresAddress) -> None:
        self.name = str(address)
        self._connection = connection
        self._numbers: dict[str, int] = {}

    @classmethod
    async def open(cls, address: PostgresAddress, password: Secret | None) -> PostgresTarget:
        """Return the database, which is empty or unfinished.

        Raises:
            BusError, ConfigurationError: as `open_database`, or it holds something.
        """
        connection = await open_database(address, password)
        try:
            target = cls(connection, address)
            await target._prepare()
        except BaseException:
            connection.terminate()
            raise
        return target

    async def _prepare(self) -> None:
        with bus_errors(self.name):
            if await self._connection.fetchval("SELECT to_regclass('store_transfer') IS NOT NULL"):
                return
        await prepare(self._connection)
        with bus_errors(self.name):
            names = [row["name"] for row in await self._connection.fetch("SELECT name FROM shard")]
        if names:
            raise ConfigurationError(
                f"{self.name} holds the shards {', '.join(sorted(names)[:5])} already; name an "
                "empty database"
            )

    async def close(self) -> None:
        await _close(self._connection)

    async def begin(self, source: str, shards: Mapping[str, Mapping[str, str]]) -> None:
        connection = self._connection
        with bus_errors(self.name):
            async with connection.transaction():
                if not await connection.fetchval("SELECT to_regclass('store_transfer')::text"):
                    await connection.execute(_PROGRESS)
                    await connection.execute("UPDATE store SET application = $1", UNFINISHED)
                    await connection.executemany(
                        "INSERT INTO store_transfer (part, source) VALUES ($1, $2)",
                        [(table, source) for table in StoreTable],
                    )
                begun = await connection.fetchval("SELECT source FROM store_transfer LIMIT 1")
                if begun != source:
                    raise ConfigurationError(
                        f"{self.name} was begun from {begun}; name an empty database"
                    )
                await connection.executemany(
                    "INSERT INTO shard (name) VALUES ($1) ON CONFLICT (name) DO NOTHING",
                    [(shard,) for shard in sorted(shards)],
                )
                rows = await connection.fetch("SELECT name, number FROM shard")
                self._numbers = {row["name"]: row["number"] for row in rows}
                await connection.executemany(
                    "INSERT INTO workspace (name, shard, url) VALUES ($1, $2, $3)"
                    " ON CONFLICT (name) DO NOTHING",
                    [
                        (codec.text(name), self._numbers[shard], url)
                        for shard, workspaces in shards.items()
                        for name, url in workspaces.items()
                    ],
                )

    async def done(self, table: StoreTable) -> int:
        with bus_errors(self.name):
            rows = await self._connection.fetchval(
                "SELECT rows FROM store_transfer WHERE part = $1", table
            )
        return int(rows)

    async def write(self, table: StoreTable, rows: list[ShardRow]) -> None:
        connection = self._connection
        more = {"received_by": _RECEIVED_BY} if table is StoreTable.CALLBACK else {}
        with bus_errors(self.name):
            async with connection.transaction():
                records = [
                    (self._numbers[shard], *_stored(table, row), *more.values())
                    for shard, row in rows
                ]
                await connection.copy_records_to_table(
                    table, records=records, columns=["shard", *COLUMNS[table], *more]
                )
                await connection.execute(
                    "UPDATE store_transfer SET rows = rows + $2 WHERE part = $1", table, len(rows)
                )

    async def rows(self, table: StoreTable) -> AsyncIterator[ShardRow]:
        async with self._connection.transaction(readonly=True):
            async for row in _read(self._connection, table, self.name):
                yield row

    async def finish(self, newest_positions: Mapping[str, int]) -> None:
        connection = self._connection
        with bus_errors(self.name):
            async with connection.transaction():
                await connection.executemany(
                    "UPDATE shard SET newest_position = $2 WHERE name = $1",
                    list(newest_positions.items()),
                )
                await connection.execute("DROP TABLE store_transfer")
                await connection.execute("UPDATE store SET application = $1", APPLICATION)
            await connection.execute("ANALYZE")


async def _close(connection: Connection) -> None:
    with bus_errors("the database"):
        await connection.close(timeout=_CONNECT_SECONDS)


def _stored(table: StoreTable, row: Row) -> Sequence[Any]:
    return [
        codec.text(value) if column in _TEXTS and value is not None else value
        for column, value in zip(COLUMNS[table], row, strict=True)
    ]


async def _read(connection: Connection, table: StoreTable, name: str) -> AsyncIterator[ShardRow]:
    columns = COLUMNS[table]
    texts = [column in _TEXTS for column in columns]
    query = _EVENTS
    if table is not StoreTable.EVENT:
        listed = ", ".join(f"{table}.{column}" for column in columns)
        query = (
            f"SELECT shard.name AS shard_name, {listed} FROM {table}"  # noqa: S608 - tables of ours
            f" JOIN shard ON shard.number = {table}.shard ORDER BY {_ordered(table)}"
        )
    with bus_errors(name):
        async for record in connection.cursor(query, prefetch=_READ_AT_ONCE):
            shard, *values = record.values()
            yield ShardRow(
                shard,
                tuple(
                    codec.read_text(value) if is_text and value is not None else value
                    for is_text, value in zip(texts, values, strict=True)
                ),
            )


def _ordered(table: StoreTable) -> str:
    return ", ".join(
        part if part == "shard_name" else f"{table}.{part}" for part in _ORDER[table].split(", ")
    )
