"""The statements of leases. What has expired is decided by who watches, not by a server's clock.

Older programs judge by ``expires_at``, so it is still written.

No statement waits for a lock of a shard that another daemon's transaction has: a renewal may not
queue after it.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping, Sequence
from typing import NamedTuple
from uuid import UUID

import msgspec

from monitor.bus.postgres.connections.connecting import Connection
from monitor.bus.postgres.leases.lease_decisions import TAKEN_OVER, Claim, LivingDaemon, ShardLease
from monitor.bus.postgres.leases.observed_heartbeats import Renewal

_REGISTER = (
    "INSERT INTO daemon (id, incarnation, host, process, process_id, version, schema, url,"
    " lease_seconds, digests, started_at, renewed_at, expires_at) VALUES ($1, $2, $3, $4, $5, $6,"
    " $7, $8, $9, $10, clock_timestamp(), clock_timestamp(),"
    " clock_timestamp() + make_interval(secs => $9))"
    " ON CONFLICT (id) DO UPDATE SET incarnation = excluded.incarnation, host = excluded.host,"
    " process = excluded.process, process_id = excluded.process_id, version = excluded.version,"
    " schema = excluded.schema, url = excluded.url, lease_seconds = excluded.lease_seconds,"
    " digests = excluded.digests, digests_version = daemon.digests_version + 1,"
    " started_at = excluded.started_at, renewed_at = clock_timestamp(),"
    " expires_at = clock_timestamp() + make_interval(secs => $9), is_gone = false"
    " WHERE daemon.is_gone OR daemon.incarnation = $11 AND daemon.renewed_at = $12"
    " RETURNING true"
)
_NAMESAKE = (
    "SELECT incarnation, renewed_at,"
    " extract(epoch FROM clock_timestamp() - renewed_at)::float8 AS age_seconds, lease_seconds,"
    " host, process, process_id"
    " FROM daemon WHERE id = $1 AND NOT is_gone"
)
_RENEW = (
    "UPDATE daemon SET renewed_at = clock_timestamp(),"
    " expires_at = clock_timestamp() + make_interval(secs => lease_seconds)"
    " WHERE id = $1 AND incarnation = $2 AND NOT is_gone RETURNING true"
)
_PUBLISH = (
    "UPDATE daemon SET digests = $3, digests_version = digests_version + 1"
    " WHERE id = $1 AND incarnation = $2"
)
_DAEMONS = (
    "SELECT daemon.id, daemon.incarnation, digests_version AS version, renewed_at,"
    " extract(epoch FROM clock_timestamp() - renewed_at)::float8 AS age_seconds, lease_seconds,"
    " CASE WHEN known.version IS NULL THEN digests END AS digests FROM daemon"
    " LEFT JOIN unnest($1::text[], $2::uuid[], $3::integer[]) AS known (id, incarnation, version)"
    " ON known.id = daemon.id AND known.incarnation = daemon.incarnation"
    " AND known.version = digests_version WHERE NOT is_gone"
)
_DECLARE_GONE = (
    "UPDATE daemon SET is_gone = true"
    " WHERE id = $1 AND incarnation = $2 AND renewed_at = $3 AND NOT is_gone RETURNING true"
)
# Those without a holder that is alive, and those whose row and daemon disagree: mostly none.
_OPEN = (
    "SELECT number, name, holder, incarnation, epoch, digest FROM shard"
    " WHERE number = ANY($3) AND (holder IS NULL OR NOT EXISTS (SELECT FROM"
    " unnest($4::text[], $5::uuid[]) AS alive (id, incarnation)"
    " WHERE alive.id = holder AND alive.incarnation = shard.incarnation))"
    " OR number IN (SELECT number FROM shard WHERE holder = $1 AND incarnation = $2"
    " EXCEPT SELECT unnest($6::integer[]))"
    " OR number = ANY($6) AND (holder = $1 AND incarnation = $2) IS NOT true"
)
_CLAIM = (
    "WITH claimed AS (SELECT shard.number, claim.last_change, claim.digest FROM shard"
    " JOIN unnest($3::integer[], $4::bigint[], $5::text[], $6::uuid[], $7::text[], $8::text[])"
    " AS claim (number, epoch, holder, incarnation, last_change, digest)"
    " ON claim.number = shard.number AND claim.epoch = shard.epoch"
    " AND claim.holder IS NOT DISTINCT FROM shard.holder"
    " AND claim.incarnation IS NOT DISTINCT FROM shard.incarnation"
    " WHERE EXISTS (SELECT FROM daemon WHERE id = $1 AND daemon.incarnation = $2 AND NOT is_gone)"
    " FOR UPDATE OF shard SKIP LOCKED)"
    " UPDATE shard SET holder = $1, incarnation = $2, epoch = epoch + 1,"
    " held_since = clock_timestamp(), last_change = claimed.last_change, digest = claimed.digest,"
    " taken_over_at = CASE WHEN claimed.last_change = $9 THEN clock_timestamp()"
    " ELSE taken_over_at END"
    " FROM claimed WHERE shard.number = claimed.number RETURNING shard.number, shard.epoch"
)
_RELEASE = (
    "UPDATE shard SET holder = NULL, incarnation = NULL"
    " WHERE number = $1 AND holder = $2 AND epoch = $3 RETURNING true"
)
_RELEASE_UNLOCKED = (
    "WITH own AS (SELECT shard.number FROM shard"
    " JOIN unnest($3::integer[], $4::bigint[]) AS given (number, epoch)"
    " ON given.number = shard.number AND given.epoch = shard.epoch"
    " WHERE holder = $1 AND incarnation = $2 FOR UPDATE OF shard SKIP LOCKED)"
    " UPDATE shard SET holder = NULL, incarnation = NULL FROM own"
    " WHERE shard.number = own.number RETURNING shard.number"
)
_RELEASE_ALL = (
    "WITH own AS (SELECT number FROM shard WHERE holder = $1 AND incarnation = $2"
    " ORDER BY number FOR UPDATE)"
    " UPDATE shard SET holder = NULL, incarnation = NULL FROM own"
    " WHERE shard.number = own.number"
)
_DEPART = "DELETE FROM daemon WHERE id = $1 AND incarnation = $2"
# A daemon that was gone is shown for a day.
_FORGET_GONE = (
    "DELETE FROM daemon WHERE is_gone AND expires_at < clock_timestamp() - interval '1 day'"
)
_CHANGE_DIGEST = "UPDATE shard SET digest = $4 WHERE number = $1 AND holder = $2 AND epoch = $3"

_decode_digests = msgspec.json.Decoder(dict[str, str]).decode


class Myself(NamedTuple):
    """What the row of this daemon says of it. ``url`` is that of its page."""

    id: str
    incarnation: UUID
    host: str
    process: str
    process_id: int
    version: str
    schema: int
    url: str | None
    lease_seconds: float


class Namesake(NamedTuple):
    """A daemon that has registered under the same id, and may be alive."""

    renewal: Renewal
    host: str
    process: str
    process_id: int


class Neighbour(NamedTuple):
    """A daemon that is not declared gone yet, with its newest renewal."""

    daemon: LivingDaemon
    version: int  # of its digests
    renewal: Renewal


async def register(
    connection: Connection,
    myself: Myself,
    digests: Mapping[str, str],
    *,
    instead_of: Renewal | None,
) -> bool:
    """Store the row of this daemon; False where another process has the id and may be alive.

    ``instead_of`` is the last renewal of a process that is not alive any more.
    """
    last = (None, None) if instead_of is None else instead_of.identity
    arguments = (*myself, json.dumps(dict(digests)), *last)
    return bool(await connection.fetchval(_REGISTER, *arguments))


async def namesake(connection: Connection, daemon_id: str) -> Namesake | None:
    row = await connection.fetchrow(_NAMESAKE, daemon_id)
    if row is None:
        return None
    values = tuple(row.values())
    return Namesake(Renewal(*values[:4]), *values[4:])


async def renew(connection: Connection, myself: Myself) -> bool:
    """Return False where another daemon has declared this one gone."""
    return bool(await connection.fetchval(_RENEW, myself.id, myself.incarnation))


async def publish(connection: Connection, myself: Myself, digests: Mapping[str, str]) -> None:
    """Say which shards this daemon would hold."""
    await connection.execute(_PUBLISH, myself.id, myself.incarnation, json.dumps(dict(digests)))


async def neighbours(connection: Connection, known: Collection[Neighbour]) -> dict[str, Neighbour]:
    """Return all daemons that are not gone; digests are read where they are not as ``known``."""
    rows = await connection.fetch(
        _DAEMONS,
        [neighbour.daemon.id for neighbour in known],
        [neighbour.daemon.incarnation for neighbour in known],
        [neighbour.version for neighbour in known],
    )
    before = {neighbour.daemon.id: neighbour.daemon for neighbour in known}
    found: dict[str, Neighbour] = {}
    for row in rows:
        daemon = before.get(row["id"])
        if daemon is None or row["digests"] is not None:
            digests = _decode_digests(row["digests"] or "{}")
            daemon = LivingDaemon(id=row["id"], incarnation=row["incarnation"], digests=digests)
        renewal = Renewal(*(row[column] for column in Renewal._fields))
        found[row["id"]] = Neighbour(daemon, row["version"], renewal)
    return found


async def declare_gone(connection: Connection, daemon_id: str, last: Renewal) -> bool:
    """Return False where it has renewed its heartbeat after all."""
    return bool(await connection.fetchval(_DECLARE_GONE, daemon_id, *last.identity))


async def open_leases(
    connection: Connection,
    myself: Myself,
    *,
    defined: Sequence[int],
    alive: Collection[LivingDaemon],
    hosted: Sequence[int],
) -> list[ShardLease]:
    """Return the shards about which something may have to be done."""
    rows = await connection.fetch(
        _OPEN,
        myself.id,
        myself.incarnation,
        defined,
        [daemon.id for daemon in alive],
        [daemon.incarnation for daemon in alive],
        hosted,
    )
    return [ShardLease(**row) for row in rows]


async def claim(
    connection: Connection, myself: Myself, digests: Mapping[Claim, str]
) -> dict[int, int]:
    """Take shards, each with a digest; return the epochs of those that were still as read.

    One whose row a transaction has locked is not among them: it may be claimed again soon.
    """
    leases = [claim.lease for claim in digests]
    rows = await connection.fetch(
        _CLAIM,
        myself.id,
        myself.incarnation,
        [lease.number for lease in leases],
        [lease.epoch for lease in leases],
        [lease.holder for lease in leases],
        [lease.incarnation for lease in leases],
        [claim.last_change for claim in digests],
        list(digests.values()),
        TAKEN_OVER,
    )
    return {row["number"]: row["epoch"] for row in rows}


async def release(connection: Connection, myself: Myself, number: int, epoch: int) -> bool:
    """Name the shard free; False where it was not this daemon's any more."""
    return bool(await connection.fetchval(_RELEASE, number, myself.id, epoch))


async def release_unlocked(
    connection: Connection, myself: Myself, epochs: Mapping[int, int]
) -> set[int]:
    """Name shards free, of these with their epochs; return which, without those locked now."""
    rows = await connection.fetch(
        _RELEASE_UNLOCKED, myself.id, myself.incarnation, list(epochs), list(epochs.values())
    )
    return {row["number"] for row in rows}


async def depart(connection: Connection, myself: Myself) -> None:
    """Release every shard of this daemon, and forget the daemon."""
    async with connection.transaction():
        await connection.execute(_RELEASE_ALL, myself.id, myself.incarnation)
        await connection.execute(_DEPART, myself.id, myself.incarnation)


async def forget_gone(connection: Connection) -> None:
    await connection.execute(_FORGET_GONE)


async def change_digest(
    connection: Connection, myself: Myself, number: int, epoch: int, digest: str
) -> None:
    """Say that this daemon holds the shard with another configuration from now on."""
    await connection.execute(_CHANGE_DIGEST, number, myself.id, epoch, digest)
