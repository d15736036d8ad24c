"""Active runs that are denied: some were deleted, but all at once is hardly the truth."""

from __future__ import annotations

import asyncio

import pytest

from monitor.model.errors import MonitorError
from tests.clocks import ManualClock
from tests.polling.conftest import NAME, Scenario, until
from tests.polling.tiny_workspace import TinyWorkspace


def doubted(scenario: Scenario) -> list[str]:
    return [doubt.name for doubt in scenario.live_state.workspaces[NAME].doubted]


async def test_runs_that_vanish_all_at_once_are_not_lost(
    scenario: Scenario, workspace: TinyWorkspace, clock: ManualClock
) -> None:
    """Three denials beside an empty list end nothing before a run that was known is shown again.

    Flows that are shown are no proof: who sees them need not see their runs.
    """
    workspace.tables["flows"] = {11: {"id": 11, "name": "Sales"}}
    workspace.put_job_group(9, "Complete")
    await scenario.poll("names")
    for number in (1, 2, 3):
        workspace.put_job_group(number)
    await scenario.poll("changes")
    tables = workspace.tables
    workspace.tables = {name: {} for name in tables} | {"flows": tables["flows"]}
    for _ in range(6):
        await clock.advance(300)
        await scenario.poll("names")
        with pytest.raises(MonitorError):
            await scenario.poll("reconciliation")
    assert len(scenario.live_state.active) == 3
    assert "job groups" in doubted(scenario)

    workspace.tables["jobLibrary"] = {9: tables["jobLibrary"][9]}
    await scenario.poll("relist")
    await clock.advance(300)
    await scenario.poll("reconciliation")
    events = await scenario.run_events()
    assert [f"{number}:lost" in events for number in (1, 2, 3)] == [True] * 3
    assert doubted(scenario) == []


async def test_runs_that_return_after_all_vanished_go_on(
    scenario: Scenario, workspace: TinyWorkspace, clock: ManualClock
) -> None:
    """After an outage in which the workspace denied everything, no run has been lost."""
    for number in (1, 2, 3):
        workspace.put_job_group(number)
    await scenario.poll("changes")
    tables = workspace.tables
    workspace.tables = {name: {} for name in tables}
    for _ in range(4):
        await clock.advance(300)
        with pytest.raises(MonitorError):
            await scenario.poll("reconciliation")
    workspace.tables = tables
    await clock.advance(300)
    await scenario.poll("reconciliation")
    assert doubted(scenario) == []
    workspace.put_job_group(1, "Complete")
    await scenario.poll("changes")

    assert not [event for event in await scenario.run_events() if event.endswith("lost")]
    assert "1:succeeded" in await scenario.run_events()


async def test_a_single_plan_run_is_not_lost_where_all_job_groups_vanish(
    scenario: Scenario, workspace: TinyWorkspace, clock: ManualClock
) -> None:
    """Its first denial may come while an answer of just before still shows job groups."""
    workspace.put_plan_run(5)
    for number in (1, 2, 3):
        workspace.put_job_group(number)
    await scenario.poll("changes")
    await scenario.polls.plan_runs.poll()
    tables = workspace.tables
    workspace.tables = tables | {"planSnapshotRuns": {}}
    await clock.advance(300)
    await scenario.poll("reconciliation")
    workspace.tables = {name: {} for name in tables}
    for _ in range(3):
        await clock.advance(300)
        with pytest.raises(MonitorError):
            await scenario.poll("reconciliation")

    assert not [event for event in await scenario.run_events() if event.endswith("lost")]
    assert len(scenario.live_state.active) == 4


async def test_an_answer_that_was_asked_for_before_a_denial_is_no_proof(
    scenario: Scenario, workspace: TinyWorkspace, clock: ManualClock
) -> None:
    """It may show what was there just before all runs vanished, when only one is denied."""
    workspace.put_plan_run(5)
    for number in (1, 2, 3):
        workspace.put_job_group(number)
    await scenario.poll("changes")
    await scenario.polls.plan_runs.poll()
    await clock.advance(30)
    late, denial = asyncio.Event(), asyncio.Event()
    workspace.holds = {"jobLibrary": late}
    changes = asyncio.create_task(scenario.poll("changes"))
    await until(lambda: workspace.count("jobLibrary") == 2)
    workspace.holds = {"planSnapshotRuns/5": denial}
    workspace.tables["planSnapshotRuns"] = {}
    reconciliation = asyncio.create_task(scenario.poll("reconciliation"))
    await until(lambda: workspace.count("planSnapshotRuns/5") == 1)
    await clock.advance(1)
    denial.set()
    await reconciliation
    await clock.advance(1)
    late.set()
    await changes

    await clock.advance(1)
    workspace.tables = {name: {} for name in workspace.tables}
    with pytest.raises(MonitorError):
        await scenario.poll("changes")
    await clock.advance(scenario.context.settings.reconcile_seconds * 0.6)
    with pytest.raises(MonitorError):
        await scenario.poll("reconciliation")
    assert not [event for event in await scenario.run_events() if event.endswith("lost")]
    assert len(scenario.live_state.active) == 4


async def test_two_of_two_active_runs_may_be_lost(
    scenario: Scenario, workspace: TinyWorkspace, clock: ManualClock
) -> None:
    """Few runs are deleted together now and then; they end as before."""
    for number in (1, 2):
        workspace.put_job_group(number)
    await scenario.poll("changes")
    workspace.tables["jobLibrary"].clear()
    for _ in range(3):
        await clock.advance(300)
        await scenario.poll("reconciliation")

    events = await scenario.run_events()
    assert [f"{number}:lost" in events for number in (1, 2)] == [True] * 2


async def test_a_deletion_among_many_active_runs_is_no_doubt(
    scenario: Scenario, workspace: TinyWorkspace, clock: ManualClock
) -> None:
    """The others are shown in the same reading, so the workspace is the one that it was."""
    for number in range(1, 6):
        workspace.put_job_group(number)
    await scenario.poll("changes")
    del workspace.tables["jobLibrary"][2]
    for _ in range(2):
        await clock.advance(300)
        await scenario.poll("reconciliation")

    assert "2:lost" in await scenario.run_events()
    assert len(scenario.live_state.active) == 4
    assert doubted(scenario) == []


async def test_runs_that_appear_after_a_denial_have_not_vanished_with_it(
    scenario: Scenario, workspace: TinyWorkspace, clock: ManualClock
) -> None:
    """A run that was deleted is lost, though others began while it was denied again."""
    workspace.put_job_group(1)
    await scenario.poll("changes")
    del workspace.tables["jobLibrary"][1]
    await clock.advance(300)
    await scenario.poll("reconciliation")
    await clock.advance(300)
    denial = asyncio.Event()
    workspace.holds = {"jobGroups/1": denial}
    reads = workspace.count("jobGroups/1")
    reconciliation = asyncio.create_task(scenario.poll("reconciliation"))
    await until(lambda: workspace.count("jobGroups/1") > reads)
    for number in (2, 3):
        workspace.put_job_group(number)
    changes = asyncio.create_task(scenario.poll("changes"))
    await until(lambda: len(scenario.live_state.active) == 3)
    denial.set()
    await asyncio.gather(reconciliation, changes)

    assert doubted(scenario) == []
    assert "1:lost" in await scenario.run_events()
