"""Connections."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from monitor.sandbox.api.calls import Call, Handlers, Reply
from monitor.sandbox.api.crud.handlers import Hooks, crud, found
from monitor.sandbox.api.data.connector_metadata import can
from monitor.sandbox.api.errors import Json, bad_field
from monitor.sandbox.api.request.parameters import names, word, words
from monitor.sandbox.api.response.kinds import Kind, View
from monitor.sandbox.api.response.rendering import reference
from monitor.sandbox.world.records.objects import Connection
from monitor.sandbox.world.shelves import WORKSPACE_ID

# What a list of connections can be narrowed to.
SHARED_ROLES = ("owner", "collaborator", "readOnly")
OPERATIONS = ("import", "publish")
# The fields of credentials that may be shown: the user, never the secret.
OPEN_CREDENTIALS = ("username", "user", "email", "iamRoleArn", "iamDbUser")


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


LARGEST_PORT = 65_535


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
    drawn = call.world.random("connection down", one.id).random()
    is_down = drawn < call.world.options.connections_down
    return Reply(body={"result": "FAILED" if is_down else "SUCCESS"})


HANDLERS: Handlers = {
    **crud(CONNECTION, Hooks(prepare=_prepare, narrow=_narrow)),
    "getConnectionStatus": get_status,
}
