"""Connectors: what each vendor's connections can do, as delivered and as this workspace has it."""

from __future__ import annotations

import copy
import functools
from collections.abc import Mapping
from importlib import resources
from typing import Any

import msgspec

from monitor.sandbox.api.calls import NO_CONTENT, Call, Handlers, Reply
from monitor.sandbox.api.errors import Json, bad_field, not_found
from monitor.sandbox.api.models.models import status_of
from monitor.sandbox.api.request.bodies import Body
from monitor.sandbox.world.records.parts import ConnectorOverrides
from monitor.sandbox.world.shelves import World

PARTS = ("runtimeMetadata", "publishMetadata")


@functools.cache
def defaults() -> Mapping[str, Mapping[str, Any]]:
    """Return what is delivered, by vendor."""
    content = resources.files(__package__).joinpath("connectors.json").read_bytes()
    return msgspec.json.decode(content, type=dict[str, dict[str, Any]])


def merged(base: Json, changes: Json) -> Json:
    """Return ``base`` with ``changes`` laid over it: objects by their keys, all else as a whole."""
    if not isinstance(base, Mapping) or not isinstance(changes, Mapping):
        return copy.deepcopy(changes)
    return {
        **copy.deepcopy(dict(base)),
        **{name: merged(base.get(name), value) for name, value in changes.items()},
    }


def can(vendor: str, operation: str) -> bool:
    """True where connections of a vendor can ``import`` or ``publish``; unknown ones do both."""
    supported = defaults().get(vendor, {}).get("connectionMetadata", {}).get("operation", "both")
    return supported in {operation, "both"}


def _kept(world: World, connector: str) -> ConnectorOverrides | None:
    rows = world.shelf(ConnectorOverrides).live()
    return next((row for row in rows if row.connector == connector), None)


def _changes(world: World, connector: str) -> Json:
    kept = _kept(world, connector)
    return {} if kept is None else kept.document


def _connector(call: Call) -> str:
    """Return the connector that the path names.

    Raises:
        ApiError: 404.
    """
    connector = call.path_values[0]
    if connector not in defaults():
        raise not_found("connector", connector)
    return connector


def get_config(call: Call) -> Reply:
    """Read a connector as this workspace has it: its defaults under the overrides."""
    connector = _connector(call)
    return Reply(body=merged(defaults()[connector], _changes(call.world, connector)))


def get_defaults(call: Call) -> Reply:
    """Read a connector as it is delivered."""
    return Reply(body=defaults()[_connector(call)])


def get_overrides(call: Call) -> Reply:
    """Read what this workspace changes about a connector, and nothing else."""
    return Reply(body=_changes(call.world, _connector(call)))


def update_overrides(call: Call) -> Reply:
    """Lay more changes over those that are kept."""
    connector = _connector(call)
    body = Body(call.body)
    sent = {name: body.raw(name) for name in PARTS if body.has(name)}
    for name in sent:
        body.object(name)
    if not sent:
        raise bad_field(" or ".join(PARTS), "is required")
    kept = _kept(call.world, connector)
    document = merged({} if kept is None else kept.document, sent)
    if kept is None:
        call.world.create(
            ConnectorOverrides, by=call.person.id, connector=connector, document=document
        )
    else:
        call.world.update(kept, by=call.person.id, document=document)
    return Reply(status=status_of(call.operation), content=b"")


def delete_overrides(call: Call) -> Reply:
    """Return a connector to its defaults, whether or not anything was changed."""
    kept = _kept(call.world, _connector(call))
    if kept is not None:
        call.world.delete(kept)
    return NO_CONTENT


HANDLERS: Handlers = {
    "getConnectorConfig": get_config,
    "getConnectorDefaults": get_defaults,
    "getConnectorOverrides": get_overrides,
    "updateConnectorOverrides": update_overrides,
    "deleteConnectorOverrides": delete_overrides,
}
