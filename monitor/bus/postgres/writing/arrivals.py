"""Callbacks that other daemons have stored for shards held here.

They are found by "not processed", and never after an id: transactions become visible out of the
order of their ids.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable

import asyncpg
import msgspec

from monitor.bus.contract import StoredCallback
from monitor.bus.postgres import codec
from monitor.bus.postgres.connections.reader import Reading
from monitor.bus.postgres.writing.leased_shard import LeasedShard, LeaseHolding
from monitor.model.errors import BusSchemaError

_READ_AT_ONCE = 100  # and decoded in one piece, which nothing else can interrupt
# Not in an order, for which the server could choose to look at all that ever was.
_FEW = (
    "SELECT shard, id, workspace, body FROM callback"
    " WHERE shard = ANY ($1::int[]) AND processed_at IS NULL LIMIT $2"
)
_WAITING_IDS = (
    "SELECT shard, id FROM callback WHERE shard = ANY ($1::int[]) AND processed_at IS NULL"
    " ORDER BY id"
)
_BY_ID = (
    "SELECT shard, id, workspace, body FROM callback WHERE id = ANY ($1::bigint[])"
    " AND processed_at IS NULL ORDER BY id"
)
_BODIES = "SELECT id, body FROM callback WHERE id = ANY ($1::bigint[]) AND processed_at IS NULL"


async def learn_arrivals(reader: Reading, buses: Collection[LeaseHolding]) -> set[str]:
    """Learn of callbacks that other daemons have stored; return the shards that have any."""
    shards = [bus.leased for bus in buses]
    learned = await learn_waiting(reader, shards)
    return {shard.lease.shard for shard in shards if shard.number in learned}


async def learn_waiting(reader: Reading, shards: Collection[LeasedShard]) -> set[int]:
    """Bring the memory of these shards up to date; return the numbers of those with news."""
    by_number = {shard.number: shard for shard in shards if not shard.is_over}
    if not by_number:
        return set()
    for shard in by_number.values():
        shard.arrivals.begin_learning()
    rows = await reader.fetch(_FEW, list(by_number), _READ_AT_ONCE)
    if len(rows) < _READ_AT_ONCE:  # so these are all
        return _learn(by_number, sorted(rows, key=lambda row: int(row["id"])))
    waiting: defaultdict[int, list[int]] = defaultdict(list)
    for row in await reader.fetch(_WAITING_IDS, list(by_number)):
        waiting[row["shard"]].append(row["id"])
    unknown = [
        id_ for number, ids in waiting.items() for id_ in by_number[number].arrivals.unknown(ids)
    ]
    learned: set[int] = set()
    for start in range(0, len(unknown), _READ_AT_ONCE):
        piece = unknown[start : start + _READ_AT_ONCE]
        learned |= _learn(by_number, await reader.fetch(_BY_ID, piece))
    return learned


def _learn(shards: dict[int, LeasedShard], rows: Iterable[asyncpg.Record]) -> set[int]:
    learned: set[int] = set()
    for row in rows:
        arrivals = shards[row["shard"]].arrivals
        if not arrivals.unknown([row["id"]]):
            continue
        try:
            (callback,) = codec.decode_piece([row["body"]], codec.decode_callback)
        except BusSchemaError:
            arrivals.learn_unreadable(codec.read_text(row["workspace"]), row["id"])
        else:
            arrivals.learn(msgspec.structs.replace(callback, id=row["id"]))
        learned.add(row["shard"])
    return learned


async def read_callbacks(reader: Reading, ids: Collection[int]) -> dict[int, StoredCallback]:
    """Return those of the callbacks that still wait, by id."""
    if not ids:
        return {}
    rows = await reader.fetch(_BODIES, list(ids))
    callbacks = await codec.decode_all([row["body"] for row in rows], codec.decode_callback)
    return {
        row["id"]: msgspec.structs.replace(callback, id=row["id"])
        for row, callback in zip(rows, callbacks, strict=True)
    }
