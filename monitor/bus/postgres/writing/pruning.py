"""Retention of all shards that a daemon holds, in pieces between which other writes pass.

One query finds the shards for which anything is due, so a thousand idle ones cost no write. Pieces
remove at most some rows each, of many shards at once, until nothing is left. The limits are judged
again for every piece, because consumers move and new ones subscribe in between.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Mapping, Sequence
from datetime import datetime, timedelta
from functools import partial
from typing import Any

import msgspec
import structlog

from monitor.bus.contract import Pruned, Retention, StoredCallback
from monitor.bus.postgres import codec
from monitor.bus.postgres.connections.connecting import Connection
from monitor.bus.postgres.connections.reader import Reading
from monitor.bus.postgres.writing.leased_shard import LeasedShard, LeaseHolding
from monitor.bus.postgres.writing.rows import PROCESSED_MEMORY
from monitor.bus.postgres.writing.writer import PostgresWriter
from monitor.model.errors import BusSchemaError

log = structlog.get_logger()

_PIECE = 1_000  # rows
_SHARDS_AT_ONCE = 50
# Processed callbacks of a shard remembered at most, however many arrive within their day.
PROCESSED_BOUND = 500_000

_DUE = (
    "SELECT held.number,"
    " EXISTS (SELECT FROM event WHERE event.shard = held.number AND event.position = oldest"
    " AND event.recorded_at < $3) AS events,"
    " EXISTS (SELECT FROM run WHERE run.shard = held.number AND run.ended_at < $4) AS runs,"
    " EXISTS (SELECT FROM callback WHERE callback.shard = held.number"
    " AND callback.processed_at IS NULL AND callback.received_at < $5) AS expired,"
    " EXISTS (SELECT FROM callback WHERE callback.shard = held.number"
    " AND callback.processed_at <= $6) OR (SELECT reltuples > $7 FROM pg_class"
    " WHERE oid = 'callback'::regclass) AS processed"
    " FROM unnest($1::int[], $2::bigint[]) AS held (number, oldest)"
)
_FIRST_YOUNG = (
    "SELECT held.number, (SELECT position FROM event WHERE event.shard = held.number"
    " AND event.position BETWEEN oldest AND last AND event.recorded_at >= $4"
    " ORDER BY event.position LIMIT 1) AS young"
    " FROM unnest($1::int[], $2::bigint[], $3::bigint[]) AS held (number, oldest, last)"
)
_CUT = (
    "DELETE FROM event USING unnest($1::int[], $2::bigint[]) AS held (number, last)"
    " WHERE event.shard = held.number AND event.position <= last"
)
_FORGET_RUNS = (
    "DELETE FROM run WHERE ctid = ANY (ARRAY (SELECT old.ctid FROM unnest($1::int[]) AS held"
    " (number), LATERAL (SELECT run.ctid FROM run WHERE run.shard = held.number"
    " AND run.ended_at < $2 ORDER BY run.ended_at LIMIT $3) AS old)) RETURNING shard"
)
_FORGET_PROCESSED = (
    "DELETE FROM callback WHERE ctid = ANY (ARRAY (SELECT old.ctid FROM unnest($1::int[]) AS held"
    " (number), LATERAL (SELECT callback.ctid FROM callback WHERE callback.shard = held.number"
    " AND callback.processed_at <= greatest($2, coalesce((SELECT callback.processed_at"
    " FROM callback WHERE callback.shard = held.number AND callback.processed_at IS NOT NULL"
    " ORDER BY callback.processed_at DESC LIMIT 1 OFFSET $4), $2))"
    " ORDER BY callback.processed_at LIMIT $3) AS old)) RETURNING shard"
)
# A callback is as young as any that came before it, in whatever shard: the clock of the daemon that
# received it may have been behind. One dated later than now shows nothing. What comes before the
# first young one is about to leave, so few rows are read.
_EXPIRE = (
    "DELETE FROM callback WHERE ctid = ANY (ARRAY (SELECT old.ctid FROM unnest($1::int[]) AS held"
    " (number), LATERAL (SELECT callback.ctid FROM callback WHERE callback.shard = held.number"
    " AND callback.processed_at IS NULL AND callback.received_at < $2"
    " AND callback.id < coalesce((SELECT young.id FROM callback AS young"
    " WHERE young.id > 0 AND young.received_at BETWEEN $2 AND $4"
    " ORDER BY young.id LIMIT 1), callback.id + 1)"
    " ORDER BY callback.received_at, callback.id LIMIT $3) AS old))"
    " RETURNING shard, id, received_at, body"
)

Removed = dict[int, Any]  # by the number of a shard: what, or how much, one piece has removed
Remove = Callable[..., Any]


async def prune_all(
    writer: PostgresWriter,
    reader: Reading,
    buses: Collection[LeaseHolding],
    retention: Retention,
    *,
    now: datetime,
    timeout_seconds: float = 10.0,
) -> Mapping[str, Pruned]:
    """Apply retention to many shards at once, as `EventBus.prune` does to one."""
    held = [bus.leased for bus in buses if not bus.leased.is_over]
    pruned = await prune(writer, reader, held, retention, now=now, timeout_seconds=timeout_seconds)
    return {shard.lease.shard: pruned[shard.number] for shard in held}


async def prune(
    writer: PostgresWriter,
    reader: Reading,
    shards: Collection[LeasedShard],
    retention: Retention,
    *,
    now: datetime,
    timeout_seconds: float,
) -> dict[int, Pruned]:
    """Apply retention once to all these shards; return what was removed, by number."""
    by_number = {shard.number: shard for shard in shards}
    due = await _due(reader, by_number, retention, now)
    run = partial(_in_pieces, writer, timeout_seconds=timeout_seconds)

    def chosen(what: str) -> list[LeasedShard]:
        return [by_number[number] for number in due[what]]

    events = await run(
        chosen("events"), partial(_cut_events, retention=retention, now=now), on_kept=_forget_events
    )
    forget = partial(_forget_runs, before=_cutoff(now, retention.runs_seconds))
    runs = await run(chosen("runs"), forget)
    await run(chosen("processed"), partial(_forget_processed, now=now))
    expire = partial(_expire, retention=retention, now=now)
    expired = await run(chosen("expired"), expire, on_kept=_forget_expired)
    return {
        number: Pruned(
            events=_total(events[number]),
            runs=_total(runs[number]),
            callbacks=_callbacks(expired[number]),
        )
        for number in by_number
    }


async def _due(
    reader: Reading, shards: Mapping[int, LeasedShard], retention: Retention, now: datetime
) -> dict[str, list[int]]:
    """Return for which shards anything is to be removed, by the kind of what is."""
    due: dict[str, list[int]] = {"events": [], "runs": [], "expired": [], "processed": []}
    if not shards:
        return due
    rows = await reader.fetch(
        _DUE,
        list(shards),
        [shard.oldest_position for shard in shards.values()],
        _cutoff(now, retention.events_seconds),
        _cutoff(now, retention.runs_seconds),
        _cutoff(now, retention.callbacks_seconds),
        codec.microseconds(now - PROCESSED_MEMORY),
        float(PROCESSED_BOUND),
    )
    for row in rows:
        shard = shards[row["number"]]
        stored = shard.tail.newest - shard.oldest_position + 1
        # More than the hard cap may be stored while a consumer has not read them.
        if row["events"] or stored > min(retention.events_count, retention.events_hard_cap):
            due["events"].append(shard.number)
        for kind in ("runs", "expired", "processed"):
            if row[kind]:
                due[kind].append(shard.number)
    return due


async def _in_pieces(
    writer: PostgresWriter,
    shards: Sequence[LeasedShard],
    remove: Remove,
    *,
    timeout_seconds: float,
    on_kept: Callable[[Sequence[LeasedShard], Removed], None] | None = None,
) -> defaultdict[int, list[Any]]:
    """Return the pieces that were removed of each shard."""
    removed: defaultdict[int, list[Any]] = defaultdict(list)
    waiting = list(shards)
    while waiting:
        chunk, waiting = waiting[:_SHARDS_AT_ONCE], waiting[_SHARDS_AT_ONCE:]
        piece: Removed = await writer.run(
            partial(remove, most=max(1, _PIECE // len(chunk))),
            chunk,
            timeout_seconds=timeout_seconds,
            on_kept=None if on_kept is None else partial(on_kept, chunk),
        )
        for shard in chunk:
            if rows := piece.get(shard.number):
                removed[shard.number].append(rows)
                if not shard.lease.is_lost:
                    waiting.append(shard)
    return removed


async def _cut_events(
    connection: Connection,
    shards: Sequence[LeasedShard],
    *,
    most: int,
    retention: Retention,
    now: datetime,
) -> Removed:
    """Remove the oldest events as far as age, count and the consumers' positions allow."""
    rows = await connection.fetch(
        _FIRST_YOUNG,
        [shard.number for shard in shards],
        [shard.oldest_position for shard in shards],
        [shard.oldest_position + most - 1 for shard in shards],
        _cutoff(now, retention.events_seconds),
    )
    young = {row["number"]: row["young"] for row in rows}
    removed: Removed = {}
    for shard in shards:
        oldest, newest = shard.oldest_position, shard.tail.newest
        end = oldest + most - 1
        aged = end if young[shard.number] is None else young[shard.number] - 1
        allowed = min(
            max(aged, newest - retention.events_count),
            min((consumer.position for consumer in shard.consumers.values()), default=newest),
        )
        last = min(end, newest, max(allowed, newest - retention.events_hard_cap))
        if last >= oldest:
            removed[shard.number] = last - oldest + 1
            shard.cut_until = max(shard.cut_until, last)
    lasts = [
        shard.oldest_position + removed[shard.number] - 1
        for shard in shards
        if shard.number in removed
    ]
    if removed:
        await connection.execute(_CUT, list(removed), lasts)
    return removed


