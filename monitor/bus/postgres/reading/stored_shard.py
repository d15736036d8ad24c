"""Reads one shard from the store, whichever daemon holds it."""

from __future__ import annotations

from collections.abc import Collection
from datetime import datetime

from monitor.bus.contract import (
    BEFORE_FIRST,
    ConsumerStatus,
    DeadLetter,
    Recorded,
    StoreStatus,
)
from monitor.bus.postgres import codec
from monitor.bus.postgres.connections.reader import PostgresReader, ShardReading
from monitor.bus.postgres.reading.stored_runs import StoredPostgresRuns

_EVENTS = (
    "SELECT position, epoch, body FROM event WHERE shard = $1 AND position > $2"
    " ORDER BY position LIMIT $3"
)
_EVENTS_BY_ID = "SELECT position, epoch, body FROM event WHERE id = ANY ($1::text[]) AND shard = $2"
_SINCE = (
    "SELECT newest_position, (SELECT min(position) FROM event"
    " WHERE event.shard = shard.number AND recorded_at >= $2) AS first"
    " FROM shard WHERE number = $1"
)
_STATE = "SELECT key, value FROM consumer_state WHERE shard = $1 AND consumer = $2"
_DEAD_LETTERS = (
    "SELECT body FROM dead_letter WHERE shard = $1 AND consumer = $2 ORDER BY number DESC LIMIT $3"
)
_DEAD_LETTERS_AFTER = (
    "SELECT body FROM dead_letter WHERE shard = $1 AND consumer = $2 AND position > $3"
    " ORDER BY position LIMIT $4"
)
_LOG = (
    "SELECT newest_position, coalesce((SELECT min(position) FROM event"
    " WHERE event.shard = shard.number), newest_position + 1) AS oldest"
    " FROM shard WHERE number = $1"
)
_CONSUMERS = (
    "SELECT name, position, lost, (SELECT count(*) FROM dead_letter"
    " WHERE dead_letter.shard = consumer.shard AND dead_letter.consumer = consumer.name)"
    " AS dead_letters, (SELECT recorded_at FROM event WHERE event.shard = consumer.shard"
    " AND event.position = greatest(consumer.position + 1, $2)) AS oldest_at"
    " FROM consumer WHERE shard = $1 ORDER BY name"
)
_INBOX = (
    "SELECT workspace, count(*) AS waiting FROM callback"
    " WHERE shard = $1 AND processed_at IS NULL GROUP BY workspace"
)


class PostgresStoredShard(StoredPostgresRuns):
    """One shard as it is stored. Its runs are those of all shards: workspaces are named once."""

    def __init__(self, shard: str, number: int, reader: PostgresReader) -> None:
        self._reading = ShardReading(reader)
        super().__init__(self._reading)
        self._number = number
        self._shard = shard

    @property
    def shard(self) -> str:
        return self._shard

    async def events(self, *, after: int, limit: int) -> list[Recorded]:
        """Return stored events after ``after``, at most ``limit``."""
        rows = await self._reading.fetch(_EVENTS, self._number, after, limit)
        events = await codec.decode_all([row["body"] for row in rows], codec.decode_event)
        return [
            Recorded(row["position"], event, row["epoch"])
            for row, event in zip(rows, events, strict=True)
        ]

    async def events_by_id(self, ids: Collection[str]) -> dict[str, Recorded]:
        named = [codec.text(id_) for id_ in ids]
        rows = await self._reading.fetch(_EVENTS_BY_ID, named, self._number)
        events = await codec.decode_all([row["body"] for row in rows], codec.decode_event)
        return {
            event.id: Recorded(row["position"], event, row["epoch"])
            for row, event in zip(rows, events, strict=True)
        }

    async def events_since(self, recorded_at: datetime) -> int:
        (row,) = await self._reading.fetch(_SINCE, self._number, codec.microseconds(recorded_at))
        return int(row["newest_position"] if row["first"] is None else row["first"] - 1)

    async def consumer_state(self, consumer: str) -> dict[str, bytes]:
        rows = await self._reading.fetch(_STATE, self._number, codec.text(consumer))
        return {codec.read_text(row["key"]): row["value"] for row in rows}

    async def dead_letters(self, consumer: str, *, limit: int) -> list[DeadLetter]:
        rows = await self._reading.fetch(_DEAD_LETTERS, self._number, codec.text(consumer), limit)
        return await codec.decode_all([row["body"] for row in rows], codec.decode_dead_letter)

    async def dead_letters_after(
        self, consumer: str, position: int | None, *, limit: int
    ) -> list[DeadLetter]:
        after = BEFORE_FIRST if position is None else position
        rows = await self._reading.fetch(
            _DEAD_LETTERS_AFTER, self._number, codec.text(consumer), after, limit
        )
        return await codec.decode_all([row["body"] for row in rows], codec.decode_dead_letter)

    async def status(self) -> StoreStatus:
        """Return the figures of the shard as they are stored."""
        (log,) = await self._reading.fetch(_LOG, self._number)
        newest, oldest = log["newest_position"], log["oldest"]
        consumers = await self._reading.fetch(_CONSUMERS, self._number, oldest)
        inbox = await self._reading.fetch(_INBOX, self._number)
        return StoreStatus(
            newest_position=newest,
            oldest_position=oldest,
            consumers=tuple(
                ConsumerStatus(
                    consumer=codec.read_text(row["name"]),
                    position=row["position"],
                    backlog=max(0, newest - max(row["position"], oldest - 1)),
                    oldest_at=(
                        None if row["oldest_at"] is None else codec.instant(row["oldest_at"])
                    ),
                    dead_letters=row["dead_letters"],
                    lost=row["lost"],
                )
                for row in consumers
            ),
            inbox={codec.read_text(row["workspace"]): row["waiting"] for row in inbox},
            store_bytes=await self._reading.store_bytes(),
        )
