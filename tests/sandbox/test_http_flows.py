"""Flows, flow runs, people and the headers of every answer."""

from __future__ import annotations

from collections.abc import AsyncIterator
from datetime import timedelta
from email.utils import parsedate_to_datetime

import pytest

from monitor.catalogue.operations import Edition
from monitor.sandbox.world.records.objects import Flow
from monitor.sandbox.world.records.runs import NativeStatus
from tests.sandbox.http_workspace import Workspace, open_workspace


@pytest.fixture
async def workspace() -> AsyncIterator[Workspace]:
    async with open_workspace() as opened:
        yield opened


@pytest.mark.parametrize("edition", [Edition.PC, Edition.PL, Edition.RL, Edition.OPEN])
async def test_flows_are_listed_wherever_they_may(edition: Edition) -> None:
    """The list of flows is served in PC too, with the fields of a flow."""
    async with open_workspace(edition) as workspace:
        answer = await workspace.get("/v4/flows", filter="Orders", includeCount="true")

    assert answer.body["count"] == 1
    row = answer.body["data"][0]
    assert row["name"] == "Orders"
    assert {"id", "createdAt", "updatedAt", "creator", "updater", "workspace"} <= row.keys()


async def test_one_flow_is_read(workspace: Workspace) -> None:
    """A flow is read by id; an unknown one is not found."""
    flow = workspace.things.orders

    found = await workspace.get(f"/v4/flows/{flow.id}")
    unknown = await workspace.get("/v4/flows/999999")

    assert found.body["id"] == flow.id
    assert unknown.is_refused(404, "DataNotFoundException", "999999")


async def test_a_flow_runs(workspace: Workspace) -> None:
    """Running a flow answers the flow run and the job groups that exist already."""
    flow = workspace.things.orders

    answer = await workspace.post(f"/v4/flows/{flow.id}/run", {})

    assert answer.status == 201
    flow_run_id = answer.body["flowRunId"]
    (first,) = answer.body["data"]  # totals wait for the clean orders
    assert first["flowRun"] == {"id": flow_run_id}
    assert first["reason"] == "JobStarted"
    job_group = await workspace.get(f"/v4/jobGroups/{first['id']}")
    assert job_group.body["flowRun"] == {"id": flow_run_id}
    assert job_group.body["wrangledDataset"] == {"id": workspace.things.clean.id}


async def test_a_flow_runs_without_a_body_and_once_per_execution_id(workspace: Workspace) -> None:
    """The body may be missing; the same x-execution-id runs the flow once."""
    path = f"/v4/flows/{workspace.things.orders.id}/run"

    answers = [await workspace.post(path, x_execution_id="one") for _ in range(2)]

    assert [answer.status for answer in answers] == [201, 304]
    assert len(workspace.world.flow_runs) == 1


@pytest.mark.parametrize(
    ("body", "field"),
    [
        ({"wrangledDatasetIds": "all"}, "wrangledDatasetIds"),
        ({"wrangledDatasetIds": [1]}, "wrangledDatasetIds[0]"),
        ({"wrangledDatasetIds": [[]]}, "wrangledDatasetIds[0]"),
        ({"ignoreRecipeErrors": 1}, "ignoreRecipeErrors"),
        ({"overrides": "none"}, "overrides"),
        ({"scheduleExecutionId": "x"}, "scheduleExecutionId"),
        ("run", "body"),
    ],
)
async def test_a_bad_flow_run_names_its_field(
    workspace: Workspace, body: object, field: str
) -> None:
    """A flow run that cannot start is 400 and starts nothing."""
    answer = await workspace.post(f"/v4/flows/{workspace.things.orders.id}/run", body)

    assert answer.is_refused(400, "ValidationFailed", f'"{field}"')
    assert len(workspace.world.flow_runs) == 0


