"""The ends of flow runs and plan runs carry what their parts show, at once or as soon as known."""

from __future__ import annotations

import asyncio
from datetime import datetime, timedelta

import pytest

from monitor.model.events import EventType, RunEvent
from monitor.model.runs import EndBasis, FailedPart, RunKind, RunState, Status
from monitor.polling.settings import PollSettings
from tests.clocks import ManualClock
from tests.polling.conftest import Scenario, until
from tests.polling.job_record_readers import detailed, readers
from tests.polling.plan_rows import begin_plan_run, put_snapshot
from tests.polling.tiny_workspace import FORBIDDEN, OVERLOADED, TinyWorkspace, stamp

FLOW_RUN, PLAN_RUN = RunKind.FLOW_RUN, RunKind.PLAN_RUN
RECIPE = {"id": 45, "recipe": {"id": 45, "name": "Clean"}, "flow": {"id": 11, "name": "Sales"}}


@pytest.fixture
def settings() -> PollSettings:
    return PollSettings(detail_wait_seconds=1.0)


def put_failed_job(workspace: TinyWorkspace, group: int, error: str) -> datetime:
    """Write the record of a job that fails now; return when."""
    at = workspace.now()
    workspace.put_job(group, "Failed", finishedAt=stamp(at), errorMessage={"message": error})
    return at


def end_group(workspace: TinyWorkspace, group: int, status: str, **fields: object) -> None:
    workspace.put_job_group(group, status, wrangledDataset=RECIPE, **fields)


async def state_of(scenario: Scenario, run_id: int, kind: RunKind) -> RunState:
    state = await scenario.state(run_id, kind)
    assert state is not None
    return state


async def end_of(scenario: Scenario, run_id: int, kind: RunKind) -> RunState:
    """Return the run as the event of its failure shows it."""
    events = [recorded.event for recorded in await scenario.bus.events(after=0, limit=1_000)]
    (failed,) = (
        event.run
        for event in events
        if isinstance(event, RunEvent)
        and event.type is EventType.RUN_FAILED
        and event.run.key == scenario.key(run_id, kind)
    )
    return failed


async def poll_flow_runs(scenario: Scenario) -> None:
    await scenario.polls.changes.poll()
    await scenario.polls.flow_runs.poll(scenario.polls.job_groups.handle)


async def test_a_failed_flow_run_carries_its_first_failed_part(
    scenario: Scenario, workspace: TinyWorkspace, clock: ManualClock
) -> None:
    """Error and part are of the job group that ended first, the end is that of the last one."""
    workspace.put_flow_run(71)
    for number in (1, 2, 3):
        end_group(workspace, number, "InProgress", flowRun={"id": 71})
    await scenario.polls.changes.poll()
    await clock.advance(10)
    put_failed_job(workspace, 2, "later")
    finished_at = workspace.now()
    workspace.put_job(3, "Complete", finishedAt=stamp(finished_at))
    failed_at = finished_at - timedelta(seconds=4)
    workspace.put_job(
        1, "Failed", finishedAt=stamp(failed_at), errorMessage={"message": "no such column"}
    )
    await clock.advance(3)
    for number, status in ((1, "Failed"), (2, "Failed"), (3, "Complete")):
        end_group(workspace, number, status)
    workspace.put_flow_run(71, "Failed")
    async with readers(scenario):
        await scenario.polls.changes.poll()
        # A success never waits for its records, which have the exact time of its end.
        await detailed(scenario, 3)
        await scenario.polls.flow_runs.poll(scenario.polls.job_groups.handle)

    end = await end_of(scenario, 71, FLOW_RUN)
    assert end.error == "no such column"
    assert end.failed_part == FailedPart(
        key=scenario.key(1), name="Clean", error="no such column", failed_at=failed_at
    )
    assert (end.finished_at, end.finished_by) == (finished_at, EndBasis.DERIVED)
    assert end.approximate == ("created_at", "finished_at")
    assert end.detailed
    assert scenario.polls.reasons.seconds_until_due() is None


