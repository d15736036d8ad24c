"""Runs that their ids show and no list does, although it shows others."""

from __future__ import annotations

import pytest

from monitor.model.errors import DoubtedListError
from monitor.model.live_state import UnlistedRuns
from monitor.model.runs import RunKind
from tests.clocks import ManualClock
from tests.polling.conftest import NAME, Scenario
from tests.polling.tiny_workspace import TinyWorkspace

TABLES = {RunKind.JOB_GROUP: "jobLibrary", RunKind.PLAN_RUN: "planSnapshotRuns"}
CHANGES = {RunKind.JOB_GROUP: "changes", RunKind.PLAN_RUN: "plan_runs"}


def put(workspace: TinyWorkspace, kind: RunKind, run_id: int, status: str = "InProgress") -> None:
    if kind is RunKind.JOB_GROUP:
        workspace.put_job_group(run_id, status)
    else:
        workspace.put_plan_run(run_id, status)


async def reconcile(scenario: Scenario, clock: ManualClock) -> tuple[UnlistedRuns, ...]:
    """Go on by one reconciliation, and return what no list shows."""
    await clock.advance(scenario.settings.reconcile_seconds)
    await scenario.poll("reconciliation")
    return scenario.live_state.workspaces[NAME].unlisted


@pytest.mark.parametrize("kind", list(TABLES))
async def test_a_run_that_no_list_shows_is_named_for_a_day(
    scenario: Scenario, workspace: TinyWorkspace, clock: ManualClock, kind: RunKind
) -> None:
    """Two reconciliations find it by its id alone; its end does not make the list whole."""
    workspace.unlisted[TABLES[kind]] = {2}
    for run_id in (1, 2):
        put(workspace, kind, run_id)
    await scenario.poll(CHANGES[kind])
    await scenario.polls.by_id.track(scenario.key(2, kind))
    assert await reconcile(scenario, clock) == ()
    named = (UnlistedRuns(kind=kind, ids=("2",), count=1),)
    assert await reconcile(scenario, clock) == named
    assert scenario.live_state.workspaces[NAME].doubted == ()

    put(workspace, kind, 2, "Complete")
    assert await reconcile(scenario, clock) == named
    await clock.advance(86_400)
    assert await reconcile(scenario, clock) == ()


async def test_a_run_that_a_list_shows_late_is_named_no_more(
    scenario: Scenario, workspace: TinyWorkspace, clock: ManualClock
) -> None:
    """Such a list is slow, and shows what no list names as well."""
    workspace.unlisted["jobLibrary"] = {2}
    for run_id in (1, 2):
        workspace.put_job_group(run_id)
    await scenario.poll("changes")
    await scenario.polls.by_id.track(scenario.key(2))
    for _ in range(2):
        await reconcile(scenario, clock)
    assert scenario.live_state.workspaces[NAME].unlisted
    workspace.unlisted.clear()
    assert await reconcile(scenario, clock) == ()


async def test_a_list_that_shows_nothing_known_proves_nothing(
    scenario: Scenario, workspace: TinyWorkspace, clock: ManualClock
) -> None:
    """It may be empty by mistake, and is doubted as such."""
    workspace.unlisted["jobLibrary"] = workspace.EVERYTHING
    workspace.put_job_group(2)
    await scenario.polls.by_id.track(scenario.key(2))
    for _ in range(3):
        with pytest.raises(DoubtedListError):
            await reconcile(scenario, clock)
        assert scenario.live_state.workspaces[NAME].unlisted == ()