async def test_an_empty_flow_cannot_run(workspace: Workspace) -> None:
    """A flow without outputs is refused with 400."""
    flow = workspace.world.create(Flow, by=workspace.things.owner.id, name="Empty")

    answer = await workspace.post(f"/v4/flows/{flow.id}/run", {})

    assert answer.is_refused(400, "ValidationFailed", str(flow.id))


async def test_a_flow_run_has_neither_status_nor_end(workspace: Workspace) -> None:
    """The object shows flow and dates; its status is a plain text under its own path."""
    flow = workspace.things.orders
    started = await workspace.post(f"/v4/flows/{flow.id}/run", {})
    flow_run = workspace.world.flow_runs.get(started.body["flowRunId"])
    assert flow_run is not None
    path = f"/v4/flowRuns/{flow_run.id}"

    found = await workspace.get(path, embed="flow")
    workspace.world.update(flow_run, status=NativeStatus.IN_PROGRESS)
    status = await workspace.get(f"{path}/status")

    assert found.body["flow"]["name"] == "Orders"
    assert not {"status", "finishedAt", "startedAt", "name"} & found.body.keys()
    assert status.content == b'"InProgress"'


async def test_the_job_groups_of_a_flow_run_come_whole(workspace: Workspace) -> None:
    """All job groups of a flow run are listed, without pages, with embeds."""
    flow = workspace.things.orders
    started = await workspace.post(f"/v4/flows/{flow.id}/run", {})
    path = f"/v4/flowRuns/{started.body['flowRunId']}/jobGroups"

    answer = await workspace.get(path, embed="wrangledDataset.recipe", limit="0")

    (row,) = answer.body["data"]
    assert row["flowRun"] == {"id": started.body["flowRunId"]}
    assert row["wrangledDataset"]["recipe"]["name"] == "Clean orders"
    unknown = await workspace.get("/v4/flowRuns/1/jobGroups")
    assert unknown.is_refused(404, "DataNotFoundException", "1")


async def test_the_current_person_is_the_tokens(workspace: Workspace) -> None:
    """The token's own person is shown, with privileges on request."""
    plain = await workspace.get("/v4/people/current")
    full = await workspace.get("/v4/people/current", includePrivileges="true", fields="id")

    assert plain.body["id"] == workspace.things.owner.id
    assert plain.body["email"] == "owner@example.com"
    assert plain.body["state"] == "active"
    assert "maximalPrivileges" not in plain.body
    assert full.body == {"id": workspace.things.owner.id}


async def test_every_answer_carries_date_and_request_id(workspace: Workspace) -> None:
    """Answers and refusals of every kind show the workspace's clock and a request id of their own.

    The clock includes its offset.
    """
    workspace.world.options.clock_offset_seconds = 3600.0
    job_group = workspace.job_group()
    answers = [
        await workspace.get("/v4/flows"),
        await workspace.get("/v4/nothing"),
        await workspace.get("/elsewhere"),
        await workspace.request("GET", "/v4/flows", token=""),
        await workspace.post("/v4/jobGroups", {}),
        await workspace.request("DELETE", f"/v4/jobGroups/{job_group.id}"),
        await workspace.get(f"/v4/jobGroups/{job_group.id}/pdfResults"),
    ]

    expected = workspace.clock.now() + timedelta(hours=1)
    assert {parsedate_to_datetime(answer.headers["Date"]) for answer in answers} == {expected}
    assert len({answer.headers["x-trifacta-request-id"] for answer in answers}) == len(answers)


async def test_the_ledger_is_served_beside_the_api(workspace: Workspace) -> None:
    """The ledger is there for those outside the process, without a token."""
    job_group = workspace.job_group()

    answer = await workspace.request("GET", "/sandbox/ledger", token="")

    assert answer.body["begun"]["job_group"] == 1
    assert answer.body["transitions"][0]["run_id"] == job_group.id
    newest = await workspace.get("/sandbox/ledger", newest="0")
    assert newest.body["transitions"] == []