async def test_a_reason_that_comes_later_is_observed_once(
    scenario: Scenario, workspace: TinyWorkspace, clock: ManualClock
) -> None:
    """The end waits only so long; then the state gets reason and time, by one more event."""
    workspace.put_flow_run(71, "Failed")
    finished_at = put_failed_job(workspace, 1, "no such column")
    await clock.advance(5)
    end_group(workspace, 1, "Failed", flowRun={"id": 71})
    hold = workspace.holds["jobGroups/1/jobs"] = asyncio.Event()
    async with readers(scenario):
        polling = asyncio.create_task(poll_flow_runs(scenario))
        await until(lambda: workspace.count("jobGroups/1/jobs") > 0)
        while not polling.done():
            await clock.advance(1)
        assert (await end_of(scenario, 71, FLOW_RUN)).error is None
        hold.set()
        await until(lambda: scenario.polls.details.waiting == 0)
        for _ in range(3):
            await clock.advance(1)
            await scenario.polls.reasons.poll()

    state = await state_of(scenario, 71, FLOW_RUN)
    assert state.failed_part is not None
    assert (state.error, state.failed_part.key) == ("no such column", scenario.key(1))
    assert (state.finished_at, state.detailed) == (finished_at, True)
    assert (await scenario.run_events(FLOW_RUN))[-2:] == ["71:failed", "71:detailed"]
    assert scenario.polls.reasons.seconds_until_due() is None


async def test_an_end_without_a_time_stays_without(
    scenario: Scenario, workspace: TinyWorkspace, clock: ManualClock
) -> None:
    """Where no job group has a known end, the record that was read before the end is none."""
    workspace.put_flow_run(71, "InProgress", updatedAt=stamp(workspace.now()))
    assert await scenario.polls.by_id.track(scenario.key(71, FLOW_RUN))
    await scenario.polls.flow_runs.poll(scenario.polls.job_groups.handle)
    await clock.advance(60)
    workspace.put_flow_run(71, "Canceled")
    await scenario.polls.flow_runs.poll(scenario.polls.job_groups.handle)

    state = await state_of(scenario, 71, FLOW_RUN)
    assert (state.finished_at, state.finished_by, state.approximate) == (None, None, ())
    assert state.status.is_terminal


async def test_the_end_of_one_part_is_not_that_of_the_whole(
    scenario: Scenario, workspace: TinyWorkspace, clock: ManualClock
) -> None:
    """Where a job group shows no time at all, its flow run may have ended as late as that."""
    workspace.faults["jobGroups/./jobs"] = FORBIDDEN
    workspace.put_flow_run(71, "InProgress")
    end_group(workspace, 1, "Complete", flowRun={"id": 71})
    end_group(workspace, 2, "InProgress", flowRun={"id": 71})
    async with readers(scenario):
        await poll_flow_runs(scenario)
        await clock.advance(60)
        end_group(workspace, 2, "Failed", updatedAt=None)
        workspace.put_flow_run(71, "Failed")
        await poll_flow_runs(scenario)

    end = await end_of(scenario, 71, FLOW_RUN)
    assert (end.finished_at, end.detailed) == (None, True)
    assert end.failed_part is not None
    assert end.failed_part.key == scenario.key(2)


async def test_a_succeeded_flow_run_gets_its_better_end(
    scenario: Scenario, workspace: TinyWorkspace, clock: ManualClock
) -> None:
    """Job records that come after the end of the flow run move it to when the last job ended."""
    workspace.put_flow_run(71, "Complete")
    finished_at = workspace.now()
    workspace.put_job(1, "Complete", finishedAt=stamp(finished_at))
    await clock.advance(30)
    end_group(workspace, 1, "Complete", flowRun={"id": 71})
    polling = asyncio.create_task(poll_flow_runs(scenario))
    while not polling.done():
        await clock.advance(1)
        await asyncio.sleep(0)
    assert (await state_of(scenario, 71, FLOW_RUN)).finished_at != finished_at
    async with readers(scenario):
        await until(lambda: scenario.polls.details.waiting == 0)
    await clock.advance(1)
    await scenario.polls.reasons.poll()

    state = await state_of(scenario, 71, FLOW_RUN)
    assert (state.finished_at, state.finished_by) == (finished_at, EndBasis.DERIVED)
    assert state.detailed


async def fail_plan_run(scenario: Scenario, workspace: TinyWorkspace) -> None:
    workspace.put_plan_run(7, "Failed", finishedAt=stamp(workspace.now()))
    await scenario.polls.plan_runs.poll()


