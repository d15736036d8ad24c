"""Reads newly claimed shards, by a few queries for all of them."""

from __future__ import annotations

from collections.abc import Sequence

from monitor.bus.postgres import codec
from monitor.bus.postgres.connections.reader import Reading
from monitor.bus.postgres.leases.lease import Lease
from monitor.bus.postgres.writing.leased_shard import ConsumerProgress, LeasedShard
from monitor.model.errors import BusLostError

_SHARDS = (
    "SELECT number, newest_position, last_transaction, log_epoch,"
    " coalesce((SELECT min(position) FROM event WHERE event.shard = shard.number),"
    " newest_position + 1) AS oldest_position"
    " FROM unnest($1::int[], $2::bigint[]) AS held (number_of, epoch_of)"
    " JOIN shard ON shard.number = held.number_of AND shard.epoch = held.epoch_of"
    " WHERE shard.holder = $3"
)
_CONSUMERS = (
    "SELECT shard, name, position, lost, counted_until, unnamed_since IS NULL AS is_named"
    " FROM consumer WHERE shard = ANY ($1::int[])"
)
_DEAD_LETTERS = (
    "SELECT shard, consumer, count(*) AS letters FROM dead_letter WHERE shard = ANY ($1::int[])"
    " GROUP BY shard, consumer"
)


async def read_shards(reader: Reading, leases: Sequence[Lease]) -> list[LeasedShard]:
    """Return the shards of these leases, in their order.

    Raises:
        BusLostError: one of them is not held by this daemon.
    """
    if not leases:
        return []
    numbers = [lease.number for lease in leases]
    rows = await reader.fetch(_SHARDS, numbers, [lease.epoch for lease in leases], leases[0].holder)
    by_number = {row["number"]: row for row in rows}
    shards: dict[int, LeasedShard] = {}
    for lease in leases:
        row = by_number.get(lease.number)
        if row is None:
            raise BusLostError(f"the shard {lease.shard} was taken over by another daemon")
        shards[lease.number] = LeasedShard(
            lease,
            newest_position=row["newest_position"],
            oldest_position=row["oldest_position"],
            last_transaction=row["last_transaction"],
            log_epoch=row["log_epoch"],
        )
    await _read_consumers(reader, shards)
    return list(shards.values())


async def _read_consumers(reader: Reading, shards: dict[int, LeasedShard]) -> None:
    for row in await reader.fetch(_CONSUMERS, list(shards)):
        shards[row["shard"]].consumers[codec.read_text(row["name"])] = ConsumerProgress(
            position=row["position"],
            lost=row["lost"],
            counted_until=row["counted_until"],
            is_named=row["is_named"],
            dead_letters=0,
        )
    for row in await reader.fetch(_DEAD_LETTERS, list(shards)):
        progress = shards[row["shard"]].consumers.get(codec.read_text(row["consumer"]))
        if progress is not None:
            progress.dead_letters = progress.letters_at_most = row["letters"]
