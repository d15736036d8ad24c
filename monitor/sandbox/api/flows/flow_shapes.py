"""The payloads of flows and of what stands in them."""

from __future__ import annotations

from monitor.sandbox.api.errors import Json
from monitor.sandbox.api.people.person_shapes import people_of
from monitor.sandbox.api.response.kinds import Association, Resource, View
from monitor.sandbox.api.response.rendering import NAMED, OWN, STAMPS, reference, stamp, stamps
from monitor.sandbox.world.lineage import FlowNode, nodes_of
from monitor.sandbox.world.records.objects import Flow, Recipe, Record, WebhookFlowTask
from monitor.sandbox.world.records.parts import DatasetNode, Folder, ReferenceNode
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
    """Return a node; that of a recipe has the recipe's id."""
    del view
    recipe_id = flow_node.id if isinstance(flow_node, Recipe) else None
    shown: dict[str, Json] = {
        **stamps(flow_node),
        "flow": reference(flow_node.flow_id),
        "recipe": reference(recipe_id),
        "wrangledDataset": reference(recipe_id),
    }
    if isinstance(flow_node, DatasetNode):
        shown["importedDataset"] = reference(flow_node.dataset_id)
    if isinstance(flow_node, ReferenceNode):
        shown["referencedFlowNode"] = reference(flow_node.recipe_id)
    return shown


def flow_of(view: View, flow_node: FlowNode | WebhookFlowTask) -> Flow | None:
    return view.world.flows.get(flow_node.flow_id, with_deleted=True)


FLOW = Association(key="flow", target="flows", find=flow_of)
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
        associations={
            **OWN,
            "folder": Association(
                key="folder",
                target="folders",
                find=lambda view, record: (
                    None
                    if record.folder_id is None
                    else view.world.shelf(Folder).get(record.folder_id)
                ),
            ),
            "snapshots": Association(
                key="snapshots", target="flownodes", find=lambda _view, _one: NOTHING, many=True
            ),
            "flownodes": Association(
                key="flowNodes",
                target="flownodes",
                find=lambda view, record: nodes_of(view.world, record.id),
                many=True,
            ),
            "webhookflowtasks": Association(
                key="webhookFlowTasks",
                target="webhookflowtasks",
                find=lambda view, record: view.world.webhook_tasks_of(record.id),
                many=True,
            ),
            "associatedpeople": Association(
                key="associatedPeople", target="people", find=people_of, many=True
            ),
        },
    ),
    "flownodes": Resource(
        plural="flownodes",
        render=flow_node,
        columns=STAMPS,
        associations={
            **OWN,
            "flow": FLOW,
            "recipe": Association(
                key="recipe",
                target="recipes",
                find=lambda _, record: record if isinstance(record, Recipe) else None,
            ),
            "importeddataset": Association(
                key="importedDataset",
                target="importeddatasets",
                find=lambda view, record: (
                    view.world.imported_datasets.get(record.dataset_id)
                    if isinstance(record, DatasetNode)
                    else None
                ),
            ),
        },
    ),
}
