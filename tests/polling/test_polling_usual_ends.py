"""Ends of flow runs that their job groups show: without a read before, and with one after."""

from __future__ import annotations

from datetime import timedelta

from monitor.model.runs import Source, Status
from monitor.workspace.priority import Priority
from monitor.workspace.settings import WorkspaceSettings
from tests.clocks import ManualClock
from tests.polling.conftest import Scenario
from tests.polling.flow_run_rows import FLOW_RUN, end_usual, poll_all, put_run, reads, usual
from tests.polling.tiny_workspace import TinyWorkspace

DEFAULT = WorkspaceSettings(name="marketing", url="http://localhost")


async def test_a_usual_end_takes_no_read(
    scenario: Scenario, workspace: TinyWorkspace, clock: ManualClock
) -> None:
    """After three alike runs, the list of job groups shows the end, marked as derived from them."""
    await usual(scenario, workspace, clock)
    finished = clock.now() + timedelta(seconds=60)
    await end_usual(scenario, workspace, clock, 74)

    assert reads(workspace, 74) == 0
    state = await scenario.state(74, FLOW_RUN)
    assert state is not None
    assert (state.status, state.ended_by) == (Status.SUCCEEDED, Source.PARTS)
    assert (state.finished_at, "finished_at" in state.approximate) == (finished, True)


async def test_nothing_is_derived_before_a_list_that_began_after_the_last_part(
    scenario: Scenario, workspace: TinyWorkspace, clock: ManualClock
) -> None:
    """Rows after the last known part are seen first; without a new list the status is read."""
    await usual(scenario, workspace, clock)
    put_run(workspace, 74, status="InProgress")
    await poll_all(scenario)
    await clock.advance(59)
    await scenario.poll("flow_runs")
    assert (reads(workspace, 74), (await scenario.run_events(FLOW_RUN))[-1]) == (0, "74:started")

    await clock.advance(2)
    await scenario.poll("flow_runs")
    assert reads(workspace, 74) == 1


async def test_a_success_that_ends_a_failure_is_read(
    scenario: Scenario, workspace: TinyWorkspace, clock: ManualClock
) -> None:
    """The end that resolves an alert is what the workspace says, never a derived one."""
    await usual(scenario, workspace, clock)
    put_run(workspace, 74, part="Failed", status="Failed")
    await poll_all(scenario)
    await end_usual(scenario, workspace, clock, 75)

    assert reads(workspace, 75) == 1
    state = await scenario.state(75, FLOW_RUN)
    assert state is not None
    assert state.ended_by is Source.POLL


async def test_a_flow_run_of_a_plan_is_read(scenario: Scenario, workspace: TinyWorkspace) -> None:
    """A plan may be canceled after the last job group, which shows nothing of it."""
    for run_id in (71, 72, 73, 74):
        put_run(workspace, run_id, ranfor="plan")
        await poll_all(scenario)

    assert reads(workspace, 74) == 1


async def test_a_derived_end_is_confirmed_when_there_is_room(
    scenario: Scenario, workspace: TinyWorkspace, clock: ManualClock
) -> None:
    """It is read once, in the last class of the request budget; a true end makes no event."""
    await usual(scenario, workspace, clock)
    await end_usual(scenario, workspace, clock, 74)
    events = await scenario.run_events()
    poll = scenario.declared["derived_flow_runs"]
    assert poll.priority is Priority.INVENTORY

    await clock.advance(1)
    for _ in range(3):
        await poll.run()
        await clock.advance(60)
    assert (reads(workspace, 74), await scenario.run_events()) == (1, events)
    state = await scenario.state(74, FLOW_RUN)
    assert state is not None
    assert state.ended_by is Source.POLL


async def test_a_wrong_derived_end_is_corrected(
    scenario: Scenario, workspace: TinyWorkspace, clock: ManualClock
) -> None:
    """The workspace's later word stands, with the true end's own event, after a restart."""
    await usual(scenario, workspace, clock)
    await end_usual(scenario, workspace, clock, 74, status="Canceled")
    assert (await scenario.run_events(FLOW_RUN))[-1] == "74:succeeded"
    await scenario.restart()
    await clock.advance(60)
    await scenario.poll("derived_flow_runs")

    assert (await scenario.run_events(FLOW_RUN))[-2:] == ["74:corrected", "74:canceled"]


