"""The payloads of flows and of what stands in them."""

from __future__ import annotations

from monitor.sandbox.api.errors import Json
from monitor.sandbox.api.people.people import people_of
from monitor.sandbox.api.response.kinds import Association, Resource, View, named
from monitor.sandbox.api.response.rendering import NAMED, OWN, STAMPS, reference, stamp, stamps
from monitor.sandbox.world.lineage import FlowNode, nodes_of
from monitor.sandbox.world.records.objects import (
    Flow,
    ImportedDataset,
    Recipe,
    Record,
    WebhookFlowTask,
)
from monitor.sandbox.world.records.parts import DatasetNode, FlowEdge, Folder, ReferenceNode
from monitor.sandbox.world.shelves import WORKSPACE_ID

CLOUD_PROJECT = "sandbox"


def flow(view: View, flow: Flow) -> dict[str, Json]:
    del view
    return {
        **stamps(flow),
        "name": flow.name,
        "description": flow.description,
        "folder": reference(flow.folder_id),
        "defaultOutputDir": flow.default_output_dir,
        "settings": dict(flow.settings),
        "flowState": None,
        "workspace": reference(WORKSPACE_ID),
        "cpProject": CLOUD_PROJECT,
        "deleted_at": stamp(flow.deleted_at),
    }


def flow_node(view: View, flow_node: FlowNode) -> dict[str, Json]:
    """Return a node; that of a recipe has the recipe's id, a dataset's that of its parsing."""
    del view
    recipe_id = flow_node.id if isinstance(flow_node, Recipe) else None
    shown: dict[str, Json] = {
        **stamps(flow_node),
        "flow": reference(flow_node.flow_id),
        "recipe": reference(recipe_id),
        "wrangled": recipe_id is not None,
        "wrangledDataset": reference(recipe_id),
    }
    if isinstance(flow_node, DatasetNode):
        shown["recipe"] = shown["importedDataset"] = reference(flow_node.dataset_id)
    if isinstance(flow_node, ReferenceNode):
        shown["referencedFlowNode"] = reference(flow_node.recipe_id)
    return shown


def flow_of(view: View, flow_node: FlowNode | WebhookFlowTask) -> Flow | None:
    return view.world.flows.get(flow_node.flow_id, with_deleted=True)


def _dataset_of(view: View, flow_node: FlowNode) -> ImportedDataset | None:
    if not isinstance(flow_node, DatasetNode):
        return None
    return view.world.imported_datasets.get(flow_node.dataset_id)


FLOW = Association("flow", flow_of, target="flows")
NOTHING: tuple[Record, ...] = ()

FLOW_RESOURCES: dict[str, Resource] = {
    "flows": Resource(
        plural="flows",
        render=flow,
        columns={
            **NAMED,
            "description": lambda _, record: record.description,
            "defaultOutputDir": lambda _, record: record.default_output_dir,
        },
        associations=named(
            *OWN,
            Association(
                "folder",
                lambda view, record: (
                    None
                    if record.folder_id is None
                    else view.world.shelf(Folder).get(record.folder_id)
                ),
                target="folders",
            ),
            Association("snapshots", lambda _view, _one: NOTHING, target="flownodes", many=True),
            Association(
                "flowNodes", lambda view, record: nodes_of(view.world, record.id), many=True
            ),
            Association(
                "flowEdges",
                lambda view, record: [
                    edge for edge in view.world.shelf(FlowEdge).live() if edge.flow_id == record.id
                ],
                many=True,
            ),
            Association(
                "webhookFlowTasks",
                lambda view, record: view.world.webhook_tasks_of(record.id),
                many=True,
            ),
            Association("associatedPeople", people_of, target="people", many=True),
        ),
    ),
    "flownodes": Resource(
        plural="flownodes",
        render=flow_node,
        columns=STAMPS,
        associations=named(
            *OWN,
            FLOW,
            Association(
                "recipe",
                lambda view, record: (
                    record if isinstance(record, Recipe) else _dataset_of(view, record)
                ),
                target="recipes",
            ),
            Association("importedDataset", _dataset_of, target="importeddatasets"),
        ),
    ),
}
