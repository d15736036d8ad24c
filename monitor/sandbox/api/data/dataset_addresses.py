"""The forms in which requests say where a dataset's data lies.

A file is a ``uri``, a ``path`` (with a ``bucket``), or a path on a ``connectionId``; a table is a
``jdbcTable`` or ``tableName`` below a ``jdbcPath`` or ``relationalPath``; a query is ``raw`` or
``query``. Tables and queries need a ``connectionId``.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any
from urllib.parse import urlsplit

from monitor.sandbox.api.errors import bad_field
from monitor.sandbox.api.request.bodies import Body
from monitor.sandbox.world.records.objects import ImportedDataset
from monitor.sandbox.world.shelves import World

LOCAL = "file"  # the scheme of a path alone


def address_of(world: World, body: Body, values: Mapping[str, Any]) -> dict[str, Any]:
    """Return where a new dataset's data lies, as fields of its record.

    Raises:
        ApiError: 400, naming what is missing or no address.
    """
    connection_id = values.get("connection_id")
    table, query = _table(body), _query(body)
    if table or query:
        if connection_id is None:
            raise bad_field("connectionId", "is required")
        return {"table_path": (*_folders(body), table) if table else (), "raw": query}
    if body.has("uri"):
        return {"uri": readable(body.text("uri"), "uri")}
    if body.has("path"):
        return {"uri": _file(world, body, connection_id)}
    if values.get("dynamic_path"):
        return {"uri": readable(values["dynamic_path"], "dynamicPath")}
    raise bad_field("uri" if connection_id is None else "jdbcTable", "is required")


def changed_address_of(body: Body, record: ImportedDataset) -> dict[str, Any]:
    """Return what a change says about where a dataset's data lies; nothing where it says nothing.

    Raises:
        ApiError: 400, when a file is to become a table, or the reverse.
    """
    if body.has("path") or body.has("bucket"):
        if record.uri is None:
            raise bad_field("path" if body.has("path") else "bucket", "is of files only")
        return {"uri": _moved(record.uri, body)}
    table, query = _table(body), _query(body)
    folders = _folders(body)
    if not (table or query or folders):
        return {}
    if record.uri is not None:
        raise bad_field("raw" if query else "tableName", "is of tables only")
    if query:
        return {"raw": query, "table_path": ()}
    name = table or (record.table_path[-1] if record.table_path else "")
    if not name:
        raise bad_field("tableName", "is required")
    return {"raw": (), "table_path": (*(folders or record.table_path[:-1]), name)}


def readable(text: str, name: str) -> str:
    """Return an address that can be taken apart.

    Raises:
        ApiError: 400.
    """
    try:
        urlsplit(text)
    except ValueError as exc:
        raise bad_field(name, "must be an address") from exc
    return text


def _file(world: World, body: Body, connection_id: int | None) -> str:
    path = body.text("path").lstrip("/")
    connection = None if connection_id is None else world.connections.get(connection_id)
    if connection is not None:
        return readable(f"{connection.vendor}://{connection.host or ''}/{path}", "path")
    scheme = body.optional_text("type") or LOCAL
    bucket = body.optional_text("bucket") or ""
    return readable(f"{scheme}://{bucket}/{path}", "path")


def _moved(uri: str, body: Body) -> str:
    address = urlsplit(uri)
    bucket = body.optional_text("bucket") or address.netloc
    path = (body.optional_text("path") or address.path).lstrip("/")
    return readable(f"{address.scheme or LOCAL}://{bucket}/{path}", "path")


def _table(body: Body) -> str:
    return body.optional_text("jdbcTable") or body.optional_text("tableName") or ""


def _folders(body: Body) -> tuple[str, ...]:
    return _texts(body, "jdbcPath") or _texts(body, "relationalPath")


def _query(body: Body) -> tuple[str, ...]:
    return _texts(body, "raw") or _texts(body, "query")


def _texts(body: Body, name: str) -> tuple[str, ...]:
    """Return a text, or a list of them, as a tuple; empty where the field is absent."""
    if not body.has(name):
        return ()
    value = body.raw(name)
    several = [value] if isinstance(value, str) else value
    if not isinstance(several, list) or not all(isinstance(item, str) for item in several):
        raise bad_field(body.name_of(name), "must be a string or an array of strings")
    return tuple(several)
