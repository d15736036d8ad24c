"""Connections, and the connectors of their vendors, as delivered and as they are here."""

from __future__ import annotations

import copy
import functools
from collections.abc import Iterable, Mapping
from importlib import resources
from typing import Any

import msgspec

from monitor.sandbox.api.calls import NO_CONTENT, Call, Handlers, Reply
from monitor.sandbox.api.crud.handlers import Hooks, crud, found
from monitor.sandbox.api.errors import Json, bad_field, not_found
from monitor.sandbox.api.models.models import status_of
from monitor.sandbox.api.request.bodies import Body
from monitor.sandbox.api.request.parameters import names, word, words
from monitor.sandbox.api.response.kinds import Kind, View
from monitor.sandbox.api.response.rendering import reference
from monitor.sandbox.world.records.objects import Connection
from monitor.sandbox.world.records.parts import ConnectorOverrides
from monitor.sandbox.world.shelves import WORKSPACE_ID, World

PARTS = ("runtimeMetadata", "publishMetadata")
# What a list of connections can be narrowed to.
SHARED_ROLES = ("owner", "collaborator", "readOnly")
OPERATIONS = ("import", "publish")
# The fields of credentials that may be shown: the user, never the secret.
OPEN_CREDENTIALS = ("username", "user", "email", "iamRoleArn", "iamDbUser")
LARGEST_PORT = 65_535


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


def without_secrets(credentials: Mapping[str, Any]) -> dict[str, Json]:
    """Return what an answer may show of credentials."""
    return {name: credentials[name] for name in OPEN_CREDENTIALS if name in credentials}


def _credentials(view: View, connection: Connection) -> Json:
    del view
    return [without_secrets(credentials) for credentials in connection.credentials]


def _advanced_credentials(view: View, connection: Connection) -> Json:
    del view
    return [without_secrets(credentials) for credentials in connection.advanced_credentials]


def _has_credentials(view: View, connection: Connection) -> bool:
    del view
    return bool(connection.credentials)


def is_visible(view: View, connection: Connection) -> bool:
    """True for the owner and administrators, and for everybody where it is global."""
    return connection.is_global or view.person.is_admin or connection.creator_id == view.person.id


CONNECTION: Kind[Connection] = Kind(
    record=Connection,
    is_visible_to=is_visible,
    constants={"workspace": reference(WORKSPACE_ID)},
    computed={
        "hasCredentials": _has_credentials,
        "credentials": _credentials,
        "advancedCredentials": _advanced_credentials,
    },
    # The bucket of a remote file system is one of its ``params``; see the handler.
    unkept=frozenset({"hasCredentials", "oauth2StateId", "bucket"}),
)


def _prepare(call: Call, record: Connection | None, values: dict[str, Any]) -> dict[str, Any]:
    del record
    port = values.get("port")
    if port is not None and not 0 < port <= LARGEST_PORT:
        raise bad_field("port", f"must be from 1 to {LARGEST_PORT}")
    body: Mapping[str, Json] = call.body or {}
    if body.get("bucket") is not None:
        values["params"] = {**values.get("params", {}), "bucket": body["bucket"]}
    for name in ("credentials", "advanced_credentials"):
        if name in values:
            values[name] = _each(values[name])
    values["uuid"] = call.world.uuid("connection", len(call.world.connections))
    return values


def _each(credentials: Any) -> tuple[Mapping[str, Any], ...]:
    """Return credentials one by one, whether one was sent or a list of them."""
    several = (credentials,) if isinstance(credentials, Mapping) else tuple(credentials)
    return tuple(credential for credential in several if isinstance(credential, Mapping))


def _narrow(call: Call, rows: Iterable[Connection]) -> Iterable[Connection]:
    """Keep the vendors, the operations and the caller's role that the query names."""
    query = call.query.only(call.operation.query)
    vendors = {name for text in _texts(call, "vendors") for name in names(text)}
    operations = words(query, "operations", OPERATIONS)
    role = word(query, "sharedRole", SHARED_ROLES)
    return (
        row
        for row in rows
        if (not vendors or row.vendor in vendors)
        and all(can(row.vendor, operation) for operation in operations)
        and (not role or (row.creator_id == call.person.id) is (role == "owner"))
    )


def _texts(call: Call, name: str) -> list[str]:
    query = call.query.only(call.operation.query)
    return [*query.all(name), *query.all(f"{name}[]")]


def get_status(call: Call) -> Reply:
    """Try a connection: it answers, unless the fault ``connections_down`` has struck it."""
    one = found(call, CONNECTION)
    is_down = call.world.struck("connections_down", one.id) is not None
    return Reply(body={"result": "FAILED" if is_down else "SUCCESS"})


HANDLERS: Handlers = {
    "getConnectorConfig": get_config,
    "getConnectorDefaults": get_defaults,
    "getConnectorOverrides": get_overrides,
    "updateConnectorOverrides": update_overrides,
    "deleteConnectorOverrides": delete_overrides,
    **crud(CONNECTION, Hooks(prepare=_prepare, narrow=_narrow)),
    "getConnectionStatus": get_status,
}
