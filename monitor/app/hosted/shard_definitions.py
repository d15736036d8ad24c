"""Defines the shards of a configuration, and compares those of two. Pure."""

from __future__ import annotations

import hashlib
from typing import Any

import msgspec

from monitor.bus.shards import CLUSTER, SOLE, ShardDefinition, WorkspaceIdentity
from monitor.config import Configuration, WorkspaceConfiguration, without_locations

# Where a daemon listens, how it reaches its store, and what it logs are its own.
_OF_THE_DAEMON = ("workspaces", "server", "callbacks", "storage", "log")


def shard_names(configuration: Configuration) -> set[str]:
    """Return the names of all shards; of a thousand at little cost."""
    return set(_members(configuration))


def shard_definitions(configuration: Configuration) -> list[ShardDefinition]:
    """Return the shards in the order of their names, each with its workspaces by name."""
    shared = _shared_settings(configuration)
    return [
        ShardDefinition(
            name=name,
            workspaces=tuple(
                WorkspaceIdentity(name=workspace.name, url=_base_url(workspace))
                for workspace in workspaces
            ),
            digest=_digest([shared, name, *map(without_locations, workspaces)]),
        )
        for name, workspaces in sorted(_members(configuration).items())
    ]


def configuration_of(shard: str, configuration: Configuration) -> Configuration:
    """Return the configuration with the workspaces of one shard only."""
    if _is_alone(configuration):
        return configuration
    workspaces = tuple(
        workspace for workspace in configuration.workspaces if _named(workspace) == shard
    )
    return msgspec.structs.replace(configuration, workspaces=workspaces)


def _members(configuration: Configuration) -> dict[str, list[WorkspaceConfiguration]]:
    is_alone = _is_alone(configuration)
    # There also without any workspace: in a cluster, one shard is about the cluster itself.
    members: dict[str, list[WorkspaceConfiguration]] = {SOLE if is_alone else CLUSTER: []}
    for workspace in sorted(configuration.workspaces, key=lambda workspace: workspace.name):
        members.setdefault(SOLE if is_alone else _named(workspace), []).append(workspace)
    return members


def _is_alone(configuration: Configuration) -> bool:
    return configuration.storage.postgres is None


def _named(workspace: WorkspaceConfiguration) -> str:
    """Return the shard of a workspace on PostgreSQL: its own, unless it names another."""
    return workspace.workspace.shard or workspace.name


def _base_url(workspace: WorkspaceConfiguration) -> str:
    return workspace.workspace.url.rstrip("/").removesuffix("/v4")


def _shared_settings(configuration: Configuration) -> dict[str, Any]:
    """Return the settings that hold for every shard."""
    settings: dict[str, Any] = without_locations(configuration)
    for name in _OF_THE_DAEMON:
        del settings[name]
    return {**settings, "retention": without_locations(configuration.storage.retention)}


def _digest(settings: object) -> str:
    text = msgspec.json.encode(settings, order="deterministic")
    return hashlib.sha256(text).hexdigest()[:16]
