"""A flow that has one of everything that a flow can have."""

from __future__ import annotations

from monitor.sandbox.world.records.objects import (
    Connection,
    Flow,
    ImportedDataset,
    Recipe,
    WebhookFlowTask,
)
from monitor.sandbox.world.records.parts import (
    DatasetNode,
    FlowEdge,
    FlowNotificationSettings,
    FlowRunParameterOverride,
    ReferenceNode,
    SqlScript,
    UserDefinedFunction,
)
from tests.sandbox.http_workspace import Workspace

IMPORT, DRY_RUN = "/v4/flows/package", "/v4/flows/package/dryRun"


def furnish(workspace: Workspace) -> None:
    """Let the workspace's first flow have one of everything."""
    world, things = workspace.world, workspace.things
    me, orders = things.owner.id, things.orders
    for place, connection in enumerate(world.connections):
        connection.uuid = f"00000000-0000-4000-8000-00000000000{place}"
    secret = world.create(
        Connection,
        by=me,
        name="lake",
        uuid="lake",
        vendor="s3",
        vendor_name="S3",
        credentials=({"username": "me", "password": "hidden away"},),
    )
    table = world.create(
        ImportedDataset, by=me, name="prices", connection_id=secret.id, table_path=("p", "q")
    )
    function = world.create(UserDefinedFunction, by=me, name="vat")
    upstream = world.create(Flow, by=me, name="Upstream")
    source = world.create(Recipe, by=me, flow_id=upstream.id, name="Source")
    world.create(ReferenceNode, by=me, flow_id=orders.id, recipe_id=source.id)
    node = world.create(DatasetNode, by=me, flow_id=orders.id, dataset_id=table.id)
    world.update(things.totals, dataset_ids=(table.id,), function_ids=(function.id,))
    output = world.outputs_of(things.clean.id)[0]
    world.create(
        SqlScript, by=me, output_object_id=output.id, sql_script="x", type="pre", vendor="v"
    )
    world.create(
        WebhookFlowTask,
        by=me,
        flow_id=orders.id,
        name="tell",
        url="http://127.0.0.1:1/hook",
        trigger_object="some",
        flow_node_ids=(things.totals.id,),
        headers={"x-key": "k"},
        secret_key="s",
    )
    world.create(
        FlowEdge,
        by=me,
        flow_id=orders.id,
        input_node_id=node.id,
        output_node_id=things.totals.id,
    )
    world.create(
        FlowRunParameterOverride, by=me, flow_id=orders.id, override_key="region", value="north"
    )
    world.create(
        FlowNotificationSettings,
        by=me,
        flow_id=orders.id,
        on_job_failure="all",
        on_job_success="never",
    )
    world.update(orders, shared_with=frozenset({things.colleague.id}), description="all of it")


def package_path(workspace: Workspace) -> str:
    """Return where that flow is exported."""
    return f"/v4/flows/{workspace.things.orders.id}/package"
