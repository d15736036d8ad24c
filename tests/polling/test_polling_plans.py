"""Plan runs: exact times, the plan behind the snapshot, and the runs inside."""

from __future__ import annotations

from contextlib import suppress

import pytest

from monitor.model.errors import TryLaterError
from monitor.model.runs import Pipeline, PipelineKind, RunKind, Trigger
from tests.clocks import ManualClock
from tests.polling.conftest import Scenario
from tests.polling.tiny_workspace import FORBIDDEN, OVERLOADED, TinyWorkspace, stamp

PLAN_RUN = RunKind.PLAN_RUN


async def plan_of(scenario: Scenario, run_id: int) -> Pipeline | None:
    state = await scenario.state(run_id, PLAN_RUN)
    assert state is not None
    return state.pipeline


def put_plan(workspace: TinyWorkspace, plan_id: int, name: str, **fields: object) -> None:
    workspace.tables["plans"][plan_id] = {"id": plan_id, "name": name, **fields}


async def test_times_and_trigger_are_the_workspaces(
    scenario: Scenario, workspace: TinyWorkspace, clock: ManualClock
) -> None:
    """A plan run keeps its reported start and end; a schedule's history names the trigger."""
    put_plan(workspace, 13, "Nightly")
    started_at = workspace.now()
    await clock.advance(50)
    finished_at = workspace.now()
    workspace.put_plan_run(
        7,
        "Failed",
        startedAt=stamp(started_at),
        finishedAt=stamp(finished_at),
        scheduleHistoryId=3,
        plan={"id": 13},
    )
    await clock.advance(5)
    await scenario.polls.plan_runs.poll()

    state = await scenario.state(7, PLAN_RUN)
    assert state is not None
    assert (state.started_at, state.finished_at) == (started_at, finished_at)
    assert (state.approximate, state.trigger) == ((), Trigger.SCHEDULE)
    assert await scenario.run_events() == ["7:queued", "7:started", "7:failed"]


async def test_a_listed_plan_is_itself(scenario: Scenario, workspace: TinyWorkspace) -> None:
    """Where the run names a plan of the list, nothing else is read."""
    put_plan(workspace, 13, "Nightly")
    workspace.put_plan_run(7, plan={"id": 13})
    await scenario.polls.plan_runs.poll()

    assert await plan_of(scenario, 7) == Pipeline(kind=PipelineKind.PLAN, id="13", name="Nightly")
    assert workspace.count("plans/13/full") == 0


async def test_a_snapshot_is_read_once_and_kept(
    scenario: Scenario, workspace: TinyWorkspace
) -> None:
    """The plan of a snapshot is read once, also for later runs and after a restart."""
    put_plan(workspace, 13, "Nightly")
    workspace.full_plans[900] = {
        "id": 900, "name": "copy", "snapshotted": True, "originalPlanId": 13,
    }  # fmt: skip
    for run_id in (7, 8):
        workspace.put_plan_run(run_id, plan={"id": 900})
        await scenario.polls.plan_runs.poll()
    await scenario.restart()
    workspace.put_plan_run(9, plan={"id": 900})
    await scenario.polls.plan_runs.poll()

    plans = {(await plan_of(scenario, run_id)) for run_id in (7, 8, 9)}
    assert plans == {Pipeline(kind=PipelineKind.PLAN, id="13", name="Nightly")}
    assert workspace.count("plans/900/full") == 1


async def test_a_refused_snapshot_is_found_by_the_latest_run(
    scenario: Scenario, workspace: TinyWorkspace
) -> None:
    """Where the snapshot cannot be read, the plan whose latest run was created then is it."""
    workspace.faults["plans/900/full"] = FORBIDDEN
    created = stamp(workspace.now())
    put_plan(workspace, 13, "Nightly", latestPlanSnapshotRun={"createdAt": created})
    put_plan(workspace, 14, "Weekly")
    workspace.put_plan_run(7, plan={"id": 900})
    await scenario.polls.plan_runs.poll()

    plan = await plan_of(scenario, 7)
    assert plan is not None
    assert plan.id == "13"


async def test_a_snapshots_id_is_never_handed_out(
    scenario: Scenario, workspace: TinyWorkspace
) -> None:
    """A run whose plan is not shown has none; of two plans that fit neither is guessed."""
    workspace.faults["plans/900/full"] = FORBIDDEN
    created = stamp(workspace.now())
    for plan_id in (13, 14):
        put_plan(
            workspace, plan_id, "Twin", latestPlanSnapshotRun={"status": "x", "createdAt": created}
        )
    workspace.put_plan_run(7, plan={"id": 900})
    await scenario.polls.plan_runs.poll()

    assert await plan_of(scenario, 7) is None
    assert "900" not in {pipeline.id for pipeline in scenario.live_state.view.pipelines()}


async def test_a_plan_that_cannot_be_read_yet_delays_the_run(
    scenario: Scenario, workspace: TinyWorkspace
) -> None:
    """It waits while that may pass, though not forever, and holds up no other."""
    put_plan(workspace, 13, "Nightly")
    workspace.faults["plans/900/full"] = OVERLOADED
    workspace.put_plan_run(7, plan={"id": 900})
    workspace.put_plan_run(8, plan={"id": 13})
    stood_at = scenario.polls.plan_runs.watermark.at
    with pytest.raises(TryLaterError):
        await scenario.polls.plan_runs.poll()
    assert await scenario.run_events() == ["8:queued", "8:started"]
    assert scenario.polls.plan_runs.watermark.at == stood_at

    for _ in range(scenario.settings.attempts - 2):
        with pytest.raises(TryLaterError):
            await scenario.polls.plan_runs.poll()
    await scenario.polls.plan_runs.poll()

    assert "7:started" in await scenario.run_events()


