"""Rare changes of a shard's consumers, each in a transaction of its own."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from datetime import timedelta

from monitor.bus.contract import Gap
from monitor.bus.postgres import codec
from monitor.bus.postgres.connections.connecting import Connection
from monitor.bus.postgres.writing.leased_shard import LeasedShard

# Dead letters kept for each consumer; of more, the oldest are removed.
DEAD_LETTERS_BOUND = 10_000

_NAME = (
    "UPDATE consumer SET unnamed_since = NULL"
    " WHERE shard = $1 AND name = ANY ($2::text[]) AND unnamed_since IS NOT NULL"
)
_MISS = (
    "UPDATE consumer SET unnamed_since = clock_timestamp()"
    " WHERE shard = $1 AND NOT name = ANY ($2::text[]) AND unnamed_since IS NULL"
)
_DROP = (
    "DELETE FROM consumer WHERE shard = $1 AND unnamed_since <= clock_timestamp() - $2::interval"
    " RETURNING name"
)
_DROP_STATE = "DELETE FROM consumer_state WHERE shard = $1 AND consumer = ANY ($2::text[])"
_DROP_LETTERS = "DELETE FROM dead_letter WHERE shard = $1 AND consumer = ANY ($2::text[])"
_COUNT_LOSS = (
    "UPDATE consumer SET lost = lost + $3 - greatest($4, counted_until), counted_until = $3"
    " WHERE shard = $1 AND name = $2 AND counted_until < $3"
    " RETURNING lost, counted_until"
)
_TRIM = (
    "DELETE FROM dead_letter WHERE shard = $1 AND consumer = $2 AND number <="
    " (SELECT number FROM dead_letter WHERE shard = $1 AND consumer = $2"
    " ORDER BY number DESC LIMIT 1 OFFSET $3)"
)


async def keep_only(
    connection: Connection,
    shards: Sequence[LeasedShard],
    *,
    consumers: Collection[str],
    grace_seconds: float,
) -> list[str]:
    """Drop consumers that no configuration has named for so long, and return their names.

    Not at once: while daemons are upgraded one by one, the other version may still have them.
    """
    (shard,) = shards
    named = [codec.text(consumer) for consumer in consumers]
    await connection.execute(_NAME, shard.number, named)
    await connection.execute(_MISS, shard.number, named)
    rows = await connection.fetch(_DROP, shard.number, timedelta(seconds=grace_seconds))
    dropped = [row["name"] for row in rows]
    if dropped:
        await connection.execute(_DROP_STATE, shard.number, dropped)
        await connection.execute(_DROP_LETTERS, shard.number, dropped)
    return sorted(map(codec.read_text, dropped))


async def count_loss(
    connection: Connection, shards: Sequence[LeasedShard], *, consumer: str, gap: Gap
) -> tuple[int, int] | None:
    """Add a gap to what the consumer has lost, less what an earlier reading has added.

    Returns what it has lost now, and up to where that is counted; None where all was counted.
    """
    (shard,) = shards
    row = await connection.fetchrow(
        _COUNT_LOSS, shard.number, codec.text(consumer), gap.until, gap.until - gap.lost
    )
    return None if row is None else (row["lost"], row["counted_until"])


async def trim_dead_letters(
    connection: Connection, shards: Sequence[LeasedShard], *, consumer: str
) -> None:
    (shard,) = shards
    await connection.execute(_TRIM, shard.number, codec.text(consumer), DEAD_LETTERS_BOUND)