async def test_a_part_that_appears_after_a_derived_end_is_waited_for(
    scenario: Scenario, workspace: TinyWorkspace, clock: ManualClock
) -> None:
    """A flow with a new recipe: its failure corrects the end, and no request waits for room."""
    await usual(scenario, workspace, clock)
    await end_usual(scenario, workspace, clock, 74, status="InProgress")
    assert (await scenario.run_events(FLOW_RUN))[-1] == "74:succeeded"
    late = {"id": 47, "flow": {"id": 11, "name": "Sales"}}
    workspace.put_job_group(749, "InProgress", flowRun={"id": 74}, wrangledDataset=late)
    await poll_all(scenario)
    await clock.advance(600)
    await scenario.poll("derived_flow_runs")
    assert reads(workspace, 74) == 0

    workspace.put_job_group(749, "Failed")
    workspace.put_flow_run(74, "Failed")
    await scenario.polls.changes.poll()
    await scenario.poll("flow_runs")

    assert (await scenario.run_events(FLOW_RUN))[-2:] == ["74:corrected", "74:failed"]
    state = await scenario.state(74, FLOW_RUN)
    assert state is not None
    assert (state.finished_at, state.failed_part is not None) == (workspace.now(), True)


async def test_confirmations_take_a_twentieth_of_the_budget(
    scenario: Scenario, workspace: TinyWorkspace, clock: ManualClock
) -> None:
    """Of many derived ends one is read at a time, however many wait."""
    await usual(scenario, workspace, clock)
    for run_id in range(100, 130):
        put_run(workspace, run_id, status="Complete")
    await poll_all(scenario)
    await clock.advance(5)
    await scenario.polls.changes.poll()
    await scenario.poll("flow_runs")
    assert workspace.count("flowRuns/1[0-9]{2}/.*") == 0
    per_minute = scenario.client.settings.requests_per_minute * 0.05
    for number in range(1, 11):
        await clock.advance(60 / per_minute)
        await scenario.poll("derived_flow_runs")
        assert workspace.count("flowRuns/1[0-9]{2}/.*") == number


async def test_a_thousand_flow_runs_in_a_minute_need_five_minutes_of_the_budget(
    scenario: Scenario, workspace: TinyWorkspace, clock: ManualClock
) -> None:
    """All requests until every end is known: no more than 120 a minute are in five minutes."""
    before = len(workspace.requests)
    runs = range(1_000, 2_000)
    for run_id in runs:
        put_part(workspace, run_id, "InProgress")
        workspace.put_flow_run(run_id, "InProgress")
    await scenario.polls.changes.poll()
    await scenario.poll("flow_runs")
    for second in range(0, 60, 5):
        await clock.advance(5)
        for run_id in runs[second * 1_000 // 60 : (second + 5) * 1_000 // 60]:
            put_part(workspace, run_id, "Complete")
            workspace.put_flow_run(run_id, "Complete")
        await scenario.polls.changes.poll()
        await scenario.poll("flow_runs")
    for _ in range(2):
        await clock.advance(5)
        await scenario.polls.changes.poll()
        await scenario.poll("flow_runs")

    ends = [event for event in await scenario.run_events(FLOW_RUN) if event.endswith(":succeeded")]
    assert len(ends) == len(runs)
    assert len(workspace.requests) - before <= 5 * DEFAULT.requests_per_minute
    assert workspace.count("flowRuns/.*") <= 100


def put_part(workspace: TinyWorkspace, run_id: int, status: str) -> None:
    """Write the only job group of a flow run of one of 20 flows."""
    flow = run_id % 20
    workspace.put_job_group(
        run_id,
        status,
        flowRun={"id": run_id},
        wrangledDataset={"id": 500 + flow, "flow": {"id": 11 + flow, "name": f"Flow {flow}"}},
    )
