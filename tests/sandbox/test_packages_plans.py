"""Plans as packages: they come with their flows, and run where they arrive."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Mapping
from typing import Any

import pytest

from monitor.sandbox.world.records.objects import PlanEdge, Recipe
from monitor.sandbox.world.records.parts import PlanOverride
from monitor.sandbox.world.records.runs import NativeStatus
from tests.sandbox.http_workspace import COLLEAGUE_TOKEN, Workspace, open_workspace
from tests.sandbox.packages import (
    changed,
    fetch,
    fingerprint,
    manifest_of,
    meaning,
    pages_of,
    send,
    tables_of,
    zipped,
)
from tests.sandbox.working import at_work, until_over

IMPORT = "/v4/plans/package"


@pytest.fixture
async def workspace() -> AsyncIterator[Workspace]:
    """Give a workspace whose plan has an override and runs one recipe of its flow only."""
    async with open_workspace() as opened:
        world, things = opened.world, opened.things
        for place, connection in enumerate(world.connections):
            connection.uuid = f"00000000-0000-4000-8000-00000000000{place}"
        world.update(things.node, flow_node_ids=(things.clean.id,))
        world.create(
            PlanOverride,
            by=things.owner.id,
            plan_node_id=things.node.id,
            override_key="region",
            value="north",
        )
        yield opened


def package_path(workspace: Workspace) -> str:
    return f"/v4/plans/{workspace.things.nightly.id}/package"


async def test_a_plan_travels_with_its_flows(workspace: Workspace) -> None:
    """Nodes, edges, overrides and flows come back as they went out, under new ids."""
    out = await fetch(workspace, package_path(workspace))
    assert manifest_of(out)["kind"] == "plan"
    assert [row["name"] for row in tables_of(out)["flows"]] == ["Orders"]

    answer = await send(workspace, IMPORT, out)

    assert answer.status == 201, answer.content
    (plan_id,) = answer.body["primaryPlanIds"]
    assert [row["id"] for row in answer.body["plans"]] == [plan_id]
    assert meaning(await fetch(workspace, f"/v4/plans/{plan_id}/package")) == meaning(out)
    world = workspace.world
    node, call = world.nodes_of(plan_id)
    mapping = answer.body["createdObjectMapping"]
    assert node.flow_id == mapping["flows"][str(workspace.things.orders.id)]
    assert node.flow_node_ids == (mapping["wrangleddatasets"][str(workspace.things.clean.id)],)
    (edge,) = world.edges_of(plan_id)
    assert (edge.in_plan_node_id, edge.out_plan_node_id) == (node.id, call.id)
    assert call.http_task == world.nodes_of(workspace.things.nightly.id)[1].http_task
    (override,) = (
        plan_override
        for plan_override in world.shelf(PlanOverride).live()
        if plan_override.plan_node_id == node.id
    )
    assert (override.override_key, override.value) == ("region", "north")


async def test_an_imported_plan_runs(workspace: Workspace) -> None:
    """Its run starts the imported flow, not the one that it came from."""
    world = workspace.world
    world.update(workspace.things.orders, failure_ratio=0.0)
    answer = await send(workspace, IMPORT, await fetch(workspace, package_path(workspace)))
    (plan_id,) = answer.body["primaryPlanIds"]

    started = await workspace.post(f"/v4/plans/{plan_id}/run")
    run = world.plan_runs.get(started.body["planSnapshotRunId"])
    async with at_work(workspace):
        await until_over(workspace, run)

    assert run is not None
    assert run.status is NativeStatus.COMPLETE
    (flow_run,) = world.flow_runs
    new_flow_id = answer.body["createdObjectMapping"]["flows"][str(workspace.things.orders.id)]
    assert flow_run.flow_id == new_flow_id


async def test_only_what_one_sees_is_exported(workspace: Workspace) -> None:
    """A foreign plan is 403; one whose flow is foreign is 400, and a deleted flow is left out."""
    world, things = workspace.world, workspace.things
    path = package_path(workspace)
    workspace.token = COLLEAGUE_TOKEN
    assert (await workspace.get(path)).is_refused(403, "AccessControlException")
    world.update(things.nightly, shared_with=frozenset({things.colleague.id}))
    assert (await workspace.get(path)).is_refused(400, "ValidationFailed", "may not see")

    world.delete(things.orders)

    out = await fetch(workspace, path)
    assert tables_of(out).get("flows", []) == []
    answer = await send(workspace, IMPORT, out)
    assert answer.status == 201, answer.content
    node = world.nodes_of(answer.body["primaryPlanIds"][0])[0]
    assert node.flow_id is None


async def test_a_plan_of_another_kind_is_refused(workspace: Workspace) -> None:
    """Circles, flow packages, odd words and other shapes change nothing."""
    world, things = workspace.world, workspace.things
    out = await fetch(workspace, package_path(workspace))
    flow = await fetch(workspace, f"/v4/flows/{things.orders.id}/package")
    tables = tables_of(out)
    edge, node = tables["planedges"][0], tables["plannodes"][0]
    back: Mapping[str, Any] = {
        **edge,
        "id": edge["id"] + 1,
        "in_plan_node_id": edge["out_plan_node_id"],
        "out_plan_node_id": edge["in_plan_node_id"],
    }
    manifest = {**manifest_of(out), "roots": {"flows": [things.orders.id]}}
    wrong = {
        "circle": changed(out, planedges=[edge, back]),
        "kind flow": flow,
        "statusRule": changed(out, planedges=[{**edge, "status_rule": "sometimes"}]),
        "two of": changed(out, plannodes=[node, *tables["plannodes"]]),
        "name its plans": zipped({**pages_of(out), "package.json": json.dumps(manifest).encode()}),
    }
    before = fingerprint(world)

    for reason, content in wrong.items():
        answer = await send(workspace, IMPORT, content)
        assert answer.is_refused(400, "ValidationFailed", '"data"', reason), (
            reason,
            answer.content,
        )

    assert fingerprint(world) == before
    assert len(world.shelf(PlanEdge)) == 1
    assert len(world.shelf(Recipe)) == 3
