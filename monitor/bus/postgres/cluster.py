"""Who shares the store, and who holds what, as one read shows it."""

from __future__ import annotations

from monitor.bus.postgres.connecting import Connection
from monitor.bus.shards import ClusterStatus, DaemonRecord, ShardRecord

_STORE = "SELECT clock_timestamp() AS at, (SELECT max(version) FROM schema_version) AS schema"
_DAEMONS = (
    "SELECT id, host, process_id, version, url, started_at, renewed_at, expires_at,"
    " NOT is_gone AND expires_at > clock_timestamp() AS is_alive,"
    " (SELECT count(*) FROM shard WHERE holder = daemon.id"
    " AND shard.incarnation = daemon.incarnation) AS shards"
    " FROM daemon ORDER BY id"
)
_SHARDS = (
    "SELECT name, holder, epoch, held_since, newest_position, last_change,"
    " coalesce((SELECT array_agg(workspace.name ORDER BY workspace.name) FROM workspace"
    " WHERE workspace.shard = number), '{}') AS workspaces,"
    " coalesce((SELECT newest_position - min(position) FROM consumer"
    " WHERE consumer.shard = number), 0) AS backlog,"
    " (SELECT count(*) FROM callback WHERE callback.shard = number"
    " AND processed_at IS NULL) AS inbox"
    " FROM shard ORDER BY name"
)


async def cluster_status(
    connection: Connection, *, this: str, lease_seconds: float
) -> ClusterStatus:
    """Return what the store knows of daemons and shards at one time."""
    async with connection.transaction(isolation="repeatable_read", readonly=True):
        store = await connection.fetchrow(_STORE)
        daemons = await connection.fetch(_DAEMONS)
        shards = await connection.fetch(_SHARDS)
    assert store is not None  # noqa: S101 - a row without a table
    return ClusterStatus(
        this=this,
        at=store["at"],
        schema=store["schema"],
        lease_seconds=lease_seconds,
        daemons=tuple(DaemonRecord(**row) for row in daemons),
        shards=tuple(
            ShardRecord(**{**row, "workspaces": tuple(row["workspaces"])}) for row in shards
        ),
    )
