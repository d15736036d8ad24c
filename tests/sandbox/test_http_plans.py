"""Plans and plan runs."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from monitor.model.triggers import HourlyTrigger
from monitor.sandbox.world.records.objects import ScheduleHistory, ScheduleTask
from monitor.sandbox.world.records.runs import NativeStatus, PlanSnapshotRun, RanFrom
from tests.sandbox.http_workspace import COLLEAGUE_TOKEN, Workspace, open_workspace
from tests.sandbox.working import at_work

RUNS = "/v4/planSnapshotRuns"


@pytest.fixture
async def workspace() -> AsyncIterator[Workspace]:
    async with open_workspace() as opened:
        yield opened


async def run_nightly(workspace: Workspace) -> PlanSnapshotRun:
    answer = await workspace.post(f"/v4/plans/{workspace.things.nightly.id}/run", {})
    assert answer.status == 201
    assert answer.body["validationStatus"] == "Valid"
    run = workspace.world.plan_runs.get(answer.body["planSnapshotRunId"])
    assert run is not None
    return run


async def test_a_plan_runs_once_per_execution_id(workspace: Workspace) -> None:
    """A plan is run as the caller; the same x-execution-id again answers 304."""
    path = f"/v4/plans/{workspace.things.nightly.id}/run"
    override = {"handle": "ax", "overrideKey": "day", "value": "8"}
    body = {"planNodeOverrides": [override]}

    answers = [await workspace.post(path, body, x_execution_id="one") for _ in range(2)]

    assert [answer.status for answer in answers] == [201, 304]
    (run,) = workspace.world.plan_runs.live()
    assert run.creator_id == workspace.things.owner.id


@pytest.mark.parametrize(
    ("body", "field"),
    [
        ([], "body"),
        ({"planNodeOverrides": {}}, "planNodeOverrides"),
        ({"planNodeOverrides": [1]}, "planNodeOverrides[0]"),
        ({"planNodeOverrides": [{"handle": "ax"}]}, "planNodeOverrides[0].overrideKey"),
        (
            {"planNodeOverrides": [{"handle": "zz", "overrideKey": "k", "value": 1}]},
            "planNodeOverrides[0].handle",
        ),
    ],
)
async def test_a_bad_plan_run_names_its_field(
    workspace: Workspace, body: object, field: str
) -> None:
    """A plan run that cannot start is 400 and starts nothing."""
    answer = await workspace.post(f"/v4/plans/{workspace.things.nightly.id}/run", body)

    assert answer.is_refused(400, "ValidationFailed", f'"{field}"')
    assert len(workspace.world.plan_runs) == 0


async def test_a_plan_without_nodes_is_refused(workspace: Workspace) -> None:
    """There is nothing to run in an empty plan."""
    workspace.token = COLLEAGUE_TOKEN
    answer = await workspace.post(f"/v4/plans/{workspace.things.weekly.id}/run", {})

    assert answer.is_refused(400, "ValidationFailed")


async def test_plan_rows_know_their_latest_run(workspace: Workspace) -> None:
    """A plan that never ran has no latest run; afterwards it is embedded in the row."""
    before = (await workspace.get("/v4/plans")).body["data"][0]
    run = await run_nightly(workspace)
    after = (await workspace.get("/v4/plans")).body["data"][0]

    assert before["latestPlanSnapshotRun"] is None
    assert before["planSnapshotRunCount"] == 0
    assert after["latestPlanSnapshotRun"]["id"] == run.id
    assert after["latestPlanSnapshotRun"]["status"] == "Created"
    assert after["planSnapshotRunCount"] == 1
    assert after["snapshotted"] is False
    people = await workspace.get("/v4/plans", includeAssociatedPeople="true")
    assert people.body["data"][0]["associatedPeople"][0]["email"] == "owner@example.com"


async def test_a_run_names_the_plans_snapshot(workspace: Workspace) -> None:
    """A run's plan is a snapshot, whose full read leads back to the plan and to its job groups."""
    async with at_work(workspace):
        run = await run_nightly(workspace)
        await workspace.clock.advance(10)  # from one run to what it starts it takes 6 at most

        shown = await workspace.get(f"{RUNS}/{run.id}")
        snapshot_id = shown.body["plan"]["id"]
        snapshot = await workspace.get(f"/v4/plans/{snapshot_id}/full")

    plan = workspace.things.nightly
    assert snapshot_id == run.snapshot_id != plan.id
    assert snapshot.body["originalPlanId"] == plan.id
    assert snapshot.body["snapshotted"] is True
    node = snapshot.body["planNodes"]["data"][0]
    task_run = node["planTaskSnapshotRuns"]["data"][0]
    assert task_run["planSnapshotRun"] == {"id": run.id}
    job_group = task_run["planFlowTaskRunResults"]["data"][0]["jobGroup"]
    assert workspace.world.job_groups.get(job_group["id"]) is not None


