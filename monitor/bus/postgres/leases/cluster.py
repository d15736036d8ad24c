"""Reads the daemons that share the store, and which shards each of them holds."""

from __future__ import annotations

from monitor.bus.contract import WAITING_CONSUMERS
from monitor.bus.postgres.connections.reader import Reading
from monitor.bus.shards import ClusterStatus, DaemonRecord, ShardRecord
from monitor.model.slices import in_slices

_STORE = "SELECT clock_timestamp() AS at, (SELECT max(version) FROM schema_version) AS schema"
_DAEMONS = (
    "SELECT id, host, process_id, version, url, started_at, renewed_at, expires_at,"
    " NOT is_gone AS is_alive,"
    " (SELECT count(*) FROM shard WHERE holder = daemon.id"
    " AND shard.incarnation = daemon.incarnation) AS shards"
    " FROM daemon ORDER BY id"
)
_SHARDS = (
    "SELECT name, holder, epoch, held_since, taken_over_at, newest_position, last_change,"
    " EXISTS (SELECT FROM daemon WHERE NOT is_gone AND jsonb_exists(digests, shard.name))"
    " AS is_configured,"
    " coalesce((SELECT array_agg(workspace.name ORDER BY workspace.name) FROM workspace"
    " WHERE workspace.shard = number), '{}') AS workspaces,"
    " coalesce((SELECT newest_position - min(position) FROM consumer"
    " WHERE shard = number AND NOT starts_with(consumer.name, $1)), 0)"
    " AS backlog,"
    " (SELECT count(*) FROM callback WHERE callback.shard = number"
    " AND processed_at IS NULL) AS inbox"
    " FROM shard ORDER BY name"
)


async def cluster_status(reader: Reading, *, this: str, lease_seconds: float) -> ClusterStatus:
    """Return what the store knows of daemons and shards.

    A shard that changes hands between the reads may be counted twice, or not at all.
    """
    (store,) = await reader.fetch(_STORE)
    daemons = await reader.fetch(_DAEMONS)
    shards = await reader.fetch(_SHARDS, WAITING_CONSUMERS)
    return ClusterStatus(
        this=this,
        at=store["at"],
        schema=store["schema"],
        lease_seconds=lease_seconds,
        daemons=tuple(DaemonRecord(**row) for row in daemons),
        # A cluster may have thousands of shards.
        shards=tuple(
            [
                ShardRecord(**{**row, "workspaces": tuple(row["workspaces"])})
                async for row in in_slices(shards)
            ]
        ),
    )
