"""Run parameters of plans: shown node by node, overridden in the plan and in a run."""

from __future__ import annotations

import itertools
from collections.abc import AsyncIterator
from typing import Any

import pytest

from monitor.sandbox.world.records.parts import FlowRunParameterOverride
from tests.sandbox.http_workspace import COLLEAGUE_TOKEN, Workspace, open_workspace
from tests.sandbox.working import at_work

OVERRIDES = "/v4/planOverrides"
# Puts the value of "region" between the two slashes of "gs://out//x.csv".
REGION: dict[str, Any] = {
    "overrideKey": "region",
    "insertionIndices": [{"index": 9}],
    "value": {"variable": {"value": "all"}},
}


@pytest.fixture
async def workspace() -> AsyncIterator[Workspace]:
    async with open_workspace() as opened:
        for recipe in (opened.things.clean, opened.things.totals):
            (output,) = opened.world.outputs_of(recipe.id)
            (setting,) = opened.world.write_settings_of(output.id)
            opened.world.update(setting, path="gs://out//x.csv", run_parameters=(REGION,))
        yield opened


async def override(workspace: Workspace, value: Any, key: str = "region") -> int:
    answer = await workspace.post(
        OVERRIDES,
        {"planNodeId": workspace.things.node.id, "overrideKey": key, "value": value},
    )
    assert answer.status == 201, answer.content
    override_id = answer.body["id"]
    assert isinstance(override_id, int)
    return override_id


async def path_written(workspace: Workspace, **body: Any) -> str:
    """Run the plan until its flow has begun; return where the first recipe writes."""
    async with at_work(workspace):
        answer = await workspace.post(f"/v4/plans/{workspace.things.nightly.id}/run", body)
        assert answer.status == 201, answer.content
        await workspace.clock.advance(10)
    (found,) = (
        job_group.destinations.write_settings[0].path
        for job_group in workspace.world.job_groups.live()
        if job_group.plan_run_id == answer.body["planSnapshotRunId"]
        and job_group.recipe_id == workspace.things.clean.id
    )
    return found


@pytest.mark.parametrize("given", list(itertools.product((False, True), repeat=3)))
async def test_the_nearest_value_wins(workspace: Workspace, given: tuple[bool, bool, bool]) -> None:
    """A parameter has its own value, the flow's, the plan's or the run's: the last one given."""
    by_flow, by_plan, by_run = given
    if by_flow:
        workspace.world.create(
            FlowRunParameterOverride,
            by=workspace.things.owner.id,
            flow_id=workspace.things.orders.id,
            override_key="region",
            value="flow",
        )
    if by_plan:
        await override(workspace, {"variable": {"value": "plan"}})
    overrides = [{"handle": "ax", "overrideKey": "region", "value": "run"}] if by_run else []

    written = await path_written(workspace, planNodeOverrides=overrides)

    values = ["all", "flow", "plan", "run"]
    nearest = max(position for position, is_given in enumerate((True, *given)) if is_given)
    assert written == f"gs://out/{values[nearest]}/x.csv"


async def test_a_run_wins_over_the_plan(workspace: Workspace) -> None:
    """An override of one run holds for that run alone."""
    await override(workspace, "plan")
    overrides = [{"handle": "ax", "overrideKey": "region", "value": "8"}]

    assert await path_written(workspace, planNodeOverrides=overrides) == "gs://out/8/x.csv"
    assert await path_written(workspace) == "gs://out/plan/x.csv"


async def test_an_override_is_replaced(workspace: Workspace) -> None:
    """A PUT answers the whole override and changes the runs that follow."""
    override_id = await override(workspace, "before")
    body = {"planNodeId": workspace.things.node.id, "overrideKey": "region", "value": "after"}

    answer = await workspace.request("PUT", f"{OVERRIDES}/{override_id}", body=body)

    assert answer.status == 200
    assert answer.body["planNode"] == {"id": workspace.things.node.id}
    assert (answer.body["overrideKey"], answer.body["value"]) == ("region", "after")
    assert await path_written(workspace) == "gs://out/after/x.csv"


@pytest.mark.parametrize(
    ("part", "field"),
    [
        ({"planNodeId": 999_999}, "planNodeId"),
        ({"overrideKey": None}, "overrideKey"),
        ({"value": None}, "value"),
        ({"overrideKey": "taken"}, "overrideKey"),
    ],
)
async def test_a_bad_override_names_its_field(
    workspace: Workspace, part: dict[str, Any], field: str
) -> None:
    """An override of no node, without a value, or made twice is 400 with the field."""
    await override(workspace, 1, key="taken")
    body = {"planNodeId": workspace.things.node.id, "overrideKey": "region", "value": 1, **part}

    answer = await workspace.post(OVERRIDES, body)

    assert answer.is_refused(400, "ValidationFailed", f'"{field}"')


async def test_an_override_belongs_to_its_plan(workspace: Workspace) -> None:
    """Who does not share the plan changes no value in it."""
    override_id = await override(workspace, "owner's")
    workspace.token = COLLEAGUE_TOKEN
    body = {"planNodeId": workspace.things.node.id, "overrideKey": "region", "value": "mine"}

    answer = await workspace.request("PUT", f"{OVERRIDES}/{override_id}", body=body)

    assert answer.is_refused(403, "AccessControlException")


async def test_the_parameters_are_shown_node_by_node(workspace: Workspace) -> None:
    """Each node shows the parameters of what it runs, its overrides, and contradictions."""
    things = workspace.things
    override_id = await override(workspace, "plan")
    workspace.world.update(next(workspace.world.imported_datasets.live()), run_parameters=(REGION,))

    answer = await workspace.get(f"/v4/plans/{things.nightly.id}/runParameters")
    alone = await workspace.get(f"/v4/planNodes/{things.node.id}/runParameters")

    flow_node, http_node = answer.body["planNodeParameters"]
    assert alone.body == flow_node
    assert (flow_node["handle"], flow_node["planNodeId"]) == ("ax", things.node.id)
    assert flow_node["flow"]["name"] == "Orders"
    assert [datasource["name"] for datasource in flow_node["datasources"]["data"]] == ["orders.csv"]
    (first, _) = flow_node["outputObjects"]["data"]
    assert first["runParameters"]["data"] == [REGION]
    assert [planoverride["id"] for planoverride in flow_node["planOverrides"]["data"]] == [
        override_id
    ]
    full = await workspace.get(f"/v4/plans/{things.nightly.id}/full")
    assert full.body["planNodes"]["data"][0]["planOverrides"]["data"] == [
        {"id": override_id, "overrideKey": "region", "value": "plan"}
    ]
    assert flow_node["conflicts"] == []
    assert http_node["flow"] is None
    assert http_node["outputObjects"] == {"data": []}


async def test_a_key_with_two_values_is_a_conflict(workspace: Workspace) -> None:
    """A key with two values is shown with both."""
    setting = next(workspace.world.write_settings.live())
    other = {**REGION, "value": {"variable": {"value": "some"}}}
    workspace.world.update(setting, run_parameters=(other,))

    answer = await workspace.get(f"/v4/planNodes/{workspace.things.node.id}/runParameters")

    values = [other["value"], REGION["value"]]
    assert answer.body["conflicts"] == [{"overrideKey": "region", "values": values}]