async def test_a_plan_is_read_in_full(workspace: Workspace) -> None:
    """The full read has nodes with their tasks, edges, snapshots, people and its creator."""
    run = await run_nightly(workspace)

    answer = await workspace.get(f"/v4/plans/{workspace.things.nightly.id}/full")

    document = answer.body
    flow_node, http_node = document["planNodes"]["data"]
    assert flow_node["taskType"] == "flow"
    assert flow_node["task"]["flow"] == {"id": workspace.things.orders.id, "name": "Orders"}
    assert http_node["httpTask"]["method"] == "post"
    assert document["planEdges"]["data"][0]["statusRule"] == "always"
    assert [plansnapshot["id"] for plansnapshot in document["planSnapshots"]["data"]] == [
        run.snapshot_id
    ]
    assert document["creator"]["email"] == "owner@example.com"
    assert document["associatedPeople"][0]["id"] == workspace.things.owner.id
    lean = await workspace.get(
        f"/v4/plans/{workspace.things.nightly.id}/full",
        fields="id;planNodes",
        includeAssociatedPeople="false",
    )
    assert lean.body.keys() == {"id", "planNodes"}
    unknown = await workspace.get("/v4/plans/999999/full")
    assert unknown.is_refused(404, "DataNotFoundException", "999999")


async def test_plan_runs_are_listed_and_counted(workspace: Workspace) -> None:
    """Runs come newest first with dates, status and their neighbours; the filters select."""
    first = await run_nightly(workspace)
    await workspace.clock.advance(60)
    second = await run_nightly(workspace)
    workspace.world.update(first, status=NativeStatus.FAILED)
    since = str(int(second.created_at.timestamp() * 1000))

    listed = await workspace.get(RUNS, includeCount="true")

    assert listed.ids == [second.id, first.id]
    assert listed.body["count"] == 2
    assert listed.body["data"][0]["previousRun"] == {"id": first.id}
    assert listed.body["data"][0]["nextRun"] is None
    assert listed.body["data"][0]["scheduleHistoryId"] is None
    assert listed.body["data"][0]["failedToCancelSomeJobs"] is False
    assert (await workspace.get(RUNS, status="Failed")).ids == [first.id]
    recent = {"dateFilter[createdAt][gte]": since}
    assert (await workspace.get(RUNS, **recent)).ids == [second.id]
    assert (await workspace.get(RUNS, ranfrom="schedule")).ids == []
    assert (await workspace.get(f"{RUNS}/count", status="Failed")).body == {"count": 1}


async def test_a_plan_run_is_canceled(workspace: Workspace) -> None:
    """Cancel answers the run, which is over; again it changes nothing."""
    async with at_work(workspace):
        run = await run_nightly(workspace)
        first = await workspace.post(f"{RUNS}/{run.id}/cancel", {})
        await workspace.clock.advance(30)
        second = await workspace.post(f"{RUNS}/{run.id}/cancel")

    assert first.body["id"] == run.id
    assert first.body["failedToCancelSomeJobs"] is False
    assert second.body["status"] == "Canceled"


async def test_only_a_scheduled_run_has_a_schedule(workspace: Workspace) -> None:
    """The schedule as it was is read from a run that it started; a manual run has none."""
    manual = await run_nightly(workspace)
    plan = workspace.things.nightly
    history = workspace.world.create(
        ScheduleHistory,
        by=workspace.things.owner.id,
        schedule_id=71,
        name="each hour",
        triggers=(HourlyTrigger(minute_of_hour=5),),
        tasks=(ScheduleTask(kind="plan", target_id=plan.id),),
    )
    scheduled = workspace.engine.start_plan_run(
        plan,
        by=workspace.things.owner.id,
        ran_from=RanFrom.SCHEDULE,
        schedule_history_id=history.id,
    )

    found = await workspace.get(f"{RUNS}/{scheduled.id}/schedule")
    missing = await workspace.get(f"{RUNS}/{manual.id}/schedule")

    assert found.body["name"] == "each hour"
    assert found.body["triggers"] == [
        {"timeBased": {"hourly": {"minuteOfHour": 5}, "timezone": "UTC"}}
    ]
    assert found.body["tasks"][0]["runPlan"]["planId"] == plan.id
    assert missing.is_refused(404, "DataNotFoundException", str(manual.id))
    assert (await workspace.get(RUNS, ranfrom="schedule")).ids == [scheduled.id]


async def test_unknown_and_deleted_plan_runs_are_not_found(workspace: Workspace) -> None:
    """An unknown id and a deleted one are 404; includeDeleted shows the deleted one."""
    run = await run_nightly(workspace)
    workspace.engine.delete_run(run)

    unknown = await workspace.get(f"{RUNS}/999999")
    gone = await workspace.get(f"{RUNS}/{run.id}")
    shown = await workspace.get(f"{RUNS}/{run.id}", includeDeleted="true")

    assert unknown.is_refused(404, "DataNotFoundException", "999999")
    assert gone.is_refused(404, "DataNotFoundException", str(run.id))
    assert shown.status == 200
