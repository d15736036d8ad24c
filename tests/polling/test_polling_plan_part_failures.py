"""A part of a plan run fails: its event names the plan run, where that can be known in time."""

from __future__ import annotations

import asyncio

import msgspec
import pytest

from monitor.model.events import EventType, RunEvent
from monitor.model.observations import Observation
from monitor.model.runs import Source
from monitor.polling.settings import PollSettings
from monitor.workspace.priority import Priority
from tests.clocks import ManualClock
from tests.polling.conftest import Scenario, until
from tests.polling.plan_rows import (
    SNAPSHOT,
    begin_plan_run,
    plan_run_of,
    put_plan,
    put_snapshot,
)
from tests.polling.tiny_workspace import FORBIDDEN, TinyWorkspace, stamp

FULL = f"plans/{SNAPSHOT}/full"


_FEW_PER_MINUTE = 120.0  # requests


@pytest.fixture
def settings() -> PollSettings:
    return PollSettings(detail_wait_seconds=1.0)


async def test_the_failure_of_a_part_carries_its_plan_run(
    scenario: Scenario, workspace: TinyWorkspace
) -> None:
    """The record is read at once where an unlinked part fails, and its event waits for that."""
    await begin_plan_run(scenario, workspace)
    workspace.put_job_group(1, "InProgress", ranfor="plan")
    await scenario.polls.changes.poll()
    put_snapshot(workspace, {7: [1]})
    workspace.faults["jobGroups/1/jobs"] = FORBIDDEN
    workspace.put_job_group(1, "Failed", ranfor="plan")
    reading = asyncio.create_task(scenario.polls.details.run())
    await scenario.polls.changes.poll()
    reading.cancel()

    assert (await failed_event(scenario, 1)).run.parents.plan_run == "7"


async def test_a_failure_waits_only_so_long_for_its_plan_run(
    scenario: Scenario, workspace: TinyWorkspace, clock: ManualClock
) -> None:
    """A record that does not come in time is read by the poll, and the run linked then."""
    await begin_plan_run(scenario, workspace)
    put_snapshot(workspace, {7: [1]})
    workspace.put_job_group(1, "Failed", ranfor="plan")
    hold = workspace.holds[FULL] = asyncio.Event()
    reads = workspace.count(FULL)
    polling = asyncio.create_task(scenario.polls.changes.poll())
    await until(lambda: workspace.count(FULL) > reads)
    await clock.advance(1)
    await polling
    assert (await failed_event(scenario, 1)).run.parents.plan_run is None

    hold.set()
    assert scenario.polls.plan_children.seconds_until_due() == 0
    await scenario.polls.plan_children.poll()
    assert await plan_run_of(scenario, 1) == "7"


async def test_the_end_that_a_callback_reports_carries_its_plan_run(
    scenario: Scenario, workspace: TinyWorkspace
) -> None:
    """A failure that a callback reports of an active, unlinked part is completed alike."""
    await begin_plan_run(scenario, workspace)
    row = workspace.put_job_group(1, "InProgress", ranfor="plan")
    await scenario.polls.changes.poll()
    put_snapshot(workspace, {7: [1]})
    workspace.faults["jobGroups/1/jobs"] = FORBIDDEN
    state = scenario.live_state.active[scenario.key(1)].run
    assert row["ranfor"] == state.ran_for == "plan"
    reported = callback_of(scenario, 1)
    reading = asyncio.create_task(scenario.polls.details.run())
    (complete,) = await scenario.polls.job_groups.complete((reported,))
    reading.cancel()

    assert complete.parents.plan_run == "7"


async def failed_event(scenario: Scenario, run_id: int) -> RunEvent:
    events = [recorded.event for recorded in await scenario.bus.events(after=0, limit=100)]
    (failed,) = (
        event
        for event in events
        if isinstance(event, RunEvent)
        and event.type is EventType.RUN_FAILED
        and event.run.key == scenario.key(run_id)
    )
    return failed


def callback_of(scenario: Scenario, run_id: int) -> Observation:
    return Observation(
        key=scenario.key(run_id),
        source=Source.CALLBACK,
        observed_at=scenario.clock.now(),
        native_status="Failed",
        inbox_id=1,
    )


