"""Imported datasets, and the addresses of their data."""

from __future__ import annotations

import dataclasses
from collections.abc import Collection, Mapping
from typing import Any
from urllib.parse import urlsplit

from monitor.sandbox.api.calls import Call, Handlers, Reply
from monitor.sandbox.api.crud.handlers import Hooks, answer, create_record, crud, found
from monitor.sandbox.api.crud.rights import require_right
from monitor.sandbox.api.crud.values import linked
from monitor.sandbox.api.data.dataset_kinds import DATASET_NODE, IMPORTED_DATASET
from monitor.sandbox.api.errors import Json, bad_field
from monitor.sandbox.api.models.models import models, request_of, status_of
from monitor.sandbox.api.outputs.output_objects import validated
from monitor.sandbox.api.request.bodies import Body
from monitor.sandbox.api.request.parameters import boolean
from monitor.sandbox.world.lineage import flow_ids_with
from monitor.sandbox.world.records.objects import ImportedDataset, Record
from monitor.sandbox.world.records.parts import DatasetNode, ResourceTask
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


FLOW_LINK = next(
    reference for reference in DATASET_NODE.references if reference.attribute == "flow_id"
)


def _prepare(call: Call, record: ImportedDataset | None, values: dict[str, Any]) -> dict[str, Any]:
    # Only what this operation takes: a patch does not move data.
    body = Body({name: item for name, item in (call.body or {}).items() if name in _taken(call)})
    validated(values)
    if record is None:
        return {**values, **address_of(call.world, body, values)}
    if body.has("id") and body.integer("id") != record.id:
        raise bad_field("id", f"must be {record.id}, as in the path")
    return {**values, **changed_address_of(body, record)}


def _taken(call: Call) -> Collection[str]:
    return models()[request_of(call.operation) or ""]


def get_imported_dataset(call: Call) -> Reply:
    """Read an imported dataset, and on demand who has access to it."""
    one = found(call, IMPORTED_DATASET)
    extra = {}
    if boolean(call.query.only(call.operation.query), "includeAssociatedSubjects"):
        extra["associatedSubjects"] = subjects_of(call, one)
    return call.show(IMPORTED_DATASET.plural, one, extra=extra)


def subjects_of(call: Call, imported_dataset: ImportedDataset) -> Json:
    """Return the people who find a dataset: its owner, then those who see flows that read it."""
    flow_ids = flow_ids_with(call.world, imported_dataset.id)
    flows = [flow for flow in call.world.flows.live() if flow.id in flow_ids]
    others = {person for flow in flows for person in (flow.creator_id, *flow.shared_with)}
    return [
        {"subjectId": person_id, "subjectType": "person", "role": role}
        for person_id, role in [
            (imported_dataset.creator_id, "owner"),
            *(
                (person_id, "readOnly")
                for person_id in sorted(others - {imported_dataset.creator_id})
            ),
        ]
    ]


def add_to_flow(call: Call) -> Reply:
    """Put a dataset into a flow; one that is there already keeps its place."""
    one = found(call, IMPORTED_DATASET)
    flow_id = linked(call, FLOW_LINK, Body(call.body).raw("flow"), "flow.id")
    flow = call.world.flows.get(flow_id)
    if flow is not None:
        require_right(call, flow)
    nodes = call.world.shelf(DatasetNode).live()
    there = (node for node in nodes if (node.flow_id, node.dataset_id) == (flow_id, one.id))
    node = next(there, None) or create_record(
        call, DATASET_NODE, {"flow_id": flow_id, "dataset_id": one.id}
    )
    return answer(call, DATASET_NODE, node)


def copy_data_source(call: Call) -> Reply:
    """Make a dataset of the same data that is the caller's own."""
    one = found(call, IMPORTED_DATASET)
    body = Body({} if call.body is None else call.body)
    own = {field.name for field in dataclasses.fields(Record)}
    values = {
        field.name: getattr(one, field.name)
        for field in dataclasses.fields(one)
        if field.name not in own
    }
    values["name"] = body.optional_text("name") or f"Copy of {one.name}"
    made = create_record(call, IMPORTED_DATASET, values)
    return Reply(status=status_of(call.operation), body=call.show("datasources", made).body)


def refresh_schema(call: Call) -> Reply:
    """Request a dataset's present columns; nothing runs that anybody would wait for."""
    one = found(call, IMPORTED_DATASET)
    require_right(call, one)
    boolean(call.query.only(call.operation.query), "sanitizeColumnNames")
    if call.body is not None:
        Body(call.body)
    call.world.update(one, by=call.person.id)
    task = call.world.create(ResourceTask, by=call.person.id, dataset_id=one.id)
    return Reply(status=status_of(call.operation), body={"resourceTaskStateId": task.id})


HOOKS: Hooks[ImportedDataset] = Hooks(prepare=_prepare)


HANDLERS: Handlers = {
    **crud(IMPORTED_DATASET, HOOKS),
    "getImportedDataset": get_imported_dataset,
    "addImportedDatasetToFlow": add_to_flow,
    "copyDataSource": copy_data_source,
    "asyncRefreshSchema": refresh_schema,
}
