"""Flow runs: begun by their job groups, ended only by their own status."""

from __future__ import annotations

import asyncio
from datetime import timedelta

import pytest

from monitor.model.errors import NotAvailableError, WorkspaceUnreachableError
from monitor.model.runs import RunKind, Source, Status, Trigger
from monitor.workspace.priority import Priority
from tests.app.eventually import pause
from tests.clocks import ManualClock
from tests.polling.conftest import Scenario
from tests.polling.tiny_workspace import FORBIDDEN, OVERLOADED, TinyWorkspace, stamp

FLOW_RUN = RunKind.FLOW_RUN
BEGUN = ["71:queued", "71:started"]


async def poll_all(scenario: Scenario) -> None:
    """Poll for changes, then read every flow run whose time has come."""
    await scenario.polls.changes.poll()
    await scenario.polls.flow_runs.poll(scenario.polls.job_groups.handle)


def put(workspace: TinyWorkspace, number: int, status: str, **fields: object) -> None:
    workspace.put_job_group(number, status, flowRun={"id": 71}, **fields)


async def test_job_groups_show_the_start_and_the_status_the_end(
    scenario: Scenario, workspace: TinyWorkspace, clock: ManualClock
) -> None:
    """Waiting, running, over: each published once, with what its job groups show of the rest."""
    workspace.put_flow_run(71, "Created", scheduleExecutionId=9)
    created_at = workspace.now()
    put(workspace, 1, "Created", ranfrom="schedule")
    await poll_all(scenario)
    assert await scenario.run_events(FLOW_RUN) == ["71:queued"]

    put(workspace, 1, "InProgress")
    await poll_all(scenario)
    assert await scenario.run_events(FLOW_RUN) == BEGUN
    active = scenario.live_state.active[scenario.key(71, FLOW_RUN)].run
    assert (active.created_at, active.approximate) == (created_at, ("created_at",))

    await clock.advance(60)
    put(workspace, 1, "Complete")
    workspace.put_flow_run(71, "Complete")
    await poll_all(scenario)

    assert await scenario.run_events(FLOW_RUN) == [*BEGUN, "71:succeeded"]
    state = await scenario.state(71, FLOW_RUN)
    assert state is not None
    assert (state.trigger, state.finished_at) == (Trigger.SCHEDULE, workspace.now())
    assert "finished_at" in state.approximate
    assert state.started_at is None
    assert state.pipeline is not None
    assert state.pipeline.id == "11"


async def test_no_end_is_read_before_the_start_is_durable(
    scenario: Scenario, workspace: TinyWorkspace
) -> None:
    """However the reads of flow runs and of their parts overlap, start and creation are kept."""
    ids = range(71, 91)
    for number in ids:
        workspace.put_flow_run(number, "Complete")
        workspace.put_job_group(number, "Complete", flowRun={"id": number})
    changes = asyncio.create_task(scenario.polls.changes.poll())
    while not changes.done():
        await scenario.polls.flow_runs.poll(scenario.polls.job_groups.handle)
        await pause(0.0)
    await changes
    await scenario.polls.flow_runs.poll(scenario.polls.job_groups.handle)

    states = [await scenario.state(id_, FLOW_RUN) for id_ in ids]
    assert [state.created_at for state in states if state] == [workspace.now() for _ in ids]
    assert workspace.count("flowRuns/[0-9]+") == 0


async def test_the_end_is_never_computed(
    scenario: Scenario, workspace: TinyWorkspace, clock: ManualClock
) -> None:
    """All known job groups are over, the status is not: another job group may still appear."""
    workspace.put_flow_run(71)
    put(workspace, 1, "Complete")
    for _ in range(5):
        await poll_all(scenario)
        await clock.advance(61)
    assert await scenario.run_events(FLOW_RUN) == BEGUN

    put(workspace, 2, "InProgress")
    workspace.put_flow_run(71, "Complete")  # ahead of its job groups
    await poll_all(scenario)
    await clock.advance(61)
    await poll_all(scenario)
    assert await scenario.run_events(FLOW_RUN) == BEGUN

    put(workspace, 2, "Failed")
    workspace.put_flow_run(71, "Failed")
    await poll_all(scenario)

    assert await scenario.run_events(FLOW_RUN) == [*BEGUN, "71:failed"]


async def test_the_waits_grow_up_to_the_cap(
    scenario: Scenario, workspace: TinyWorkspace, clock: ManualClock
) -> None:
    """A flow run that stays unfinished costs ever fewer reads."""
    workspace.put_flow_run(71)
    put(workspace, 1, "Complete")
    await poll_all(scenario)
    waits = []
    for _ in range(9):
        wait = scenario.polls.flow_runs.seconds_until_due()
        assert wait is not None
        waits.append(wait)
        await clock.advance(wait)
        await scenario.polls.flow_runs.poll(scenario.polls.job_groups.handle)

    assert waits == [1, 2, 4, 8, 16, 32, 60, 60, 60]


async def test_an_unknown_listed_job_group_is_observed_before_the_end(
    scenario: Scenario, workspace: TinyWorkspace, clock: ManualClock
) -> None:
    """A job group that only the flow run's own list shows becomes a run, too."""
    workspace.put_flow_run(71, "Complete")
    put(workspace, 1, "Complete")
    late = stamp(workspace.now() - timedelta(seconds=600))
    await scenario.polls.changes.poll()
    await clock.advance(600)
    put(workspace, 2, "Complete", createdAt=late, updatedAt=late)
    await poll_all(scenario)

    events = await scenario.run_events()
    assert "2:succeeded" in events
    assert events.index("2:succeeded") < events.index("71:succeeded")


