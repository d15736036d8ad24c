"""Finds out how a transaction ended whose answer was lost with its connection.

It names the number of each shard's last transaction, and raises it by 1. So the rows say whether it
was kept. If not, the number is raised by 2: the statement may still be on its way to the server,
and must find another number than it expects.
"""

from __future__ import annotations

from collections.abc import Collection

from monitor.bus.postgres.connections.connecting import Connection
from monitor.bus.postgres.writing.leased_shard import LeasedShard

# Waits for a backend that is still committing.
_REFUSE = (
    "UPDATE shard SET last_transaction = held.last_transaction + 2"
    " FROM unnest($1::int[], $2::bigint[], $3::bigint[]) AS held (number, epoch, last_transaction)"
    " WHERE shard.number = held.number AND shard.holder = $4 AND shard.epoch = held.epoch"
    " AND shard.last_transaction = held.last_transaction"
)
# With a lock although nothing follows: so it has a COMMIT of its own, which is answered when a
# synchronous standby has it and all before it. What is only read may be on this server alone.
_READ = (
    "SELECT number, holder, epoch, last_transaction FROM shard WHERE number = ANY ($1::int[])"
    " ORDER BY number FOR UPDATE"
)


async def kept_of(connection: Connection, shards: Collection[LeasedShard]) -> set[int]:
    """Return the shards for which the transaction was kept; none if it was not kept at all.

    A shard that another daemon has taken over meanwhile is lost. This may be repeated where its own
    answer is lost.
    """
    await connection.execute(
        _REFUSE,
        [shard.number for shard in shards],
        [shard.lease.epoch for shard in shards],
        [shard.last_transaction for shard in shards],
        next(shard.lease.holder for shard in shards),
    )
    rows = await connection.fetch(_READ, [shard.number for shard in shards])
    found = {row["number"]: row for row in rows}
    kept: set[int] = set()
    refused: list[LeasedShard] = []
    for shard in shards:
        row = found.get(shard.number)
        if row is None or (row["holder"], row["epoch"]) != (shard.lease.holder, shard.lease.epoch):
            shard.lose(f"the shard {shard.lease.shard} was taken over by another daemon")
        elif row["last_transaction"] == shard.last_transaction + 1:
            kept.add(shard.number)
        elif row["last_transaction"] == shard.last_transaction + 2:
            refused.append(shard)
        else:
            shard.lose(f"the shard {shard.lease.shard} was changed by another program")
    for shard in refused:
        shard.last_transaction += 2
    return kept