async def test_a_failed_plan_run_carries_its_first_failed_part(
    scenario: Scenario, workspace: TinyWorkspace, clock: ManualClock
) -> None:
    """Also where the parts are linked only by the read that its end causes."""
    await begin_plan_run(scenario, workspace)
    workspace.put_flow_run(71, "Failed")
    failed_at = put_failed_job(workspace, 1, "disk full")
    async with readers(scenario):
        end_group(workspace, 1, "Failed", flowRun={"id": 71}, ranfor="plan")
        await poll_flow_runs(scenario)
        put_snapshot(workspace, {7: [1]})
        await clock.advance(3)
        await fail_plan_run(scenario, workspace)

    end = await end_of(scenario, 7, PLAN_RUN)
    assert end.failed_part == FailedPart(
        key=scenario.key(1), name="Clean", error="disk full", failed_at=failed_at
    )
    assert (end.error, end.finished_by, end.approximate) == ("disk full", EndBasis.REPORTED, ())
    assert end.detailed
    assert (await scenario.run_events(PLAN_RUN))[-1] == "7:failed"


async def test_a_part_whose_end_was_not_seen_yet_is_read_for_its_plan_run(
    scenario: Scenario, workspace: TinyWorkspace
) -> None:
    """The plan run's end is polled first: its part fails in the log before it, with the reason."""
    await begin_plan_run(scenario, workspace)
    end_group(workspace, 1, "InProgress", ranfor="plan")
    await scenario.polls.changes.poll()
    put_snapshot(workspace, {7: [1]})
    put_failed_job(workspace, 1, "disk full")
    end_group(workspace, 1, "Failed", ranfor="plan")
    async with readers(scenario):
        await fail_plan_run(scenario, workspace)

    end = await end_of(scenario, 7, PLAN_RUN)
    assert (end.error, end.detailed) == ("disk full", True)
    ends = [event for event in await scenario.run_events() if event.endswith(":failed")]
    assert ends == ["1:failed", "7:failed"]
    assert workspace.count("jobGroups/1") == 1


async def test_a_plan_run_whose_parts_are_named_late_gets_its_reason_late(
    scenario: Scenario, workspace: TinyWorkspace, clock: ManualClock
) -> None:
    """Its failure goes out in time; when the record is filled, one event brings the reason."""
    await begin_plan_run(scenario, workspace)
    put_failed_job(workspace, 1, "disk full")
    async with readers(scenario):
        end_group(workspace, 1, "Failed", ranfor="plan")
        await scenario.polls.changes.poll()
        await fail_plan_run(scenario, workspace)
    assert (await end_of(scenario, 7, PLAN_RUN)).failed_part is None

    put_snapshot(workspace, {7: [1]})
    for _ in range(8):
        await clock.advance(1)
        await scenario.polls.plan_children.poll()
        await scenario.polls.reasons.poll()
    state = await state_of(scenario, 7, PLAN_RUN)
    assert state.failed_part is not None
    assert (state.error, state.failed_part.key) == ("disk full", scenario.key(1))
    assert (await scenario.run_events(PLAN_RUN))[-2:] == ["7:failed", "7:detailed"]


async def test_a_plan_run_without_a_failed_part_is_final_after_a_day(
    scenario: Scenario, workspace: TinyWorkspace, clock: ManualClock
) -> None:
    """A request of the plan failed: until then a list that lags may still show a failed part."""
    await begin_plan_run(scenario, workspace)
    await fail_plan_run(scenario, workspace)
    for _ in range(60):
        await clock.advance(1)
        await scenario.polls.plan_children.poll()
        await scenario.polls.reasons.poll()
    assert not (await state_of(scenario, 7, PLAN_RUN)).detailed
    for _ in range(25):
        await clock.advance(3_600)
        await scenario.polls.reasons.poll()

    state = await state_of(scenario, 7, PLAN_RUN)
    assert (state.failed_part, state.error, state.detailed) == (None, None, True)
    assert scenario.polls.reasons.seconds_until_due() is None


async def test_a_part_that_is_still_active_keeps_a_reason_open(
    scenario: Scenario, workspace: TinyWorkspace, clock: ManualClock
) -> None:
    """Whatever the wait for links, the failure of a part that is seen hours later is the reason."""
    await begin_plan_run(scenario, workspace)
    put_snapshot(workspace, {7: [1]})
    end_group(workspace, 1, "InProgress", ranfor="plan")
    await scenario.polls.changes.poll()
    async with readers(scenario):
        await fail_plan_run(scenario, workspace)
        for _ in range(60):
            await clock.advance(60)
            await scenario.polls.plan_children.poll()
            await scenario.polls.reasons.poll()
        put_failed_job(workspace, 1, "disk full")
        end_group(workspace, 1, "Failed", ranfor="plan")
        await scenario.polls.changes.poll()
    await clock.advance(300)
    await scenario.polls.reasons.poll()

    state = await state_of(scenario, 7, PLAN_RUN)
    assert (state.error, state.detailed) == ("disk full", True)


