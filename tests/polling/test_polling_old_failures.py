"""Failures from before the first start get their reasons, or the word that none will be known."""

from __future__ import annotations

import pytest

from monitor.model.runs import RunKind, RunState
from monitor.polling.poll_loop.poll import Interval
from tests.clocks import ManualClock
from tests.polling.conftest import Scenario
from tests.polling.plan_rows import SNAPSHOT, put_plan, put_snapshot
from tests.polling.tiny_workspace import OVERLOADED, TinyWorkspace, stamp

_DAY = 86_400.0
_PLAN_RUN = RunKind.PLAN_RUN


async def known(scenario: Scenario, run_id: int, kind: RunKind = RunKind.JOB_GROUP) -> RunState:
    state = await scenario.state(run_id, kind)
    assert state is not None
    return state


def put_failed_plan_run(workspace: TinyWorkspace, plan_run: int, group: int) -> None:
    """Let a plan run have failed because of one job group."""
    workspace.put_job_group(group, "Failed", ranfor="plan")
    workspace.put_job(group, "Failed", errorMessage=f"disk {group} is full")
    at = stamp(workspace.now())
    workspace.put_plan_run(plan_run, "Failed", plan={"id": SNAPSHOT}, finishedAt=at)


async def read_history(scenario: Scenario, clock: ManualClock) -> None:
    """Let the lists be read to their ends, and nothing else."""
    for _ in range(2):
        await scenario.polls.changes.poll()
        await scenario.polls.plan_runs.poll()
        await clock.advance(1)
    await scenario.poll("history")


async def follow_for(scenario: Scenario, clock: ManualClock, minutes: int) -> None:
    for _ in range(minutes):
        await scenario.poll("plan_children")
        await scenario.poll("old_failures")
        await scenario.poll("reasons")
        await clock.advance(60)


async def test_failures_from_before_get_their_reasons(
    unbegun: Scenario, workspace: TinyWorkspace, clock: ManualClock
) -> None:
    """The newest first, of flow runs too, with what nothing else needs, and without an event."""
    for number in range(1, 31):
        workspace.put_job_group(number, "Failed", flowRun={"id": 100 + number})
        workspace.put_job(number, "Failed", errorMessage=f"disk {number} is full")
        workspace.put_flow_run(100 + number, "Failed")
        await clock.advance(60)
    await unbegun.begin()
    await unbegun.polls.changes.poll()
    for _ in range(3):
        await unbegun.poll("old_flow_runs")
    before = await unbegun.state(30)
    assert before is not None
    assert (before.error, before.detailed, before.historical) == (None, False, True)

    await unbegun.poll("old_failures")
    explained = [await unbegun.state(number) for number in (30, 11, 10)]
    errors = [run.error if run is not None else "" for run in explained]
    assert errors == ["disk 30 is full", "disk 11 is full", None]
    assert await unbegun.poll("old_failures")
    assert not await unbegun.poll("old_failures")
    await unbegun.poll("reasons")
    flow_run = await unbegun.state(130, RunKind.FLOW_RUN)
    assert flow_run is not None
    assert (flow_run.error, flow_run.detailed) == ("disk 30 is full", True)
    assert await unbegun.run_events() == []


@pytest.mark.parametrize("restarted_after_seconds", [None, 0.0, 2 * _DAY])
async def test_an_old_plan_run_that_its_plan_names_no_more_is_concluded(
    unbegun: Scenario,
    workspace: TinyWorkspace,
    clock: ManualClock,
    restarted_after_seconds: float | None,
) -> None:
    """It shows no reason for good; the one that is named gets its own, whenever we restarted."""
    put_plan(workspace)
    for plan_run, group in ((7, 1), (8, 2)):
        put_failed_plan_run(workspace, plan_run, group)
        await clock.advance(300)
    put_snapshot(workspace, {8: [2]})
    await unbegun.begin()
    await read_history(unbegun, clock)
    if restarted_after_seconds is not None:
        await clock.advance(restarted_after_seconds)
        await unbegun.restart()
    await follow_for(unbegun, clock, minutes=30)

    named, unnamed = await known(unbegun, 8, _PLAN_RUN), await known(unbegun, 7, _PLAN_RUN)
    assert (named.error, named.detailed) == ("disk 2 is full", True)
    assert (unnamed.error, unnamed.failed_part, unnamed.detailed) == (None, None, True)
    assert await unbegun.run_events() == []


async def test_an_old_plan_run_waits_while_its_plan_cannot_be_read(
    unbegun: Scenario, workspace: TinyWorkspace, clock: ManualClock
) -> None:
    """Nothing is said for good of what an outage hides."""
    put_plan(workspace)
    put_failed_plan_run(workspace, 7, 1)
    put_snapshot(workspace, {7: [1]})
    await clock.advance(300)
    await unbegun.begin()
    await read_history(unbegun, clock)
    workspace.faults[f"plans/{SNAPSHOT}/full"] = OVERLOADED
    for _ in range(30):
        await unbegun.poll("old_failures")
        await clock.advance(60)
    assert not (await known(unbegun, 7, _PLAN_RUN)).detailed


async def test_the_newest_failures_are_read_first_and_then_all_others(
    unbegun: Scenario, workspace: TinyWorkspace, clock: ManualClock
) -> None:
    """After those of the first page the others, more slowly, until nothing is left to read."""
    for number in range(1, 521):
        workspace.put_job_group(number, "Failed")
        workspace.put_job(number, "Failed", errorMessage=f"disk {number} is full")
        await clock.advance(1)
    await unbegun.begin()
    await read_history(unbegun, clock)
    for _ in range(25):
        assert _interval_seconds(unbegun) == 10.0
        assert await unbegun.poll("old_failures")
    assert (await known(unbegun, 21)).error == "disk 21 is full"
    assert not (await known(unbegun, 20)).detailed
    await follow_for(unbegun, clock, minutes=5)

    assert [(await known(unbegun, number)).error for number in (1, 20)] == [
        "disk 1 is full",
        "disk 20 is full",
    ]
    assert not await unbegun.poll("old_failures")
    assert _interval_seconds(unbegun) == unbegun.settings.reconcile_seconds


async def test_a_failure_that_was_followed_is_left_to_those_who_follow_it(
    scenario: Scenario, workspace: TinyWorkspace, clock: ManualClock
) -> None:
    """A plan run that fails without a failed part may get one for a day."""
    put_plan(workspace)
    put_snapshot(workspace)
    workspace.put_plan_run(7, plan={"id": SNAPSHOT})
    await read_history(scenario, clock)
    at = stamp(workspace.now())
    workspace.put_plan_run(7, "Failed", plan={"id": SNAPSHOT}, finishedAt=at)
    await scenario.polls.plan_runs.poll()
    await follow_for(scenario, clock, minutes=30)
    assert not (await known(scenario, 7, _PLAN_RUN)).detailed


def _interval_seconds(scenario: Scenario) -> float:
    timing = scenario.declared["old_failures"].timing
    assert isinstance(timing, Interval)
    return timing.seconds()
