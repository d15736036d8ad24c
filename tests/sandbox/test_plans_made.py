"""Plans made, changed, shared and run over HTTP alone."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest

from monitor.sandbox.world.records.objects import PlanEdge, PlanNode, Schedule, ScheduleTask
from monitor.sandbox.world.records.parts import PlanOverride
from tests.sandbox.http_workspace import ADMIN_TOKEN, Workspace, open_workspace
from tests.sandbox.working import at_work


@pytest.fixture
async def workspace() -> AsyncIterator[Workspace]:
    async with open_workspace() as opened:
        yield opened


async def made_plan(workspace: Workspace, name: str = "Made") -> int:
    answer = await workspace.post("/v4/plans", {"name": name})
    assert answer.status == 201, answer.content
    plan_id = answer.body["id"]
    assert isinstance(plan_id, int)
    return plan_id


async def made_node(workspace: Workspace, plan_id: int, **fields: Any) -> dict[str, Any]:
    answer = await workspace.post("/v4/planNodes", {"planId": plan_id, **fields})
    assert answer.status == 201, answer.content
    node: dict[str, Any] = answer.body
    return node


async def test_a_plan_lives_and_dies(workspace: Workspace) -> None:
    """A new plan is listed, counted, changed with the whole plan as answer, and deleted."""
    plan_id = await made_plan(workspace)
    plan = f"/v4/plans/{plan_id}"
    before = (await workspace.get("/v4/plans/count")).body["count"]

    changed = await workspace.request(
        "PATCH", plan, body={"name": "Changed", "notificationsEnabled": False}
    )
    assert changed.status == 200
    assert (changed.body["name"], changed.body["notificationsEnabled"]) == ("Changed", False)
    assert changed.body["planSnapshotRunCount"] == 0
    assert plan_id in (await workspace.get("/v4/plans")).ids
    assert (await workspace.request("DELETE", plan)).status == 204
    assert (await workspace.get(f"{plan}/full")).is_refused(404, "DataNotFoundException")
    assert (await workspace.get("/v4/plans/count")).body["count"] == before - 1


async def test_parts_of_a_plan_go_with_it(workspace: Workspace) -> None:
    """Nodes, edges and overrides are deleted with their plan, and its schedule is switched off."""
    world, things = workspace.world, workspace.things
    world.create(
        PlanOverride,
        by=things.owner.id,
        plan_node_id=things.node.id,
        override_key="day",
        value=8,
    )
    schedule = world.create(
        Schedule,
        by=things.owner.id,
        name="nightly",
        triggers=(),
        tasks=(ScheduleTask(kind="plan", target_id=things.nightly.id),),
    )

    assert (await workspace.request("DELETE", f"/v4/plans/{things.nightly.id}")).status == 204

    assert [list(world.shelf(kind).live()) for kind in (PlanNode, PlanEdge, PlanOverride)] == [
        [],
        [],
        [],
    ]
    assert not schedule.enabled
    assert schedule.disable_reason is not None


async def test_a_plan_made_over_http_runs_along_its_edges(workspace: Workspace) -> None:
    """Nodes made one after the other run in that order, and the full read shows all of it."""
    things = workspace.things
    plan_id = await made_plan(workspace)
    flow = await made_node(
        workspace, plan_id, taskType="flow", task={"flow": {"id": things.orders.id}}
    )
    http = await made_node(
        workspace,
        plan_id,
        taskType="http",
        httpTask={"url": "", "method": "put", "headers": {"a": "b"}},
        inPlanNodeIds=[flow["id"]],
        statusRule="always",
    )
    last = await made_node(workspace, plan_id, taskType="email", inPlanNodeIds=[str(http["id"])])

    assert [item["name"] for item in (flow, http, last)] == ["Orders", "Send HTTP request", "email"]
    assert len({item["handle"] for item in (flow, http, last)}) == 3
    assert {len(item["handle"]) for item in (flow, http, last)} == {2}
    async with at_work(workspace):
        started = await workspace.post(f"/v4/plans/{plan_id}/run")
        run = workspace.world.plan_runs.get(started.body["planSnapshotRunId"])
        assert run is not None
        async with asyncio.timeout(10):
            while not run.status.is_over:
                await workspace.clock.advance(5)
    full = (await workspace.get(f"/v4/plans/{plan_id}/full")).body
    assert full["latestPlanSnapshotRun"]["finishedAt"] is not None
    assert [plannode["taskType"] for plannode in full["planNodes"]["data"]] == [
        "flow",
        "http",
        "email",
    ]
    embedded = await workspace.get("/v4/plans", embed="planEdges,planNodes.planOverrides")
    assert [item["planEdges"] for item in embedded.body["data"] if item["id"] == plan_id] == [
        full["planEdges"]
    ]
    assert [
        (planedge["inPlanNodeId"], planedge["outPlanNodeId"], planedge["statusRule"])
        for planedge in full["planEdges"]["data"]
    ] == [(flow["id"], http["id"], "always"), (http["id"], last["id"], "success")]


@pytest.mark.parametrize(
    ("fields", "field"),
    [
        ({"planId": 999_999}, "planId"),
        ({"planId": None}, "planId"),
        ({"taskType": "sleep"}, "taskType"),
        ({"taskType": "flow"}, "flowId"),
        ({"taskType": "flow", "task": {}}, "task.flowId"),
        ({"taskType": "flow", "task": {"flowId": 999_999}}, "task.flowId"),
        ({"taskType": "http", "httpTask": {"url": 7}}, "httpTask.url"),
        ({"taskType": "http", "httpTask": {"url": "", "maxRetries": 99}}, "httpTask.maxRetries"),
        ({"inPlanNodeIds": [999_999]}, "inPlanNodeIds[0]"),
        ({"handle": "ax"}, "handle"),
        ({"coordinates": {"x": "left"}}, "coordinates.x"),
    ],
)
async def test_a_bad_node_names_its_field(
    workspace: Workspace, fields: dict[str, Any], field: str
) -> None:
    """A document that is no node is 400 with the field, and makes neither node nor edge."""
    before = (len(workspace.world.plan_nodes), len(workspace.world.plan_edges))
    body = {"planId": workspace.things.nightly.id, "taskType": "http", **fields}

    answer = await workspace.post("/v4/planNodes", body)

    assert answer.is_refused(400, "ValidationFailed", f'"{field}"')
    assert (len(workspace.world.plan_nodes), len(workspace.world.plan_edges)) == before


async def test_only_recipes_of_the_flow_can_be_chosen(workspace: Workspace) -> None:
    """A node runs the recipes that it names, which must be of its flow."""
    things = workspace.things
    body = {"planId": things.nightly.id, "taskType": "flow", "flowId": things.orders.id}
    workspace.token = ADMIN_TOKEN

    chosen = await workspace.post("/v4/planNodes", {**body, "flowNodeIds": [things.clean.id]})
    strange = await workspace.post("/v4/planNodes", {**body, "flowNodeIds": [things.count.id]})

    assert chosen.body["task"]["flowNodes"] == [{"id": things.clean.id}]
    assert strange.is_refused(400, "ValidationFailed", '"flowNodeIds[0]"')


async def test_a_node_goes_with_its_edges(workspace: Workspace) -> None:
    """A deleted node leaves no edge; the next run is of a new snapshot, without it."""
    things = workspace.things
    first = await workspace.post(f"/v4/plans/{things.nightly.id}/run")
    await workspace.clock.advance(1)
    assert (await workspace.request("DELETE", f"/v4/planNodes/{things.node.id}")).status == 204
    second = await workspace.post(f"/v4/plans/{things.nightly.id}/run")

    assert list(workspace.world.plan_edges.live()) == []
    assert first.status == second.status == 201
    snapshots = {run.snapshot_id: run for run in workspace.world.plan_runs.live()}
    assert len(snapshots) == 2
    again = await workspace.request("DELETE", f"/v4/planNodes/{things.node.id}")
    assert again.is_refused(404, "DataNotFoundException")
