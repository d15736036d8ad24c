"""Tests of what flows read: edges and replaced datasets, and of values of their parameters."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import pytest

from monitor.sandbox.world.records.objects import ImportedDataset, Recipe
from monitor.sandbox.world.records.parts import DatasetNode, FlowEdge
from tests.sandbox.http_workspace import COLLEAGUE_TOKEN, Workspace, open_workspace


@pytest.fixture
async def workspace() -> AsyncIterator[Workspace]:
    async with open_workspace() as found:
        yield found


def dataset(workspace: Workspace, name: str) -> ImportedDataset:
    return workspace.world.create(
        ImportedDataset, by=workspace.things.owner.id, name=name, uri=f"gs://data/{name}"
    )


async def commit(workspace: Workspace, node_id: int, **edge: Any) -> Any:
    return await workspace.post(f"/v4/flowNodes/{node_id}/commitEdges", {"updateInfo": edge})


async def test_an_edge_feeds_a_recipe(workspace: Workspace) -> None:
    """A dataset's node gives its data, and a recipe's its result, to the recipe after it."""
    things, world = workspace.things, workspace.world
    by, flow_id = things.owner.id, things.orders.id
    new = dataset(workspace, "new.csv")
    node = world.create(DatasetNode, by=by, flow_id=flow_id, dataset_id=new.id)
    last = world.create(Recipe, by=by, flow_id=flow_id, name="Last")

    made = await commit(workspace, node.id, outputFlowNodeId=last.id, inPortId=2)
    assert made.status == 201
    edge = made.body["data"][0]
    assert edge["inputFlowNode"] == {"id": node.id}
    assert edge["outputFlowNode"] == {"id": last.id}
    assert edge["inPortId"] == 2
    assert last.dataset_ids == (new.id,)

    both = {"edges": [{"inputFlowNodeId": things.totals.id}, {"inputFlowNodeId": node.id}]}
    again = await commit(workspace, last.id, **both)
    assert again.body["data"][1]["id"] == edge["id"]
    assert last.upstream_ids == (things.totals.id,)
    assert last.dataset_ids == (new.id,)


async def test_an_edge_goes_with_what_it_fed(workspace: Workspace) -> None:
    """A recipe that is given another primary input has no edge from the old one."""
    things, world = workspace.things, workspace.world
    await commit(workspace, things.totals.id, inputFlowNodeId=things.clean.id)
    (edge,) = world.shelf(FlowEdge).live()
    other = dataset(workspace, "other.csv")
    path = f"/v4/wrangledDatasets/{things.totals.id}/primaryInputDataset"
    swapped = await workspace.request("PUT", path, body={"importedDataset": {"id": other.id}})
    assert swapped.status == 200
    assert things.totals.upstream_ids == ()
    assert edge.deleted_at is not None


async def test_edges_make_no_circle(workspace: Workspace) -> None:
    """No edge of a request is made where one would let a recipe wait for itself."""
    things = workspace.things
    before = (things.clean.upstream_ids, things.totals.upstream_ids)
    refused = await commit(
        workspace,
        things.clean.id,
        edges=[{"inputFlowNodeId": things.totals.id}],
    )
    assert refused.is_refused(400, "ValidationFailed", "its own result")
    own = await commit(workspace, things.clean.id, inputFlowNodeId=things.clean.id)
    assert own.is_refused(400, "ValidationFailed", "its own result")
    assert (things.clean.upstream_ids, things.totals.upstream_ids) == before
    assert len(workspace.world.shelf(FlowEdge)) == 0


@pytest.mark.parametrize(
    "edge",
    [
        {},
        {"inputFlowNodeId": 1},
        {"inputFlowNodeId": "x"},
        {"edges": []},
        {"edges": [7]},
        {"edges": {}},
    ],
)
async def test_an_edge_needs_ends(workspace: Workspace, edge: dict[str, Any]) -> None:
    """An id that is no node of the flow is refused by its field."""
    refused = await commit(workspace, workspace.things.totals.id, **edge)
    assert refused.is_refused(400, "ValidationFailed", "updateInfo")


async def test_only_those_who_may_change_a_flow_link_its_nodes(workspace: Workspace) -> None:
    """A stranger is refused, and an unknown node is not found."""
    info = {"updateInfo": {"inputFlowNodeId": workspace.things.clean.id}}
    path = f"/v4/flowNodes/{workspace.things.totals.id}/commitEdges"
    refused = await workspace.request("POST", path, body=info, token=COLLEAGUE_TOKEN)
    assert refused.is_refused(403, "AccessControlException")
    missing = await workspace.post("/v4/flowNodes/9/commitEdges", info)
    assert missing.is_refused(404, "DataNotFoundException", "9")


async def test_a_replaced_dataset_is_read_by_the_next_run(workspace: Workspace) -> None:
    """All recipes that read the old data read the new, which the next run's inputs show."""
    things, world = workspace.things, workspace.world
    old_id = things.clean.dataset_ids[0]
    new = dataset(workspace, "new.csv")
    path = f"/v4/flows/{things.orders.id}"
    replaced = await workspace.request(
        "PATCH",
        f"{path}/replaceDataset",
        body={"oldImportedDatasetId": old_id, "newImportedDatasetId": new.id},
    )
    assert replaced.status == 200
    node_id = replaced.body["newInputNode"]["id"]
    assert things.clean.dataset_ids == (new.id,)
    edges = replaced.body["outputNodeEdges"]
    assert (edges[0]["inFlowNodeId"], edges[0]["outFlowNodeId"]) == (node_id, things.clean.id)
    assert new.id in (await workspace.get(f"{path}/inputs")).ids

    run = await workspace.post(f"{path}/run", {})
    inputs = await workspace.get(f"/v4/jobGroups/{run.body['data'][0]['id']}/inputs")
    assert b"new.csv" in inputs.content

    newer = dataset(workspace, "newer.csv")
    again = await workspace.request(
        "PATCH",
        f"{path}/replaceDataset",
        body={"flowNodeId": node_id, "newImportedDatasetId": newer.id},
    )
    assert again.body["newInputNode"]["id"] == node_id
    assert [dataset_node.dataset_id for dataset_node in world.shelf(DatasetNode).live()] == [
        newer.id
    ]


