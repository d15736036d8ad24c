"""Flows: made, listed, read, changed, copied and deleted. Their runs are in `runs.flow_runs`."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from monitor.sandbox.api.calls import Call, Handlers, Reply
from monitor.sandbox.api.crud.handlers import Hooks, answer, crud, found
from monitor.sandbox.api.errors import bad_field, forbidden
from monitor.sandbox.api.flows.flow_kinds import FLOW
from monitor.sandbox.api.packages.graph import graph_of, key_of, plant
from monitor.sandbox.api.request.bodies import Body
from monitor.sandbox.api.request.parameters import integer
from monitor.sandbox.world.records.objects import Flow, ImportedDataset, WebhookFlowTask
from monitor.sandbox.world.records.parts import Folder
from monitor.sandbox.world.shelves import World

UNTITLED = "Untitled flow"


def _prepare(call: Call, record: Flow | None, values: dict[str, Any]) -> dict[str, Any]:
    """Give a new flow a name, and one that its owner's other flows do not have, if requested."""
    if record is not None:
        if values.get("name") == "":
            raise bad_field("name", "is not allowed to be empty")
        return values
    name = values.get("name") or UNTITLED
    if Body(call.body).boolean("incrementName"):
        name = free_name(call.world, name, owner_id=call.person.id)
    return {**values, "name": name}


def free_name(world: World, name: str, *, owner_id: int) -> str:
    """Return a name, with the first number behind it by which no flow of the owner has it."""
    taken = {flow.name for flow in world.flows.live() if flow.creator_id == owner_id}
    number, found_name = 0, name
    while found_name in taken:
        number += 1
        found_name = f"{name} ({number})"
    return found_name


def _in_folder(call: Call, rows: Iterable[Flow]) -> Iterable[Flow]:
    folder_id = integer(call.query, "folderId", 0)
    return (row for row in rows if not folder_id or row.folder_id == folder_id)


def copy_flow(call: Call) -> Reply:
    """Copy a flow with all that is in it, except webhooks; its data too, if requested."""
    flow = found(call, FLOW)
    if not call.view.may_see(flow):
        raise forbidden(f"You may not copy flow {flow.id}")
    body = Body(call.body)
    graph = graph_of(call.view, flow, leave_out=(WebhookFlowTask,))
    copies_data = body.boolean("copyDatasources")
    data = [item for item in graph.used if copies_data and isinstance(item, ImportedDataset)]
    folder = None if flow.folder_id is None else call.world.shelf(Folder).get(flow.folder_id)
    is_own_folder = folder is not None and folder.creator_id == call.person.id
    changes = {
        "name": body.optional_text("name") or f"Copy of {flow.name}",
        "description": body.optional_text("description") or flow.description,
        "folder_id": flow.folder_id if is_own_folder else None,
    }
    made = plant(
        call.view, [*graph.parts, *data], by=call.person.id, changes={key_of(flow): changes}
    )
    copy = made[key_of(flow)]
    if not isinstance(copy, Flow):
        raise TypeError(f"a flow was copied to {type(copy).__name__}")
    return answer(call, FLOW, copy)


HANDLERS: Handlers = {
    **crud(
        FLOW,
        create="createFlow",
        listed="listFlows",
        counted="countFlows",
        read="getFlow",
        changed=("patchFlow",),
        deleted="deleteFlow",
        hooks=Hooks(prepare=_prepare, narrow=_in_folder),
    ),
    "copyFlow": copy_flow,
}
