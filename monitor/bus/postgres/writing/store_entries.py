"""`StoreEntries` in the database: written by any daemon, without a lease."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from monitor.bus.contract.store_entries import (
    AFTER_ALL_KEYS,
    ENTRIES_BOUND,
    READ_BOUND,
    check_entries,
    full,
)
from monitor.bus.postgres.connections.connecting import Connection
from monitor.bus.postgres.connections.reader import Reading
from monitor.bus.postgres.writing.leased_shard import LeasedShard
from monitor.bus.postgres.writing.writer import PostgresWriter

_PIECE = 1_000  # entries that one transaction removes

_GET = "SELECT value FROM store_entry WHERE topic = $1 AND key = $2"
_NEWEST = (
    "SELECT key, value FROM store_entry WHERE topic = $1 AND key < $2 ORDER BY key DESC LIMIT $3"
)
# In the order of keys, so that two daemons wait for each other's rows and do not deadlock.
_PUT = (
    "INSERT INTO store_entry (topic, key, value) SELECT $1, given.key, given.value"
    " FROM unnest($2::text[], $3::bytea[]) AS given (key, value)"
    " ON CONFLICT (topic, key) DO UPDATE SET value = excluded.value"
)
_REMOVE = (
    "DELETE FROM store_entry USING unnest($2::text[]) AS given (key)"
    " WHERE store_entry.topic = $1 AND store_entry.key = given.key"
)
_COUNT = "SELECT count(*) FROM store_entry WHERE topic = $1"
_CUT = (
    "WITH old AS (SELECT key FROM store_entry WHERE topic = $1 AND key < $2 ORDER BY key"
    " LIMIT $3 FOR UPDATE SKIP LOCKED), gone AS (DELETE FROM store_entry USING old"
    " WHERE store_entry.topic = $1 AND store_entry.key = old.key RETURNING 1)"
    " SELECT count(*) FROM gone"
)


class PostgresEntries:
    """The entries of one database, for one daemon."""

    def __init__(self, writer: PostgresWriter, reader: Reading, *, timeout_seconds: float) -> None:
        """``timeout_seconds`` is that of each piece that `drop_before` removes."""
        self._writer = writer
        self._reader = reader
        self._timeout_seconds = timeout_seconds

    async def get(self, topic: str, key: str) -> bytes | None:
        rows = await self._reader.fetch(_GET, topic, key)
        return rows[0]["value"] if rows else None

    async def newest(
        self, topic: str, *, before: str | None = None, limit: int
    ) -> list[tuple[str, bytes]]:
        until = AFTER_ALL_KEYS if before is None else before
        rows = await self._reader.fetch(_NEWEST, topic, until, min(limit, READ_BOUND))
        return [(row["key"], row["value"]) for row in rows]

    async def put(
        self, topic: str, entries: Mapping[str, bytes | None], *, timeout_seconds: float
    ) -> None:
        check_entries(topic, entries)
        kept = sorted((key, value) for key, value in entries.items() if value is not None)
        removed = sorted(key for key, value in entries.items() if value is None)

        async def write(connection: Connection, _: Sequence[LeasedShard]) -> None:
            if removed:
                await connection.execute(_REMOVE, topic, removed)
            if kept:
                keys, values = zip(*kept, strict=True)
                await connection.execute(_PUT, topic, keys, values)
                if await connection.fetchval(_COUNT, topic) > ENTRIES_BOUND:
                    raise full(topic)

        await self._writer.run(write, (), timeout_seconds=timeout_seconds)

    async def drop_before(self, topic: str, key: str) -> int:
        async def cut(connection: Connection, _: Sequence[LeasedShard]) -> int:
            removed: int = await connection.fetchval(_CUT, topic, key, _PIECE)
            return removed

        removed = 0
        while piece := await self._writer.run(cut, (), timeout_seconds=self._timeout_seconds):
            removed += piece
        return removed
