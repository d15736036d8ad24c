"""What belongs to a flow, as data: edges, parameters, notifications, and who it is shared with."""

from __future__ import annotations

from monitor.sandbox.api.response.kinds import Association, Kind, Reference, Visibility
from monitor.sandbox.world.lineage import node_of
from monitor.sandbox.world.records.objects import Flow, Recipe, Record
from monitor.sandbox.world.records.parts import (
    DatasetNode,
    FlowEdge,
    FlowNotificationSettings,
    FlowRunParameterOverride,
    ReferenceNode,
)

_OF_FLOW = Reference(attribute="flow_id", target=Flow, shown="flow", sent="flowId")
_NODES: tuple[type[Record], ...] = (Recipe, DatasetNode, ReferenceNode)

PARAMETER_OVERRIDE: Kind[FlowRunParameterOverride] = Kind(
    record=FlowRunParameterOverride,
    name="flowRunParameterOverride",
    plural="flowrunparameteroverrides",
    model="FlowRunParameterOverride",
    requests=("FlowRunParameterOverrideCreateRequest", "FlowRunParameterOverrideUpdateRequest"),
    references=(_OF_FLOW,),
    home="flow_id",
    visibility=Visibility.HOME,
    filter_fields=("overrideKey",),
)

NOTIFICATION_SETTINGS: Kind[FlowNotificationSettings] = Kind(
    record=FlowNotificationSettings,
    name="flowNotificationSettings",
    plural="flownotificationsettings",
    model="FlowNotificationSettings",
    requests=("FlowNotificationSettingsCreateRequest",),
    references=(_OF_FLOW,),
    home="flow_id",
    visibility=Visibility.HOME,
    filter_fields=("id",),
)

EDGE: Kind[FlowEdge] = Kind(
    record=FlowEdge,
    name="flowEdge",
    plural="flowedges",
    model="FlowEdge",
    references=(
        Reference(attribute="flow_id", target=Flow, shown="flow"),
        *(Reference(attribute="input_node_id", target=node) for node in _NODES),
        *(Reference(attribute="output_node_id", target=node) for node in _NODES),
    ),
    home="flow_id",
    visibility=Visibility.HOME,
    computed={
        "inputFlowNode": lambda _, record: {"id": record.input_node_id},
        "outputFlowNode": lambda _, record: {"id": record.output_node_id},
    },
    associations={
        "inputflownode": Association(
            key="inputFlowNode",
            target="flownodes",
            find=lambda view, record: node_of(view.world, record.input_node_id),
        ),
        "outputflownode": Association(
            key="outputFlowNode",
            target="flownodes",
            find=lambda view, record: node_of(view.world, record.output_node_id),
        ),
    },
    filter_fields=("id",),
)
