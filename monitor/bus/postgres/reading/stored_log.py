"""The logs of all shards as one, to be shown."""

from __future__ import annotations

import asyncio
import heapq
from collections import defaultdict
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import NamedTuple

from monitor.bus.contract import RecordedIn
from monitor.bus.contract.stored_log import Positions
from monitor.bus.postgres import codec
from monitor.bus.postgres.connections.reader import PostgresReader
from monitor.bus.postgres.leases.notifications import ClusterNews
from monitor.model.slices import in_slices

_POSITIONS = "SELECT number, name, newest_position FROM shard"
# The first events by time, among which the first in the log is sought: stamps are nearly in order.
_SINCE = (
    "SELECT name, newest_position, (SELECT min(position) FROM (SELECT position FROM event"
    " WHERE event.shard = shard.number AND recorded_at >= $1"
    " ORDER BY recorded_at, position LIMIT 100) AS earliest) AS first FROM shard"
)
_KEYS = (
    "SELECT given.shard, found.position, found.recorded_at"
    " FROM unnest($1::int[], $2::bigint[]) AS given (shard, position), LATERAL (SELECT position,"
    " recorded_at FROM event WHERE event.shard = given.shard AND event.position > given.position"
    " ORDER BY event.position LIMIT $3) AS found"
)
_BODIES = (
    "SELECT event.body, event.epoch FROM unnest($1::int[], $2::bigint[]) WITH ORDINALITY"
    " AS given (shard, position, place) JOIN event ON event.shard = given.shard"
    " AND event.position = given.position ORDER BY given.place"
)
# Events of a shard that are looked at for each that is returned, were all shards alike.
_OVERSAMPLED = 4
_FEWEST = 10


class _Shard(NamedTuple):
    number: int
    name: str
    newest: int


class _Key(NamedTuple):
    """Where an event stands. Of one shard they come in the order of its log."""

    recorded_at: int
    name: str
    position: int
    number: int


class PostgresLog:
    """Reads by the positions that the shards' rows have, which are there with their events."""

    def __init__(self, reader: PostgresReader, news: ClusterNews) -> None:
        self._reader = reader
        self._news = news

    async def positions(self) -> dict[str, int]:
        return {shard.name: shard.newest for shard in await self._shards()}

    async def positions_since(self, recorded_at: datetime) -> dict[str, int]:
        rows = await self._reader.fetch(_SINCE, codec.microseconds(recorded_at))
        return {
            codec.read_text(row["name"]): (
                row["newest_position"] if row["first"] is None else row["first"] - 1
            )
            for row in rows
        }

    async def events(self, after: Positions, *, limit: int) -> list[RecordedIn]:
        """Return events as the contract says; perhaps fewer than there are, but never none."""
        unread = [
            (shard, after.get(shard.name, 0))
            for shard in await self._shards()
            if shard.newest > after.get(shard.name, 0)
        ]
        if not unread or limit <= 0:
            return []
        of_each = min(limit, max(_FEWEST, _OVERSAMPLED * limit // len(unread)))
        rows = await self._reader.fetch(
            _KEYS,
            [shard.number for shard, _ in unread],
            [position for _, position in unread],
            of_each,
        )
        names = {shard.number: shard.name for shard, _ in unread}
        by_shard: defaultdict[int, list[_Key]] = defaultdict(list)
        # Of many shards these are several thousand.
        async for row in in_slices(rows):
            number = row["shard"]
            by_shard[number].append(
                _Key(row["recorded_at"], names[number], row["position"], number)
            )
        keys = _merged(by_shard, limit=limit, of_each=of_each)
        bodies = await self._reader.fetch(
            _BODIES, [key.number for key in keys], [key.position for key in keys]
        )
        if len(bodies) != len(keys):
            return await self.events(after, limit=limit)  # retention has removed some meanwhile
        events = await codec.decode_all([row["body"] for row in bodies], codec.decode_event)
        return [
            RecordedIn(key.position, event, row["epoch"], key.name)
            for key, row, event in zip(keys, bodies, events, strict=True)
        ]

    async def wait(self, after: Positions, *, timeout_seconds: float) -> bool:
        loop = asyncio.get_running_loop()
        ends_at = loop.time() + timeout_seconds
        while True:
            news = self._news.next  # what comes during the read is not missed
            positions = await self.positions()
            if any(newest > after.get(name, 0) for name, newest in positions.items()):
                return True
            left_seconds = ends_at - loop.time()
            if left_seconds <= 0:
                return False
            await self._news.wait(timeout_seconds=left_seconds, news=news)

    async def _shards(self) -> list[_Shard]:
        rows = await self._reader.fetch(_POSITIONS)
        return [
            _Shard(row["number"], codec.read_text(row["name"]), row["newest_position"])
            for row in rows
        ]


def _merged(by_shard: Mapping[int, Sequence[_Key]], *, limit: int, of_each: int) -> list[_Key]:
    """Return the first keys in the order of time, up to where a shard may have more than was read.

    Of one shard they stay in the order of its log.
    """
    merged: list[_Key] = []
    heads = [(keys[0], 0) for keys in by_shard.values()]
    heapq.heapify(heads)
    while heads and len(merged) < limit:
        key, place = heads[0]
        merged.append(key)
        keys = by_shard[key.number]
        if place + 1 < len(keys):
            heapq.heapreplace(heads, (keys[place + 1], place + 1))
            continue
        heapq.heappop(heads)
        if len(keys) == of_each:
            break
    return merged