def _forget_events(shards: Sequence[LeasedShard], removed: Removed) -> None:
    for shard in shards:
        if count := removed.get(shard.number):
            shard.oldest_position += count
            shard.tail.drop()


async def _forget_runs(
    connection: Connection, shards: Sequence[LeasedShard], *, most: int, before: int
) -> Removed:
    """Remove the finished runs that ended first."""
    rows = await connection.fetch(_FORGET_RUNS, _numbers(shards), before, most)
    return dict(Counter(row["shard"] for row in rows))


async def _forget_processed(
    connection: Connection, shards: Sequence[LeasedShard], *, most: int, now: datetime
) -> Removed:
    """Remove processed callbacks whose repetition need no longer be recognised."""
    before = codec.microseconds(now - PROCESSED_MEMORY)
    rows = await connection.fetch(
        _FORGET_PROCESSED, _numbers(shards), before, most, PROCESSED_BOUND
    )
    return dict(Counter(row["shard"] for row in rows))


async def _expire(
    connection: Connection,
    shards: Sequence[LeasedShard],
    *,
    most: int,
    retention: Retention,
    now: datetime,
) -> Removed:
    """Remove callbacks that have waited too long, and return them."""
    before = _cutoff(now, retention.callbacks_seconds)
    rows = await connection.fetch(_EXPIRE, _numbers(shards), before, most, codec.microseconds(now))
    removed: defaultdict[int, list[tuple[int, int, bytes]]] = defaultdict(list)
    for row in rows:
        removed[row["shard"]].append((row["received_at"], row["id"], row["body"]))
    return removed


def _forget_expired(shards: Sequence[LeasedShard], removed: Removed) -> None:
    for shard in shards:
        shard.arrivals.forget(id_ for _, id_, _ in removed.get(shard.number, ()))


def _callbacks(pieces: Sequence[Sequence[tuple[int, int, bytes]]]) -> tuple[StoredCallback, ...]:
    """Return what has expired; that one of them cannot be understood must not stop retention."""
    callbacks: list[StoredCallback] = []
    for _, id_, body in sorted(row for piece in pieces for row in piece):
        try:
            (callback,) = codec.decode_piece([body], codec.decode_callback)
        except BusSchemaError as exc:
            log.warning("damaged callback removed", reason=str(exc))
        else:
            callbacks.append(msgspec.structs.replace(callback, id=id_))
    return tuple(callbacks)


def _numbers(shards: Sequence[LeasedShard]) -> list[int]:
    return [shard.number for shard in shards]


def _total(counts: Sequence[int]) -> int:
    return sum(counts)


def _cutoff(now: datetime, seconds: float) -> int:
    return codec.microseconds(now - timedelta(seconds=seconds))
