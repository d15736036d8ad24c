"""Reconciliation: what is active is listed, what is gone ends once, what was missed is found."""

from __future__ import annotations

from contextlib import suppress
from datetime import timedelta

import pytest

from monitor.model.errors import DoubtedListError, NotAvailableError, TryLaterError
from monitor.model.runs import NATIVE_STATUSES, RunKind
from tests.clocks import ManualClock
from tests.polling.conftest import Scenario
from tests.polling.tiny_workspace import (
    FORBIDDEN,
    NO_ROUTE,
    OVERLOADED,
    TinyWorkspace,
    stamp,
)


async def one_running(scenario: Scenario, workspace: TinyWorkspace, clock: ManualClock) -> None:
    workspace.put_job_group(1, "InProgress")
    await scenario.polls.changes.poll()
    await clock.advance(300)


async def test_an_active_run_before_the_overlap_is_found(
    scenario: Scenario, workspace: TinyWorkspace
) -> None:
    """A run whose stamp lies before the watermark less the overlap is observed while it runs."""
    await scenario.polls.changes.poll()
    late = stamp(workspace.now() - timedelta(seconds=1_000))
    workspace.put_job_group(1, "InProgress", createdAt=late, updatedAt=late)
    await scenario.polls.changes.poll()
    assert await scenario.run_events() == []

    await scenario.poll("reconciliation")

    assert await scenario.run_events() == ["1:queued", "1:started"]


async def test_an_ended_run_before_the_overlap_is_found(
    scenario: Scenario, workspace: TinyWorkspace
) -> None:
    """Runs of the last day are listed again, so that one missed whole is published."""
    await scenario.polls.changes.poll()
    late = stamp(workspace.now() - timedelta(seconds=1_000))
    workspace.put_job_group(1, "Failed", createdAt=late, updatedAt=late)
    workspace.put_plan_run(7, "Failed", createdAt=late, updatedAt=late, finishedAt=late)
    await scenario.polls.changes.poll()
    await scenario.poll("reconciliation")
    assert await scenario.run_events() == []

    await scenario.poll("relist")

    assert "1:failed" in await scenario.run_events(RunKind.JOB_GROUP)
    assert "7:failed" in await scenario.run_events(RunKind.PLAN_RUN)


async def test_only_what_the_lists_omit_is_read_by_id(
    scenario: Scenario, workspace: TinyWorkspace, clock: ManualClock
) -> None:
    """The reconciliation's cost is its pages plus the runs that ended unobserved."""
    for number in range(1, 6):
        workspace.put_job_group(number, "InProgress")
    await scenario.polls.changes.poll()
    await clock.advance(300)
    late = stamp(workspace.now() - timedelta(seconds=1_000))
    workspace.put_job_group(3, "Complete", updatedAt=late)
    await scenario.poll("reconciliation")

    assert [workspace.count(f"jobGroups/{number}") for number in range(1, 6)] == [0, 0, 1, 0, 0]
    assert "3:succeeded" in await scenario.run_events()


async def test_a_run_that_is_gone_twice_ends_once_as_lost(
    scenario: Scenario, workspace: TinyWorkspace, clock: ManualClock
) -> None:
    """One denial ends nothing, the second in another reconciliation does, a third adds nothing."""
    await one_running(scenario, workspace, clock)
    del workspace.tables["jobLibrary"][1]
    await scenario.poll("reconciliation")
    await scenario.poll("reconciliation")
    assert "1:lost" not in await scenario.run_events()

    for _ in range(2):
        await clock.advance(300)
        await scenario.poll("reconciliation")

    assert (await scenario.run_events()).count("1:lost") == 1


async def test_a_run_that_comes_back_is_not_lost(
    scenario: Scenario, workspace: TinyWorkspace, clock: ManualClock
) -> None:
    """Only consecutive denials count: an answer in between resets them."""
    await one_running(scenario, workspace, clock)
    row = workspace.tables["jobLibrary"].pop(1)
    await scenario.poll("reconciliation")
    await clock.advance(300)
    workspace.tables["jobLibrary"][1] = row
    await scenario.poll("reconciliation")
    await clock.advance(300)
    del workspace.tables["jobLibrary"][1]
    await scenario.poll("reconciliation")

    assert "1:lost" not in await scenario.run_events()


