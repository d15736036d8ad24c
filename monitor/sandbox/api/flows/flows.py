"""Flows and folders, who works on a flow, and the settings of its runs."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from monitor.sandbox.api.calls import Call, Handlers, Reply
from monitor.sandbox.api.crud.handlers import (
    Hooks,
    answer,
    create_record,
    crud,
    found,
    require_right_around,
)
from monitor.sandbox.api.crud.rights import share, subjects
from monitor.sandbox.api.crud.values import values_of
from monitor.sandbox.api.errors import Json, bad_field, forbidden
from monitor.sandbox.api.models.models import status_of
from monitor.sandbox.api.packages.graph import graph_of, key_of, plant
from monitor.sandbox.api.people.people import people_of
from monitor.sandbox.api.request.bodies import Body
from monitor.sandbox.api.request.parameters import integer
from monitor.sandbox.api.response.kinds import (
    Association,
    Kind,
    OnDelete,
    Reference,
    named,
    role_of,
)
from monitor.sandbox.api.response.rendering import reference, stamp
from monitor.sandbox.world.lineage import nodes_of
from monitor.sandbox.world.records.objects import Flow, ImportedDataset, Record, WebhookFlowTask
from monitor.sandbox.world.records.parts import (
    FlowEdge,
    FlowNotificationSettings,
    FlowRunParameterOverride,
    Folder,
)
from monitor.sandbox.world.shelves import WORKSPACE_ID, World

CLOUD_PROJECT = "sandbox"
NOTHING: tuple[Record, ...] = ()

FOLDER: Kind[Folder] = Kind(
    record=Folder,
    constants={"workspace": {"id": WORKSPACE_ID}},
    associations=named(
        Association(
            "flows",
            lambda view, record: [
                flow
                for flow in view.world.flows.live()
                if flow.folder_id == record.id and view.may_see(flow)
            ],
            many=True,
        )
    ),
)

FLOW: Kind[Flow] = Kind(
    record=Flow,
    references=(
        Reference("folder_id", Folder, shown="folder", sent="folderId", on_delete=OnDelete.CLEAR),
    ),
    unshown=frozenset({"type"}),  # only in the library
    unkept=frozenset({"incrementName"}),
    constants={
        "flowState": None,
        "workspace": reference(WORKSPACE_ID),
        "cpProject": CLOUD_PROJECT,
    },
    associations=named(
        Association("snapshots", lambda _view, _one: NOTHING, target="flownodes", many=True),
        Association("flowNodes", lambda view, record: nodes_of(view.world, record.id), many=True),
        Association(
            "flowEdges",
            lambda view, record: view.world.shelf(FlowEdge).having("flow_id", record.id),
            many=True,
        ),
        Association(
            "webhookFlowTasks",
            lambda view, record: view.world.webhook_tasks_of(record.id),
            many=True,
        ),
        Association("associatedPeople", people_of, target="people", many=True),
    ),
)


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
    """Return a name, with the first number after it by which no flow of the owner has it."""
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


def share_flow(call: Call) -> Reply:
    """Let people work on a flow, or only view it; the answer lists everybody who has access."""
    flow = found(call, FLOW)
    share(call, flow, subjects(call))
    permissions: list[Json] = [
        {
            "role": role_of(flow, person.id),
            "person": reference(person.id),
            "flow": reference(flow.id),
            "createdAt": stamp(flow.created_at),
            "updatedAt": stamp(flow.updated_at),
        }
        for person in people_of(call.view, flow)
    ]
    return Reply(
        status=status_of(call.operation), body={"data": permissions, "count": len(permissions)}
    )


_OF_FLOW = Reference("flow_id", Flow, shown="flow", sent="flowId")

PARAMETER_OVERRIDE: Kind[FlowRunParameterOverride] = Kind(
    record=FlowRunParameterOverride,
    references=(_OF_FLOW,),
    home="flow_id",
    filter_fields=("overrideKey",),
)

NOTIFICATION_SETTINGS: Kind[FlowNotificationSettings] = Kind(
    record=FlowNotificationSettings,
    plural="flownotificationsettings",
    references=(_OF_FLOW,),
    home="flow_id",
    filter_fields=("id",),
)


def _prepare_override(
    call: Call, record: FlowRunParameterOverride | None, values: dict[str, Any]
) -> dict[str, Any]:
    """Let each key stand once in a flow."""
    flow_id = values.get("flow_id") if record is None else record.flow_id
    for other in call.world.shelf(FlowRunParameterOverride).having("flow_id", flow_id):
        if other is not record and other.override_key == values.get("override_key"):
            raise bad_field("overrideKey", f"is overridden in flow {flow_id} already")
    return values


def create_override(call: Call) -> Reply:
    """Give a parameter a value in all runs of a flow."""
    values = values_of(call, PARAMETER_OVERRIDE, "FlowRunParameterOverrideCreateRequest")
    require_right_around(call, PARAMETER_OVERRIDE, values)
    record = create_record(call, PARAMETER_OVERRIDE, _prepare_override(call, None, values))
    return answer(call, PARAMETER_OVERRIDE, record, extra={"flowId": record.flow_id})


def create_notification_settings(call: Call) -> Reply:
    """Set when a flow's people are notified; replaces the settings that a flow has."""
    values = values_of(call, NOTIFICATION_SETTINGS, "FlowNotificationSettingsCreateRequest")
    require_right_around(call, NOTIFICATION_SETTINGS, values)
    for settings in call.world.shelf(FlowNotificationSettings).having("flow_id", values["flow_id"]):
        call.world.update(settings, by=call.person.id, **values)
        return answer(call, NOTIFICATION_SETTINGS, settings)
    return answer(call, NOTIFICATION_SETTINGS, create_record(call, NOTIFICATION_SETTINGS, values))


_HOOKS: Hooks[FlowRunParameterOverride] = Hooks(prepare=_prepare_override)


HANDLERS: Handlers = {
    **crud(FLOW, Hooks(prepare=_prepare, narrow=_in_folder)),
    "copyFlow": copy_flow,
    **crud(FOLDER),
    "shareFlow": share_flow,
    **crud(PARAMETER_OVERRIDE, _HOOKS),
    "createFlowRunParameterOverride": create_override,
    "createFlowNotificationSettings": create_notification_settings,
}
