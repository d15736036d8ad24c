"""Ends of job groups that a list hides while their job records go on being read."""

from __future__ import annotations

from datetime import timedelta

import pytest

from monitor.model.errors import MonitorError
from monitor.model.runs import Source, Status
from tests.clocks import ManualClock
from tests.polling.conftest import Scenario
from tests.polling.tiny_workspace import FORBIDDEN, NO_OBJECT, TinyWorkspace, stamp


async def hide_first_run(scenario: Scenario, workspace: TinyWorkspace, clock: ManualClock) -> None:
    """Begin two runs; no list shows the first from then on."""
    for number in (1, 2):
        workspace.put_job_group(number)
        workspace.put_job(number, "InProgress")
    await scenario.poll("changes")
    await clock.advance(600)
    await scenario.poll("changes")
    workspace.unlisted["jobLibrary"] = {1}


def end_jobs(workspace: TinyWorkspace, *words: str) -> None:
    workspace.jobs[1] = []
    for word in words:
        ended = stamp(workspace.now() - timedelta(seconds=5))
        workspace.put_job(1, word, startedAt=stamp(workspace.now()), finishedAt=ended)


@pytest.mark.parametrize(("refusal", "readings"), [(FORBIDDEN, 1), (NO_OBJECT, 2)])
async def test_an_end_that_only_job_records_show_is_an_end(
    scenario: Scenario,
    workspace: TinyWorkspace,
    clock: ManualClock,
    refusal: tuple[int, str],
    readings: int,
) -> None:
    """It is published with the time of the records, marked derived, within their reading.

    One answer that the run does not exist is evidence of nothing: it must be denied twice.
    """
    await hide_first_run(scenario, workspace, clock)
    workspace.faults["jobGroups/1"] = refusal
    end_jobs(workspace, "Complete", "Failed")
    ended_at = workspace.now() - timedelta(seconds=5)
    for _ in range(readings):
        assert "1:failed" not in await scenario.run_events()
        await clock.advance(61)
        await scenario.poll("progress")

    assert "1:failed" in await scenario.run_events()
    state = await scenario.state(1)
    assert state is not None
    assert state.finished_at == ended_at
    assert (state.status, state.has_derived_end) == (Status.FAILED, True)
    assert scenario.key(2) in scenario.live_state.active


@pytest.mark.parametrize(("word", "then"), [("Failed", []), ("Complete", ["corrected"])])
async def test_the_workspace_confirms_or_corrects_what_job_records_showed(
    scenario: Scenario, workspace: TinyWorkspace, clock: ManualClock, word: str, then: list[str]
) -> None:
    """The list that shows the run again decides, as for any derived end."""
    await hide_first_run(scenario, workspace, clock)
    workspace.faults["jobGroups/1"] = FORBIDDEN
    end_jobs(workspace, "Failed")
    await scenario.poll("progress")
    workspace.faults.clear()
    workspace.unlisted.clear()
    workspace.put_job_group(1, word)
    await scenario.poll("changes")

    state = await scenario.state(1)
    assert state is not None
    assert (state.ended_by, state.native_status) == (Source.POLL, word)
    events = await scenario.run_events()
    assert events.count("1:failed") == 1
    assert [event for event in events if event == "1:corrected"] == [f"1:{name}" for name in then]


async def test_an_end_that_its_id_shows_is_read_when_job_records_are_over(
    scenario: Scenario, workspace: TinyWorkspace, clock: ManualClock
) -> None:
    """No list need show it, and none need be believed again: the row is the workspace's word."""
    await hide_first_run(scenario, workspace, clock)
    workspace.put_job_group(1, "Failed")
    end_jobs(workspace, "Failed")
    await scenario.poll("progress")

    state = await scenario.state(1)
    assert state is not None
    assert (state.status, state.has_derived_end) == (Status.FAILED, False)


async def test_jobs_that_are_over_do_not_end_a_run_that_goes_on(
    scenario: Scenario, workspace: TinyWorkspace, clock: ManualClock
) -> None:
    """More jobs may come; what the workspace says of the run itself stands."""
    await hide_first_run(scenario, workspace, clock)
    end_jobs(workspace, "Complete")
    for _ in range(3):
        await clock.advance(61)
        await scenario.poll("progress")

    assert scenario.key(1) in scenario.live_state.active


async def test_job_records_do_not_stand_for_the_reading_of_a_hidden_run(
    scenario: Scenario, workspace: TinyWorkspace, clock: ManualClock
) -> None:
    """Records may show no end; in doubt the run is read by its id as often as without one."""
    workspace.put_job_group(1)
    workspace.put_job(1, "InProgress")
    await scenario.poll("changes")
    await clock.advance(600)
    await scenario.poll("changes")
    workspace.unlisted["jobLibrary"] = workspace.EVERYTHING
    await clock.advance(300)
    with pytest.raises(MonitorError):
        await scenario.poll("reconciliation")
    workspace.put_job_group(1, "Failed")
    for _ in range(6):
        await clock.advance(61)
        await scenario.poll("progress")
    with pytest.raises(MonitorError):
        await scenario.poll("reconciliation")

    assert "1:failed" in await scenario.run_events()


async def test_runs_that_go_on_delay_no_hidden_end(
    scenario: Scenario, workspace: TinyWorkspace, clock: ManualClock
) -> None:
    """Sixty runs whose records are over are read in turns, those that go on less and less often."""
    runs = range(1, 61)
    for number in runs:
        workspace.put_job_group(number)
        workspace.put_job(number, startedAt=stamp(workspace.now()))
    await scenario.poll("changes")
    workspace.unlisted["jobLibrary"] = runs
    workspace.put_job_group(1, "Failed")
    for _ in range(8):
        await clock.advance(61)
        await scenario.poll("progress")
    assert "1:failed" in await scenario.run_events()

    before = workspace.count("jobGroups/[0-9]+")
    for _ in range(10):
        await clock.advance(61)
        await scenario.poll("progress")
    assert 59 <= workspace.count("jobGroups/[0-9]+") - before <= 100
    assert scenario.key(2) in scenario.live_state.active
