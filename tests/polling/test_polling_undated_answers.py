"""A workspace whose answers carry no ``Date``, and whose clock is minutes away from ours."""

from __future__ import annotations

from datetime import timedelta

import pytest

from monitor.model.runs import Status
from tests.clocks import ManualClock
from tests.polling.conftest import Scenario
from tests.polling.tiny_workspace import TinyWorkspace


@pytest.fixture(params=[-20, -5, 5, 20], ids=lambda minutes: f"{minutes} min ahead")
def workspace_ahead(request: pytest.FixtureRequest, workspace: TinyWorkspace) -> TinyWorkspace:
    """The workspace, by so many minutes ahead of us; it does not say so."""
    workspace.sends_date = False
    workspace.hidden = ("updatedAt",)  # lists show none; a read by id may
    workspace.offset = timedelta(minutes=request.param)
    return workspace


async def end_without_times(
    scenario: Scenario, workspace: TinyWorkspace, clock: ManualClock, number: int, word: str
) -> None:
    """Let a run end without a time from the workspace, after it was shown active."""
    workspace.put_job_group(number)
    await scenario.poll("changes")
    await clock.advance(30)
    row = workspace.put_job_group(number, word)
    shown = {key: value for key, value in row.items() if key != "updatedAt"}
    workspace.documents[f"jobGroups/{number}"] = shown
    await scenario.poll("reconciliation")


def last_status(scenario: Scenario) -> list[Status | None]:
    return [health.last_status for health in scenario.live_state.pipeline_health.values()]


async def test_ends_with_and_without_times_stay_in_their_order(
    workspace_ahead: TinyWorkspace, unbegun: Scenario, clock: ManualClock
) -> None:
    """The last state is that of the run that ended last, though only some ends have a time."""
    scenario, workspace = unbegun, workspace_ahead
    await scenario.begin()
    for number, words in enumerate((("Complete", "Failed"), ("Failed", "Complete"))):
        first, last = words
        workspace.put_job_group(10 * number + 1)
        await scenario.poll("changes")
        await clock.advance(30)
        workspace.put_job_group(10 * number + 1, first)
        await scenario.poll("reconciliation")
        await clock.advance(30)
        await end_without_times(scenario, workspace, clock, 10 * number + 2, last)
        assert last_status(scenario) == [Status(last.lower().replace("complete", "succeeded"))]
        await clock.advance(30)
        workspace.put_job_group(10 * number + 3)
        await scenario.poll("changes")
        await clock.advance(30)
        workspace.put_job_group(10 * number + 3, first)
        await scenario.poll("reconciliation")
        assert last_status(scenario) == [Status(first.lower().replace("complete", "succeeded"))]
        await clock.advance(30)
