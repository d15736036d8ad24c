"""Connections: made, listed by what they can do, tried."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from monitor.sandbox.api.calls import Call, Handlers, Reply
from monitor.sandbox.api.crud.handlers import Hooks, crud, found
from monitor.sandbox.api.data.connection_kinds import CONNECTION, OPERATIONS, SHARED_ROLES
from monitor.sandbox.api.data.connector_metadata import can
from monitor.sandbox.api.errors import Json, bad_field
from monitor.sandbox.api.request.parameters import names, word, words
from monitor.sandbox.world.records.objects import Connection

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
    **crud(
        CONNECTION,
        create="createConnection",
        listed="listConnections",
        counted="countConnections",
        read="getConnection",
        deleted="deleteConnection",
        hooks=Hooks(prepare=_prepare, narrow=_narrow),
    ),
    "getConnectionStatus": get_status,
}