@pytest.mark.parametrize(
    ("body", "field"),
    [
        ({}, "newImportedDatasetId"),
        ({"newImportedDatasetId": 301}, "oldImportedDatasetId"),
        ({"newImportedDatasetId": 301, "oldImportedDatasetId": 999}, "oldImportedDatasetId"),
        ({"newImportedDatasetId": 301, "flowNodeId": 1201}, "flowNodeId"),
        ({"newImportedDatasetId": 999, "oldImportedDatasetId": 301}, "ImportedDatasetId"),
    ],
)
async def test_a_replacement_names_two_datasets(
    workspace: Workspace, body: dict[str, int], field: str
) -> None:
    """An id that is no dataset is refused by its field."""
    path = f"/v4/flows/{workspace.things.orders.id}/replaceDataset"
    refused = await workspace.request("PATCH", path, body=body)
    assert refused.is_refused(400, "ValidationFailed", field)


async def test_a_flow_keeps_values_of_its_parameters(workspace: Workspace) -> None:
    """A value is made, read, changed and deleted; a key stands once in a flow."""
    flow_id = workspace.things.orders.id
    path = "/v4/flowRunParameterOverrides"
    body = {"flowId": float(flow_id), "overrideKey": "day", "value": "8"}
    made = await workspace.post(path, body)
    assert made.status == 201
    assert (made.body["flowId"], made.body["value"]) == (flow_id, "8")
    twice = await workspace.post(path, body)
    assert twice.is_refused(400, "ValidationFailed", '"overrideKey"')
    one = f"{path}/{made.body['id']}"
    changed = await workspace.request("PATCH", one, body={"value": {"variable": {"value": "9"}}})
    assert changed.status == 200
    assert (await workspace.get(one)).body["value"] == {"variable": {"value": "9"}}
    assert (await workspace.request("DELETE", one)).status == 204
    assert (await workspace.get(one)).is_refused(404, "DataNotFoundException")
    refused = await workspace.post(path, {**body, "flowId": 11.5})
    assert refused.is_refused(400, "ValidationFailed", '"flowId"')


async def test_a_flow_has_notification_settings_once(workspace: Workspace) -> None:
    """Making them again changes them, and their words are checked."""
    path = "/v4/flowNotificationSettings"
    body = {"flowId": workspace.things.orders.id, "onJobFailure": "all", "onJobSuccess": "never"}
    first = await workspace.post(path, body)
    second = await workspace.post(path, {**body, "onJobSuccess": "default"})
    assert (first.status, second.status) == (201, 201)
    assert second.body["id"] == first.body["id"]
    assert second.body["onJobSuccess"] == "default"
    refused = await workspace.post(path, {**body, "onJobFailure": "often"})
    assert refused.is_refused(400, "ValidationFailed", '"onJobFailure"', "scheduled")
    stranger = await workspace.request("POST", path, body=body, token=COLLEAGUE_TOKEN)
    assert stranger.status in {400, 403}