async def test_an_end_without_its_time_is_read_by_id(
    scenario: Scenario, workspace: TinyWorkspace
) -> None:
    """A list that shows the status before the time of the end costs one read."""
    workspace.put_plan_run(7, "Complete", finishedAt=None)
    whole = dict(workspace.tables["planSnapshotRuns"][7], finishedAt=stamp(workspace.now()))

    def finish(path: str, _query: object) -> None:
        if path == "planSnapshotRuns/7":
            workspace.tables["planSnapshotRuns"][7] = whole

    workspace.before_answer = finish
    await scenario.polls.plan_runs.poll()

    state = await scenario.state(7, PLAN_RUN)
    assert state is not None
    assert state.finished_at == workspace.now()
    assert workspace.count("planSnapshotRuns/7") == 1


async def test_runs_inside_a_plan_run_learn_their_parent(
    scenario: Scenario, workspace: TinyWorkspace
) -> None:
    """After a plan run's end its job groups and their flow runs name it; strangers stay out."""
    put_plan(workspace, 13, "Nightly")
    workspace.put_flow_run(71)
    workspace.put_job_group(1, "InProgress", flowRun={"id": 71}, ranfor="plan")
    await scenario.polls.changes.poll()
    workspace.put_plan_run(7, "Complete", finishedAt=stamp(workspace.now()), plan={"id": 13})
    await scenario.polls.plan_runs.poll()
    workspace.full_plans[13] = plan_with_children(plan_run_id=7, job_group_ids=(1, 99))
    await scenario.polls.plan_children.poll()

    group, flow_run = await scenario.state(1), await scenario.state(71, RunKind.FLOW_RUN)
    assert group is not None
    assert flow_run is not None
    assert (group.parents.plan_run, flow_run.parents.plan_run) == ("7", "7")
    assert group.trigger is Trigger.PLAN
    assert await scenario.state(99) is None
    assert await scenario.polls.plan_children.poll() is False


async def test_a_plan_that_cannot_be_read_holds_up_no_other(
    scenario: Scenario, workspace: TinyWorkspace, clock: ManualClock
) -> None:
    """The runs of the other plans are linked; this plan is retried ever more rarely, for a day."""
    for plan_run_id, plan_id in ((7, 13), (8, 14)):
        put_plan(workspace, plan_id, f"Plan {plan_id}")
        workspace.put_job_group(plan_run_id + 100, "Complete", ranfor="plan")
        workspace.put_plan_run(
            plan_run_id, "Complete", finishedAt=stamp(workspace.now()), plan={"id": plan_id}
        )
        workspace.full_plans[plan_id] = plan_with_children(
            plan_run_id=plan_run_id, job_group_ids=(plan_run_id + 100,)
        )
    workspace.faults["plans/13/full"] = OVERLOADED
    await scenario.polls.changes.poll()
    await scenario.polls.plan_runs.poll()
    with pytest.raises(TryLaterError):
        await scenario.polls.plan_children.poll()
    assert await parent_of(scenario, 108) == "8"
    assert await parent_of(scenario, 107) is None

    reads = []
    for _ in range(3):
        before = workspace.count("plans/13/full")
        for _ in range(100):
            await clock.advance(6)
            with suppress(TryLaterError):
                await scenario.polls.plan_children.poll()
        reads.append(workspace.count("plans/13/full") - before)
    assert reads[0] < 12
    assert reads[1:] == [2, 2]

    workspace.faults.clear()
    await clock.advance(scenario.settings.reconcile_seconds)
    await scenario.polls.plan_children.poll()
    assert await parent_of(scenario, 107) == "7"


async def test_a_plan_that_can_never_be_read_is_given_up(
    scenario: Scenario, workspace: TinyWorkspace, clock: ManualClock
) -> None:
    """After a day nothing more is requested for it."""
    put_plan(workspace, 13, "Nightly")
    workspace.put_plan_run(7, "Complete", finishedAt=stamp(workspace.now()), plan={"id": 13})
    workspace.faults["plans/13/full"] = OVERLOADED
    await scenario.polls.plan_runs.poll()
    for _ in range(2):
        with suppress(TryLaterError):
            await scenario.polls.plan_children.poll()
        await clock.advance(86_401)
    reads = workspace.count("plans/13/full")

    assert await scenario.polls.plan_children.poll() is False
    assert workspace.count("plans/13/full") == reads


async def parent_of(scenario: Scenario, job_group_id: int) -> str | None:
    state = await scenario.state(job_group_id)
    assert state is not None
    return state.parents.plan_run


def plan_with_children(*, plan_run_id: int, job_group_ids: tuple[int, ...]) -> dict[str, object]:
    """Return a full plan as the API shows it: node, its run, and the results of that."""
    results = [{"id": number, "jobGroup": {"id": number}} for number in job_group_ids]
    task_run = {
        "id": 1,
        "planSnapshotRun": {"id": plan_run_id},
        "planFlowTaskRunResults": {"data": results},
    }
    node = {"id": 55, "taskType": "flow", "planTaskSnapshotRuns": {"data": [task_run]}}
    return {"id": 13, "name": "Nightly", "planNodes": {"data": [node]}}