async def test_records_that_can_never_be_read_hold_no_reason_open(
    scenario: Scenario, workspace: TinyWorkspace
) -> None:
    """The part is named without an error, and that is all there will be."""
    workspace.faults["jobGroups/1/jobs"] = FORBIDDEN
    workspace.put_flow_run(71, "Failed")
    end_group(workspace, 1, "Failed", flowRun={"id": 71})
    async with readers(scenario):
        await poll_flow_runs(scenario)

    end = await end_of(scenario, 71, FLOW_RUN)
    assert end.failed_part is not None
    assert (end.failed_part.key, end.error, end.detailed) == (scenario.key(1), None, True)


async def test_a_restart_resumes_open_reasons(
    scenario: Scenario, workspace: TinyWorkspace, clock: ManualClock
) -> None:
    """An end without its reason gets it after a restart, too."""
    workspace.put_flow_run(71, "Failed")
    put_failed_job(workspace, 1, "disk full")
    workspace.faults["jobGroups/1/jobs"] = OVERLOADED
    end_group(workspace, 1, "Failed", flowRun={"id": 71})
    async with readers(scenario):
        polling = asyncio.create_task(poll_flow_runs(scenario))
        while not polling.done():
            await clock.advance(1)
            await asyncio.sleep(0)
    assert (await end_of(scenario, 71, FLOW_RUN)).error is None

    workspace.faults.clear()
    await clock.advance(600)
    await scenario.restart()
    await scenario.polls.details.pick_up()
    async with readers(scenario):
        await until(lambda: scenario.polls.details.waiting == 0)
    await scenario.polls.reasons.poll()

    assert (await state_of(scenario, 71, FLOW_RUN)).error == "disk full"
    assert (await scenario.run_events(FLOW_RUN))[-1] == "71:detailed"


async def test_open_reasons_are_given_up(
    scenario: Scenario, workspace: TinyWorkspace, clock: ManualClock
) -> None:
    """After a day an end without its reason is final; nothing is looked up for it any more."""
    workspace.put_flow_run(71, "Failed")
    end_group(workspace, 1, "Failed", flowRun={"id": 71})
    polling = asyncio.create_task(poll_flow_runs(scenario))
    while not polling.done():
        await clock.advance(1)
        await asyncio.sleep(0)
    tries = 0
    while (wait := scenario.polls.reasons.seconds_until_due()) is not None:
        await clock.advance(wait)
        await scenario.polls.reasons.poll()
        tries += 1

    assert tries < 320
    assert (await state_of(scenario, 71, FLOW_RUN)).detailed


@pytest.mark.parametrize("is_repeated", [False, True])
async def test_a_success_names_the_part_whose_failure_it_hides(
    scenario: Scenario, workspace: TinyWorkspace, clock: ManualClock, *, is_repeated: bool
) -> None:
    """A flow may ignore that a recipe failed; one that was repeated with success hides nothing."""
    workspace.put_flow_run(71, "Complete")
    put_failed_job(workspace, 1, "no such column")
    end_group(workspace, 1, "Failed", flowRun={"id": 71})
    await clock.advance(5)
    recipe = RECIPE if is_repeated else {**RECIPE, "id": 46}
    workspace.put_job_group(2, "Complete", wrangledDataset=recipe, flowRun={"id": 71})
    async with readers(scenario):
        await poll_flow_runs(scenario)
        await until(lambda: scenario.polls.details.waiting == 0)
        for _ in range(3):
            await clock.advance(1)
            await scenario.polls.reasons.poll()

    state = await state_of(scenario, 71, FLOW_RUN)
    assert (state.status, state.error) == (Status.SUCCEEDED, None)
    if is_repeated:
        assert state.failed_part is None
    else:
        assert state.failed_part is not None
        shown = (state.failed_part.key, state.failed_part.name, state.failed_part.error)
        assert shown == (scenario.key(1), "Clean", "no such column")