async def test_a_restart_finds_the_end(
    scenario: Scenario, workspace: TinyWorkspace, clock: ManualClock
) -> None:
    """A flow run whose job groups were over when the monitor stopped is read again."""
    workspace.put_flow_run(71)
    put(workspace, 1, "Complete")
    await poll_all(scenario)
    workspace.put_flow_run(71, "Canceled")
    await clock.advance(40_000)
    await scenario.restart()
    await scenario.polls.flow_runs.poll(scenario.polls.job_groups.handle)

    assert await scenario.run_events(FLOW_RUN) == [*BEGUN, "71:canceled"]


async def test_a_late_list_does_not_open_an_ended_group(
    scenario: Scenario, workspace: TinyWorkspace, clock: ManualClock
) -> None:
    """A slow list that shows a job group as it was does not hold the flow run active."""
    workspace.put_flow_run(71)
    put(workspace, 1, "InProgress")
    await poll_all(scenario)
    late = await scenario.client.runs.job_group("1", priority=Priority.RECONCILIATION)
    put(workspace, 1, "Complete")
    await scenario.polls.changes.poll()
    await scenario.polls.job_groups.handle((late,), Source.RECONCILIATION)
    workspace.put_flow_run(71, "Complete")
    await clock.advance(1)
    await scenario.polls.flow_runs.poll(scenario.polls.job_groups.handle)

    assert await scenario.run_events(FLOW_RUN) == [*BEGUN, "71:succeeded"]


async def test_a_running_group_after_a_restart_delays_the_read(
    scenario: Scenario, workspace: TinyWorkspace
) -> None:
    """While a known job group runs, nothing is read of its flow run but its record, once."""
    workspace.put_flow_run(71)
    put(workspace, 1, "InProgress")
    await poll_all(scenario)
    await scenario.restart()
    for _ in range(3):
        await poll_all(scenario)

    assert workspace.count("flowRuns/71/status") == 0
    assert workspace.count("flowRuns/71") <= 2


async def test_a_failing_read_is_raised_and_repeated(
    scenario: Scenario, workspace: TinyWorkspace, clock: ManualClock
) -> None:
    """One flow run that cannot be read does not keep another from its end."""
    for flow_run, group in ((71, 1), (72, 2)):
        workspace.put_flow_run(flow_run, "Complete")
        workspace.put_job_group(group, "Complete", flowRun={"id": flow_run})
    workspace.faults["flowRuns/71.*"] = OVERLOADED
    await scenario.polls.changes.poll()
    with pytest.raises(WorkspaceUnreachableError):
        await scenario.polls.flow_runs.poll(scenario.polls.job_groups.handle)
    assert "72:succeeded" in await scenario.run_events()
    assert not scenario.polls.flow_runs.knows_all_ends()

    workspace.faults.clear()
    await clock.advance(2)
    await scenario.polls.flow_runs.poll(scenario.polls.job_groups.handle)

    assert "71:succeeded" in await scenario.run_events()
    assert scenario.polls.flow_runs.knows_all_ends()


async def test_a_refused_flow_run_never_ends_by_itself(
    scenario: Scenario, workspace: TinyWorkspace, clock: ManualClock
) -> None:
    """403 on its status leaves it active, however often it is tried."""
    workspace.faults["flowRuns/71.*"] = FORBIDDEN
    put(workspace, 1, "Complete")
    await scenario.polls.changes.poll()
    for _ in range(3):
        with pytest.raises(NotAvailableError):
            await scenario.polls.flow_runs.poll(scenario.polls.job_groups.handle)
        await clock.advance(301)

    assert await scenario.run_events(FLOW_RUN) == BEGUN


async def test_an_unfinished_sample_does_not_hide_the_end(
    scenario: Scenario, workspace: TinyWorkspace, clock: ManualClock
) -> None:
    """A listed group that is never followed is waited for by reading again."""
    workspace.put_flow_run(71, "Complete")
    put(workspace, 1, "Complete")
    put(workspace, 2, "InProgress", ranfor="sampling")
    await poll_all(scenario)
    assert await scenario.run_events(FLOW_RUN) == BEGUN

    put(workspace, 2, "Complete", ranfor="sampling")
    await clock.advance(61)
    await scenario.polls.flow_runs.poll(scenario.polls.job_groups.handle)

    assert await scenario.run_events() != []
    state = await scenario.state(71, FLOW_RUN)
    assert state is not None
    assert state.status is Status.SUCCEEDED
    assert await scenario.state(2) is None


async def test_a_tracked_flow_run_needs_no_job_group(
    scenario: Scenario, workspace: TinyWorkspace
) -> None:
    """A flow run that the operator names is followed before any job group has shown it."""
    workspace.put_flow_run(71, "Created")
    assert await scenario.polls.by_id.track(scenario.key(71, FLOW_RUN)) is True
    assert await scenario.run_events(FLOW_RUN) == ["71:queued"]

    workspace.put_flow_run(71, "Canceled")
    await scenario.polls.flow_runs.poll(scenario.polls.job_groups.handle)

    assert await scenario.run_events(FLOW_RUN) == [*BEGUN, "71:canceled"]


async def test_an_incomplete_row_after_a_restart_still_shows_the_end(
    scenario: Scenario, workspace: TinyWorkspace
) -> None:
    """The flow run stays known although the list omits it and the job group is not read again."""
    workspace.hidden = ("flowRun", "wrangledDataset")
    workspace.put_flow_run(71)
    put(workspace, 1, "InProgress")
    await poll_all(scenario)
    assert await scenario.run_events(FLOW_RUN) == BEGUN

    await scenario.restart()
    put(workspace, 1, "Complete")
    workspace.put_flow_run(71, "Complete")
    await poll_all(scenario)

    assert await scenario.run_events(FLOW_RUN) == [*BEGUN, "71:succeeded"]
