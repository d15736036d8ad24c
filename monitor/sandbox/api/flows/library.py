"""The library of flows: flows and folders in one list."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import chain
from typing import Any

from monitor.sandbox.api.calls import Call, Handlers, Reply
from monitor.sandbox.api.crud.handlers import found, rows_of
from monitor.sandbox.api.crud.rights import sees
from monitor.sandbox.api.errors import Json
from monitor.sandbox.api.flows.flows import FLOW, FOLDER
from monitor.sandbox.api.models.models import models
from monitor.sandbox.api.request.parameters import boolean
from monitor.sandbox.api.response.kinds import Association, Resource, View, named
from monitor.sandbox.api.response.rendering import NAMED, OWN, linking, stamp
from monitor.sandbox.world.lineage import inputs_of
from monitor.sandbox.world.records.objects import Flow
from monitor.sandbox.world.records.parts import Folder

ROWS = "flowslibraryrows"


def library_row(view: View, record: Flow | Folder) -> dict[str, Json]:
    """Return a flow or a folder, and which of them it is; a folder lacks what only flows have."""
    if isinstance(record, Flow):
        return {**view.table["flows"].render(view, record), "type": "flow"}
    return {
        **dict.fromkeys((*models()["Flow"], *FLOW.constants)),
        **view.table["folders"].render(view, record),
        "deleted_at": stamp(record.deleted_at),
        "type": "folder",
    }


def _of(kind: type[Flow | Folder], association: Association) -> Association:
    """Return an association that only rows of one kind have something for."""

    def find(view: View, record: Any) -> Any:
        if isinstance(record, kind):
            return association.find(view, record)
        return () if association.many else None

    return Association(association.key, find, target=association.target, many=association.many)


LIBRARY_ROWS = Resource(
    plural="flowslibrary",
    render=library_row,
    columns={
        **NAMED,
        "description": lambda _, record: record.description,
        "type": lambda _, record: "flow" if isinstance(record, Flow) else "folder",
    },
    associations=named(
        *(_of(Folder, association) for association in FOLDER.associations.values()),
        _of(Flow, linking("folder", FLOW.references[0], "folders")),
        *(_of(Flow, association) for association in FLOW.associations.values()),
        *OWN,
    ),
)


def _library(call: Call) -> Iterator[Flow | Folder]:
    """Give a person's folders, where they are not left out, and then the flows."""
    query = call.list_query()
    leaves_out = "excludeFolders" in call.operation.query and boolean(call.query, "excludeFolders")
    folders = (
        folder
        for folder in call.world.shelf(Folder).newest()
        if not leaves_out
        and query.scope != "shared"
        and (query.include_deleted or folder.deleted_at is None)
        and sees(call.view, folder)
    )
    flows: Iterable[Flow] = rows_of(call, FLOW)
    return chain(folders, flows)


def list_library(call: Call) -> Reply:
    """List flows and folders together; each row has its ``type``."""
    reply = call.list(ROWS, _library(call))
    if call.list_query().include_count:
        return Reply(body={**reply.body, "count": _counts(call)})
    return reply


def count_library(call: Call) -> Reply:
    """Count what the library lists, by kind and by whose it is."""
    return Reply(body={"count": _counts(call)})


def _counts(call: Call) -> dict[str, Json]:
    rows = list(call.admitted(ROWS, _library(call)))
    flows = [row for row in rows if isinstance(row, Flow)]
    owned = sum(flow.creator_id == call.person.id for flow in flows)
    return {
        "all": len(rows),
        "flows": len(flows),
        "owned": owned,
        "shared": len(flows) - owned,
        "folders": len(rows) - len(flows),
    }


def _in_folder(call: Call) -> Iterable[Flow]:
    folder = found(call, FOLDER)
    return (row for row in rows_of(call, FLOW) if row.folder_id == folder.id)


def list_flows_in_folder(call: Call) -> Reply:
    """List the flows in a folder."""
    return call.list(FLOW.plural, _in_folder(call))


def count_flows_in_folder(call: Call) -> Reply:
    """Count the flows in a folder."""
    return call.count(FLOW.plural, _in_folder(call))


def get_inputs(call: Call) -> Reply:
    """List the imported datasets that a flow reads or holds."""
    return call.list("importeddatasets", inputs_of(call.world, found(call, FLOW).id)[::-1])


def get_outputs(call: Call) -> Reply:
    """List the output objects of a flow's recipes."""
    flow = found(call, FLOW)
    recipes = {recipe.id for recipe in call.world.recipes_of(flow.id)}
    outputs = [
        output_object_
        for output_object_ in call.world.output_objects.live()
        if output_object_.recipe_id in recipes
    ]
    return call.list("outputobjects", outputs[::-1], filter_fields=("id",))


HANDLERS: Handlers = {
    "listFlowsLibrary": list_library,
    "countFlowsLibrary": count_library,
    "getFlowsForFolder": list_flows_in_folder,
    "getFlowCountForFolder": count_flows_in_folder,
    "getFlowInputs": get_inputs,
    "getFlowOutputs": get_outputs,
}
