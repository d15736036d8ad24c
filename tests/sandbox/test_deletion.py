"""Tests of what becomes of the records around one that is deleted, row by row."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from monitor.sandbox.world.records.objects import (
    Connection,
    ImportedDataset,
    OutputObject,
    PlanNode,
    Publication,
    Recipe,
    Record,
    WebhookFlowTask,
    WriteSetting,
)
from monitor.sandbox.world.records.parts import DatasetNode, FlowEdge
from tests.sandbox.http_workspace import ADMIN_TOKEN, Workspace, open_workspace


@pytest.fixture
async def workspace() -> AsyncIterator[Workspace]:
    async with open_workspace() as found:
        found.token = ADMIN_TOKEN
        yield found


async def delete(workspace: Workspace, path: str, record: Record) -> None:
    answer = await workspace.request("DELETE", f"/v4/{path}/{record.id}")
    assert answer.status == 204, answer.content


def is_gone(*records: Record) -> list[bool]:
    return [record.deleted_at is not None for record in records]


async def test_deleting_a_recipe_deletes_its_outputs_and_edges(workspace: Workspace) -> None:
    """Outputs, what they write, and edges go; a reader of the recipe's result loses the link."""
    world, things = workspace.world, workspace.things
    by = things.owner.id
    output = world.create(OutputObject, by=by, recipe_id=things.clean.id)
    setting = world.create(WriteSetting, by=by, output_object_id=output.id, path="gs://a/b.csv")
    edge = world.create(
        FlowEdge,
        by=by,
        flow_id=things.orders.id,
        input_node_id=things.clean.id,
        output_node_id=things.totals.id,
    )
    task = world.create(
        WebhookFlowTask,
        by=by,
        flow_id=things.orders.id,
        name="Tell",
        url="http://a.b",
        flow_node_ids=(things.clean.id, things.totals.id),
    )
    node = world.create(
        PlanNode,
        by=by,
        plan_id=things.nightly.id,
        handle="zz",
        name="Clean",
        task_type="flow",
        flow_id=things.orders.id,
        flow_node_ids=(things.clean.id,),
    )
    run = workspace.job_group(things.clean)

    await delete(workspace, "wrangledDatasets", things.clean)

    assert is_gone(output, setting, edge) == [True, True, True]
    assert is_gone(things.totals, task, node, run, things.orders) == [False] * 5
    assert things.totals.upstream_ids == ()
    assert task.flow_node_ids == (things.totals.id,)
    assert node.flow_node_ids == ()


async def test_deleting_an_output_deletes_what_it_writes(workspace: Workspace) -> None:
    """Write settings and publications go with their output object."""
    world, things = workspace.world, workspace.things
    output = world.create(OutputObject, by=things.owner.id, recipe_id=things.clean.id)
    setting = world.create(
        WriteSetting, by=things.owner.id, output_object_id=output.id, path="gs://a/b.csv"
    )
    await delete(workspace, "outputObjects", output)
    assert is_gone(output, setting, things.clean) == [True, True, False]


async def test_a_dataset_that_is_read_stays(workspace: Workspace) -> None:
    """Recipes protect a dataset from deletion; its links to flows go with it."""
    world, things = workspace.world, workspace.things
    read = world.imported_datasets.get(things.clean.dataset_ids[0])
    assert read is not None
    refused = await workspace.request("DELETE", f"/v4/importedDatasets/{read.id}")
    assert refused.is_refused(400, "ValidationFailed", f"wrangledDataset {things.clean.id}")
    assert is_gone(read) == [False]

    unread = world.create(ImportedDataset, by=things.owner.id, name="b.csv", uri="gs://a/b.csv")
    node = world.create(
        DatasetNode, by=things.owner.id, flow_id=things.orders.id, dataset_id=unread.id
    )
    await delete(workspace, "importedDatasets", unread)
    assert is_gone(unread, node) == [True, True]


async def test_a_connection_in_use_stays(workspace: Workspace) -> None:
    """Datasets and publications protect a connection; without them it can be deleted."""
    world, things = workspace.world, workspace.things
    by = things.owner.id
    connection = world.create(
        Connection, by=by, name="Sales", uuid="u", vendor="postgres", vendor_name="PostgreSQL"
    )
    output = world.create(OutputObject, by=by, recipe_id=things.clean.id)
    holders = [
        world.create(ImportedDataset, by=by, name="t", connection_id=connection.id),
        world.create(
            Publication,
            by=by,
            output_object_id=output.id,
            connection_id=connection.id,
            path=("public",),
            table_name="t",
            target_type="postgres",
        ),
    ]
    for holder in holders:
        refused = await workspace.request("DELETE", f"/v4/connections/{connection.id}")
        assert refused.is_refused(400, "ValidationFailed", str(holder.id))
        world.delete(holder)
    await delete(workspace, "connections", connection)
    assert is_gone(connection) == [True]


async def test_a_flow_goes_though_its_own_parts_hold_each_other(workspace: Workspace) -> None:
    """Objects that are deleted together hold nothing; recipes of other flows lose their input."""
    world, things = workspace.world, workspace.things
    reader = world.create(
        Recipe,
        by=things.colleague.id,
        flow_id=things.stock.id,
        name="Reader",
        upstream_ids=(things.totals.id,),
    )
    await delete(workspace, "flows", things.orders)
    assert is_gone(things.clean, things.totals, reader) == [True, True, False]
    assert reader.upstream_ids == ()