async def test_a_part_of_the_refetch_queue_fails_with_its_plan_run(
    scenario: Scenario, workspace: TinyWorkspace
) -> None:
    """A failure that could not be decoded in a list names its plan run all the same."""
    await begin_plan_run(scenario, workspace)
    put_snapshot(workspace, {7: [1]})
    workspace.put_job(1, "Failed", finishedAt=stamp(workspace.now()))
    workspace.put_job_group(1, "Failed", ranfor="plan")
    row = await scenario.client.runs.job_group("1", priority=Priority.RECONCILIATION)
    await scenario.polls.job_groups.handle_queued(row, is_last=False)

    assert (await failed_event(scenario, 1)).run.parents.plan_run == "7"


async def test_a_part_that_is_listed_late_is_linked_after_a_restart(
    scenario: Scenario, workspace: TinyWorkspace, clock: ManualClock
) -> None:
    """Its failure names the plan run, minutes after that has ended and was forgotten here."""
    await begin_plan_run(scenario, workspace)
    put_snapshot(workspace, {7: [1]})
    created_at = stamp(workspace.now())
    await clock.advance(30)
    workspace.put_plan_run(7, "Failed", finishedAt=stamp(workspace.now()))
    await scenario.polls.plan_runs.poll()
    await clock.advance(600)
    await scenario.restart()
    workspace.faults["jobGroups/1/jobs"] = FORBIDDEN
    workspace.put_job_group(1, "Failed", ranfor="plan", createdAt=created_at)
    reading = asyncio.create_task(scenario.polls.details.run())
    await scenario.polls.changes.poll()
    reading.cancel()

    assert (await failed_event(scenario, 1)).run.parents.plan_run == "7"


async def test_a_part_that_is_listed_late_is_looked_up_once(
    scenario: Scenario, workspace: TinyWorkspace, clock: ManualClock
) -> None:
    """Successes are linked by the poll; what no record names costs a bounded number of reads."""
    await begin_plan_run(scenario, workspace)
    put_snapshot(workspace, {7: [1]})
    created_at = stamp(workspace.now())
    await clock.advance(30)
    workspace.put_plan_run(7, "Complete", finishedAt=stamp(workspace.now()))
    await scenario.polls.plan_runs.poll()
    await clock.advance(600)
    await scenario.restart()
    workspace.faults["jobGroups/.*/jobs"] = FORBIDDEN
    reading = asyncio.create_task(scenario.polls.details.run())
    for number in range(1, 21):
        flow = {"id": 45, "flow": {"id": 11 if number < 11 else 12}}
        workspace.put_job_group(
            number, "Complete", ranfor="plan", createdAt=created_at, wrangledDataset=flow
        )
        await scenario.polls.changes.poll()
        await scenario.polls.plan_children.poll()
    reading.cancel()
    while (wait := scenario.polls.plan_children.seconds_until_due()) is not None:
        await clock.advance(wait)
        await scenario.polls.plan_children.poll()

    assert [await plan_run_of(scenario, number) for number in (1, 2)] == ["7", None]
    assert workspace.count("planSnapshotRuns/7") == 1
    assert workspace.count(FULL) < 20


async def test_failures_that_no_plan_started_leave_the_budget_to_others(
    scenario: Scenario, workspace: TinyWorkspace, clock: ManualClock
) -> None:
    """Ten active plans share a flow that fails again and again: links keep to their share."""
    for number in range(10):
        put_plan(workspace, 13 + number, name=f"plan {number}")
        put_snapshot(workspace, {}, snapshot_id=900 + number, plan_id=13 + number)
        workspace.put_plan_run(7 + number, plan={"id": 900 + number})
    await scenario.polls.plan_runs.poll()
    scenario.client.settings = scenario.client.requester.settings = msgspec.structs.replace(
        scenario.client.settings, requests_per_minute=_FEW_PER_MINUTE
    )
    before, began_at = workspace.count("plans/9../full"), clock.monotonic()
    for number in range(24):
        workspace.put_job_group(100 + number, "Failed")
        observing = asyncio.create_task(scenario.polls.changes.poll())
        while not observing.done():
            await clock.advance(0.1)
        await observing
        await clock.advance(5)
    reads = workspace.count("plans/9../full") - before
    minutes = (clock.monotonic() - began_at) / 60
    burst = 10
    assert 0 < reads <= 0.15 * _FEW_PER_MINUTE * minutes + burst
