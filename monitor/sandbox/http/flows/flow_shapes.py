"""The payloads of flows and of what stands in them."""

from __future__ import annotations

from monitor.sandbox.http.errors import Json
from monitor.sandbox.http.flows.nodes import FlowNode, nodes_of
from monitor.sandbox.http.kinds.shapes import NAMED, OWN, STAMPS, stamps
from monitor.sandbox.http.people.person_shapes import people_of
from monitor.sandbox.http.showing.rendering import Association, Resource, View, reference, stamp
from monitor.sandbox.records.data import DatasetNode, ReferenceNode
from monitor.sandbox.records.flows import Folder
from monitor.sandbox.records.objects import Flow, Recipe, Record, WebhookFlowTask
from monitor.sandbox.world import WORKSPACE_ID

CLOUD_PROJECT = "sandbox"


def flow(view: View, one: Flow) -> dict[str, Json]:
    del view
    return {
        **stamps(one),
        "name": one.name,
        "description": one.description,
        "folder": reference(one.folder_id),
        "defaultOutputDir": one.default_output_dir,
        "settings": dict(one.settings),
        "flowState": None,
        "workspace": reference(WORKSPACE_ID),
        "cpProject": CLOUD_PROJECT,
        "deleted_at": stamp(one.deleted_at),
    }


def flow_node(view: View, one: FlowNode) -> dict[str, Json]:
    """Return a node; that of a recipe has the recipe's id."""
    del view
    recipe_id = one.id if isinstance(one, Recipe) else None
    shown: dict[str, Json] = {
        **stamps(one),
        "flow": reference(one.flow_id),
        "recipe": reference(recipe_id),
        "wrangledDataset": reference(recipe_id),
    }
    if isinstance(one, DatasetNode):
        shown["importedDataset"] = reference(one.dataset_id)
    if isinstance(one, ReferenceNode):
        shown["referencedFlowNode"] = reference(one.recipe_id)
    return shown


def flow_of(view: View, one: FlowNode | WebhookFlowTask) -> Flow | None:
    return view.world.flows.get(one.flow_id, with_deleted=True)


FLOW = Association(key="flow", target="flows", find=flow_of)
NOTHING: tuple[Record, ...] = ()

FLOW_RESOURCES: dict[str, Resource] = {
    "flows": Resource(
        plural="flows",
        render=flow,
        columns={
            **NAMED,
            "description": lambda _, one: one.description,
            "defaultOutputDir": lambda _, one: one.default_output_dir,
        },
        associations={
            **OWN,
            "folder": Association(
                key="folder",
                target="folders",
                find=lambda view, one: (
                    None if one.folder_id is None else view.world.shelf(Folder).get(one.folder_id)
                ),
            ),
            "snapshots": Association(
                key="snapshots", target="flownodes", find=lambda _view, _one: NOTHING, many=True
            ),
            "flownodes": Association(
                key="flowNodes",
                target="flownodes",
                find=lambda view, one: nodes_of(view.world, one.id),
                many=True,
            ),
            "webhookflowtasks": Association(
                key="webhookFlowTasks",
                target="webhookflowtasks",
                find=lambda view, one: view.world.webhook_tasks_of(one.id),
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
                find=lambda _, one: one if isinstance(one, Recipe) else None,
            ),
            "importeddataset": Association(
                key="importedDataset",
                target="importeddatasets",
                find=lambda view, one: (
                    view.world.imported_datasets.get(one.dataset_id)
                    if isinstance(one, DatasetNode)
                    else None
                ),
            ),
        },
    ),
}
