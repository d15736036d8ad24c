"""Compares a configuration's shards with those of the store, in one transaction."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import structlog

from monitor.bus.postgres.connections.connecting import Connection
from monitor.bus.postgres.connections.migrations import IS_ALIVE
from monitor.bus.postgres.leases.lease_table import Myself, publish
from monitor.bus.shards import ShardDefinition
from monitor.model.errors import ConfigurationError

log = structlog.get_logger()

LOCK = 6_711_447
_ADD_SHARDS = (
    "INSERT INTO shard (name) SELECT name FROM unnest($1::text[]) AS defined (name)"
    " WHERE NOT EXISTS (SELECT FROM shard WHERE shard.name = defined.name)"
    " ORDER BY name ON CONFLICT DO NOTHING"
)
_NUMBERS = "SELECT name, number FROM shard WHERE name = ANY($1::text[])"
_ADD_WORKSPACES = (
    "INSERT INTO workspace (name, shard, url)"
    " SELECT * FROM unnest($1::text[], $2::integer[], $3::text[]) AS defined (name, shard, url)"
    " WHERE NOT EXISTS (SELECT FROM workspace WHERE workspace.name = defined.name)"
    " ORDER BY name ON CONFLICT DO NOTHING"
)
_OTHERWISE = (
    "SELECT workspace.name, shard.name AS shard, workspace.url FROM workspace"
    " JOIN shard ON shard.number = workspace.shard"
    " JOIN unnest($1::text[], $2::integer[], $3::text[]) AS defined (name, shard, url)"
    " ON defined.name = workspace.name"
    " WHERE workspace.shard <> defined.shard OR workspace.url <> defined.url"
    " ORDER BY workspace.name"
)
_STORED = (
    "SELECT workspace.name, shard.name AS shard, workspace.url FROM workspace"
    " JOIN shard ON shard.number = workspace.shard WHERE workspace.name = ANY($1::text[])"
    " ORDER BY workspace.name"
)
_DIFFERING = (
    "SELECT daemon.id, array_agg(defined.name ORDER BY defined.name) AS shards FROM daemon"  # noqa: S608 - a constant
    " JOIN unnest($1::text[], $2::text[]) AS defined (name, digest)"
    " ON daemon.digests ->> defined.name <> defined.digest"
    f" WHERE daemon.id <> $3 AND {IS_ALIVE}"
    " GROUP BY daemon.id ORDER BY daemon.id"
)
_WHO_DEFINES = (
    f"SELECT id, host FROM daemon WHERE id <> $1 AND {IS_ALIVE} AND digests ? $2"  # noqa: S608 - a constant
    " ORDER BY id LIMIT 1"
)
_CHANGE_URL = "UPDATE workspace SET url = $2 WHERE name = $1"


class DefinedShard(NamedTuple):
    """A shard of the configuration, with its number in the store."""

    number: int
    digest: str


class _Workspace(NamedTuple):
    """A workspace as it is configured."""

    shard: str
    url: str


class _WorkspaceChange(NamedTuple):
    """A workspace that the store knows otherwise than the configuration."""

    name: str
    stored: _Workspace
    configured: _Workspace


async def store_definitions(
    connection: Connection,
    myself: Myself,
    definitions: Sequence[ShardDefinition],
    digests: Mapping[str, str],
) -> dict[str, DefinedShard]:
    """Add what is new, publish what this daemon would hold, and return the shards by name.

    Raises:
        ConfigurationError: a workspace is stored in another shard, or means another URL to a
            daemon that is alive; nothing was added.
    """
    names = [definition.name for definition in definitions]
    configured = _configured(definitions)
    async with connection.transaction():
        # Two daemons that start with different configurations: the second one sees the first.
        await connection.execute(f"SELECT pg_advisory_xact_lock({LOCK})")
        await connection.execute(_ADD_SHARDS, names)
        rows = await connection.fetch(_NUMBERS, names)
        numbers = {row["name"]: row["number"] for row in rows}
        workspaces = (
            list(configured),
            [numbers[workspace.shard] for workspace in configured.values()],
            [workspace.url for workspace in configured.values()],
        )
        await connection.execute(_ADD_WORKSPACES, *workspaces)
        problems: list[str] = []
        for row in await connection.fetch(_OTHERWISE, *workspaces):
            stored = _Workspace(row["shard"], row["url"])
            change = _WorkspaceChange(row["name"], stored, configured[row["name"]])
            problem = await _problem(connection, myself.id, change)
            if problem is None:
                await connection.execute(_CHANGE_URL, change.name, change.configured.url)
            else:
                problems.append(problem)
        if problems:
            raise ConfigurationError(problems)
        await publish(connection, myself, digests)
    # Why one of the two may never take a shard over from the other.
    for daemon, shards in (await other_settings(connection, myself.id, definitions)).items():
        log.info("daemon has other settings", daemon=daemon, shards=len(shards), first=shards[0])
    return {
        definition.name: DefinedShard(numbers[definition.name], definition.digest)
        for definition in definitions
    }


async def definition_problems(
    connection: Connection, daemon_id: str, definitions: Sequence[ShardDefinition]
) -> list[str]:
    """Return why `store_definitions` would refuse them now. Changes nothing."""
    configured = _configured(definitions)
    problems: list[str] = []
    for row in await connection.fetch(_STORED, list(configured)):
        change = _WorkspaceChange(
            row["name"], _Workspace(row["shard"], row["url"]), configured[row["name"]]
        )
        if change.stored != change.configured:
            problem = await _problem(connection, daemon_id, change)
            problems += [] if problem is None else [problem]
    return problems


async def other_settings(
    connection: Connection, daemon_id: str, definitions: Sequence[ShardDefinition]
) -> dict[str, list[str]]:
    """Return by daemon that is alive the shards that it has other settings for.

    Neither takes such a shard over while the other one lives.
    """
    rows = await connection.fetch(
        _DIFFERING,
        [definition.name for definition in definitions],
        [definition.digest for definition in definitions],
        daemon_id,
    )
    return {row["id"]: row["shards"] for row in rows}


def _configured(definitions: Sequence[ShardDefinition]) -> dict[str, _Workspace]:
    return {
        workspace.name: _Workspace(definition.name, workspace.url)
        for definition in definitions
        for workspace in definition.workspaces
    }


async def _problem(connection: Connection, daemon_id: str, change: _WorkspaceChange) -> str | None:
    """Return why the change is refused; None where it may be made."""
    name, stored, configured = change
    if stored.shard != configured.shard:
        return (
            f"workspaces.{name}.shard: is {configured.shard!r}, and the workspace is stored in "
            f"shard {stored.shard!r}; set that, or end the daemons, export the store, and import "
            "it into an empty database with dataprep-monitor store"
        )
    other = await connection.fetchrow(_WHO_DEFINES, daemon_id, configured.shard)
    if other is not None:
        return (
            f"workspaces.{name}.url: is {configured.url}, and daemon {other['id']} on "
            f"{other['host']} follows {stored.url} under this name; give both the same URL, or "
            "another name, or end that daemon first"
        )
    return None