@pytest.mark.parametrize("fault", [FORBIDDEN, NO_ROUTE])
async def test_a_refusal_ends_nothing(
    scenario: Scenario, workspace: TinyWorkspace, clock: ManualClock, fault: tuple[int, str]
) -> None:
    """403 and an unknown route let live state grow old; no run ends by them."""
    await one_running(scenario, workspace, clock)
    del workspace.tables["jobLibrary"][1]
    workspace.faults["jobGroups/1"] = fault
    for _ in range(4):
        with pytest.raises(NotAvailableError):
            await scenario.poll("reconciliation")
        await clock.advance(300)

    assert await scenario.run_events() == ["1:queued", "1:started"]
    active = scenario.live_state.active[scenario.key(1)]
    assert active.confirmed_at < clock.now() - timedelta(seconds=900)


async def test_a_refusal_keeps_no_other_run_from_its_end(
    scenario: Scenario, workspace: TinyWorkspace, clock: ManualClock
) -> None:
    """The runs after a refused one are still read."""
    for number in (1, 2):
        workspace.put_job_group(number, "InProgress")
    await scenario.polls.changes.poll()
    await clock.advance(300)
    late = stamp(workspace.now() - timedelta(seconds=1_000))
    for number in (1, 2):
        workspace.put_job_group(number, "Complete", updatedAt=late)
    workspace.faults["jobGroups/1"] = FORBIDDEN
    with pytest.raises(NotAvailableError):
        await scenario.poll("reconciliation")

    assert "2:succeeded" in await scenario.run_events()


async def test_a_failed_list_concludes_nothing(
    scenario: Scenario, workspace: TinyWorkspace, clock: ManualClock
) -> None:
    """A run that a failed list could not show is neither read by id nor ended."""
    await one_running(scenario, workspace, clock)
    workspace.faults["jobLibrary"] = OVERLOADED
    for _ in range(3):
        with pytest.raises(TryLaterError):
            await scenario.poll("reconciliation")
        await clock.advance(300)

    assert workspace.count("jobGroups/1") == 0
    assert await scenario.run_events() == ["1:queued", "1:started"]


async def test_plan_runs_and_flow_runs_are_lost_too(
    scenario: Scenario, workspace: TinyWorkspace, clock: ManualClock
) -> None:
    """Deleted runs of every kind end, in a workspace that still shows runs of before."""
    ended = workspace.put_job_group(9, "Complete")
    workspace.put_plan_run(7, "InProgress")
    workspace.put_flow_run(71)
    workspace.put_job_group(1, "InProgress", flowRun={"id": 71})
    await scenario.polls.changes.poll()
    await scenario.polls.plan_runs.poll()
    workspace.tables["planSnapshotRuns"].clear()
    workspace.tables["jobLibrary"] = {9: ended}
    workspace.flow_run_words.clear()
    for _ in range(4):
        await clock.advance(300)
        with suppress(DoubtedListError):
            await scenario.poll("reconciliation")
        await scenario.poll("relist")

    events = await scenario.run_events()
    assert [f"{run}:lost" in events for run in (1, 7, 71)] == [True, True, True]
    assert not scenario.live_state.active


async def test_an_unknown_word_is_not_finished(
    scenario: Scenario, workspace: TinyWorkspace, clock: ManualClock
) -> None:
    """A run with an unknown status stays active and is confirmed by its id."""
    await one_running(scenario, workspace, clock)
    workspace.put_job_group(1, "Hibernating")
    await scenario.poll("reconciliation")

    active = scenario.live_state.active[scenario.key(1)]
    assert active.run.native_status == "Hibernating"
    assert active.confirmed_at == clock.now()


async def test_every_active_status_of_the_list_is_reconciled(
    scenario: Scenario, workspace: TinyWorkspace
) -> None:
    """A word that is added to the list is reconciled as well."""
    await scenario.poll("reconciliation")

    listed = {query["status"] for path, query in workspace.requests if path == "jobLibrary"}
    assert listed == {word for word, state in NATIVE_STATUSES.items() if not state.is_terminal}
