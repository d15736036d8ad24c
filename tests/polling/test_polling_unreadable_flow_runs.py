"""Flow runs that can never be read: named after a few attempts, and held against no other."""

from __future__ import annotations

from datetime import timedelta

import pytest

from monitor.model.events import RunEvent
from monitor.model.runs import RunKind, Source, Status
from monitor.polling.flow_runs.tracked_flow_runs import Urgency
from monitor.polling.poll_loop.poll import WhenDue
from monitor.polling.poll_loop.runner import PollAttempts
from tests.clocks import ManualClock
from tests.polling.conftest import NAME, Scenario
from tests.polling.tiny_workspace import FORBIDDEN, NO_OBJECT, TinyWorkspace

BROKEN = (500, "InternalServerError")
PROXY = (404, "")
FLOW_RUN = RunKind.FLOW_RUN
_POLLS = ("changes", "plan_runs", "names", "schedules", *Urgency)


def put(workspace: TinyWorkspace, run_id: int, status: str = "Complete") -> None:
    """Write a flow run of a flow of its own, with its job group."""
    workspace.put_flow_run(run_id, status)
    workspace.put_job_group(
        run_id,
        status,
        flowRun={"id": run_id},
        wrangledDataset={"id": run_id, "flow": {"id": run_id, "name": f"Flow {run_id}"}},
    )


async def poll_for(scenario: Scenario, clock: ManualClock, *, minutes: int) -> None:
    """Run the polls as a poller does: what fails is recorded, and stops no other."""
    attempts = PollAttempts(scenario.context, scenario.registry)
    for _ in range(minutes * 4):
        for name in _POLLS:
            poll = scenario.declared[name]
            if not isinstance(poll.timing, WhenDue) or poll.timing.seconds_until_due() == 0:
                await attempts.attempt(name, poll.run, again_seconds=None)
        await clock.advance(15)


def named(scenario: Scenario) -> list[str]:
    return [run.id for run in scenario.live_state.workspaces[NAME].unreadable]


@pytest.mark.parametrize("fault", [FORBIDDEN, BROKEN, PROXY, NO_OBJECT])
@pytest.mark.parametrize("is_old", [False, True])
async def test_an_unreadable_flow_run_is_named_and_the_first_hour_goes_on(
    unbegun: Scenario,
    workspace: TinyWorkspace,
    clock: ManualClock,
    fault: tuple[int, str],
    *,
    is_old: bool,
) -> None:
    """From before or from now: "reading" ends, the others are confirmed, and its id is shown.

    One that is gone is not named: the workspace says so.
    """
    workspace.faults["flowRuns/71.*"] = fault
    for run_id in (70, 71) if is_old else (70,):
        put(workspace, run_id)
    await clock.advance(60)
    await unbegun.begin()
    if not is_old:
        put(workspace, 71)
    await poll_for(unbegun, clock, minutes=1)
    put(workspace, 72)
    await poll_for(unbegun, clock, minutes=15)

    assert unbegun.live_state.view.first_reads(NAME) == ()
    assert (NAME, FLOW_RUN) in unbegun.live_state.complete
    assert named(unbegun) == ([] if fault is NO_OBJECT else ["71"])


async def test_the_only_flow_run_is_named_and_proves_nothing(
    unbegun: Scenario, workspace: TinyWorkspace, clock: ManualClock
) -> None:
    """Where no flow run can be read at all, none counts as confirmed, and nothing is "reading"."""
    put(workspace, 70)
    await clock.advance(60)
    await unbegun.begin()
    workspace.faults["flowRuns/.*"] = BROKEN
    for run_id in (71, 72):
        put(workspace, run_id)
    await poll_for(unbegun, clock, minutes=15)

    assert unbegun.live_state.view.first_reads(NAME) == ()
    assert sorted(named(unbegun)) == ["70", "71", "72"]
    confirmed = unbegun.live_state.confirmed[NAME, FLOW_RUN]
    assert clock.now() - confirmed >= timedelta(minutes=15)
    assert (NAME, FLOW_RUN) not in unbegun.live_state.complete


async def test_a_run_that_can_be_read_again_is_no_longer_named(
    unbegun: Scenario, workspace: TinyWorkspace, clock: ManualClock
) -> None:
    """It is tried on, less and less often, and its end is published."""
    await unbegun.begin()
    put(workspace, 71)
    workspace.faults["flowRuns/71.*"] = BROKEN
    await poll_for(unbegun, clock, minutes=2)
    assert named(unbegun) == ["71"]
    workspace.faults.clear()
    await poll_for(unbegun, clock, minutes=6)

    assert named(unbegun) == []
    assert (await unbegun.run_events(FLOW_RUN))[-1] == "71:succeeded"


async def test_the_failure_of_a_refused_flow_run_is_that_of_its_parts(
    unbegun: Scenario, workspace: TinyWorkspace, clock: ManualClock
) -> None:
    """Derived, and marked so; what it is reported as once it can be read again confirms it."""
    await unbegun.begin()
    put(workspace, 70)
    workspace.put_flow_run(71)
    workspace.put_job_group(71, "InProgress", flowRun={"id": 71})
    other = {"id": 46, "recipe": {"id": 46, "name": "Load"}}
    workspace.put_job_group(72, "Failed", flowRun={"id": 71}, wrangledDataset=other)
    workspace.faults["flowRuns/71.*"] = FORBIDDEN
    await poll_for(unbegun, clock, minutes=5)
    assert unbegun.key(71, FLOW_RUN) in unbegun.live_state.active

    workspace.put_job_group(71, "Complete")
    await poll_for(unbegun, clock, minutes=5)
    state = await unbegun.state(71, FLOW_RUN)
    assert state is not None
    assert (state.status, state.ended_by) == (Status.FAILED, Source.PARTS)
    assert state.failed_part is not None
    assert state.failed_part.key == unbegun.key(72)
    events = [recorded.event for recorded in await unbegun.bus.events(after=0, limit=1_000)]
    (failed,) = (event for event in events if event.id == f"{unbegun.key(71, FLOW_RUN)}:failed")
    assert isinstance(failed, RunEvent)
    assert failed.observed_by is Source.PARTS


@pytest.mark.parametrize("status", ["Failed", "Complete"])
async def test_the_later_report_of_a_refused_flow_run_decides(
    unbegun: Scenario, workspace: TinyWorkspace, clock: ManualClock, status: str
) -> None:
    """The same end confirms the derived one, another one corrects it."""
    await unbegun.begin()
    workspace.put_flow_run(71, status)
    workspace.put_job_group(72, "Failed", flowRun={"id": 71})
    workspace.faults["flowRuns/71.*"] = FORBIDDEN
    await poll_for(unbegun, clock, minutes=3)
    assert (await unbegun.run_events(FLOW_RUN))[-1] == "71:failed"

    workspace.faults.clear()
    await clock.advance(600)
    await unbegun.poll("derived_flow_runs")
    events = await unbegun.run_events(FLOW_RUN)
    corrected = ["71:corrected", "71:succeeded"] if status == "Complete" else []
    assert [event for event in events if event != "71:detailed"] == [
        *("71:queued", "71:started", "71:failed"),
        *corrected,
    ]
    state = await unbegun.state(71, FLOW_RUN)
    assert state is not None
    assert state.failed_part is not None  # which a success hides
    assert state.error is None


@pytest.mark.parametrize("minutes", [10, pytest.param(120, marks=pytest.mark.soak)])
async def test_a_derived_failure_is_confirmed_whenever_the_rights_come_back(
    unbegun: Scenario, workspace: TinyWorkspace, clock: ManualClock, minutes: int
) -> None:
    """At the latest after as long as they were withdrawn, and the flow run is no longer named."""
    await unbegun.begin()
    workspace.put_flow_run(71, "Complete")
    workspace.put_job_group(72, "Failed", flowRun={"id": 71})
    workspace.faults["flowRuns/71.*"] = FORBIDDEN
    await poll_for(unbegun, clock, minutes=minutes)
    assert (await unbegun.run_events(FLOW_RUN))[-1] == "71:failed"
    refused = workspace.count("flowRuns/71.*")
    workspace.faults.clear()
    await poll_for(unbegun, clock, minutes=minutes)

    assert "71:corrected" in await unbegun.run_events(FLOW_RUN)
    assert named(unbegun) == []
    assert refused <= 20


async def test_a_flow_run_that_is_gone_is_named_no_more(
    unbegun: Scenario, workspace: TinyWorkspace, clock: ManualClock
) -> None:
    """It could not be read, and then was deleted: nothing else would take it from the list."""
    await unbegun.begin()
    put(workspace, 70)
    put(workspace, 71)
    workspace.faults["flowRuns/71.*"] = BROKEN
    await poll_for(unbegun, clock, minutes=2)
    assert named(unbegun) == ["71"]
    workspace.faults["flowRuns/71.*"] = NO_OBJECT
    for run_id in (72, 73):  # known ones are shown as ever
        put(workspace, run_id)
        await poll_for(unbegun, clock, minutes=5)
        await unbegun.poll("reconciliation")

    assert "71:lost" in await unbegun.run_events(FLOW_RUN)
    assert named(unbegun) == []


@pytest.mark.parametrize("is_repeated", [False, True])
async def test_a_refused_flow_run_whose_parts_succeeded_stays_unknown(
    unbegun: Scenario, workspace: TinyWorkspace, clock: ManualClock, *, is_repeated: bool
) -> None:
    """Also where one failed first and was repeated: another part may still come, and fail."""
    await unbegun.begin()
    workspace.put_flow_run(71)
    if is_repeated:
        workspace.put_job_group(70, "Failed", flowRun={"id": 71})
        await clock.advance(5)
    workspace.put_job_group(71, "Complete", flowRun={"id": 71})
    workspace.faults["flowRuns/71.*"] = FORBIDDEN
    await poll_for(unbegun, clock, minutes=10)

    assert named(unbegun) == ["71"]
    assert await unbegun.run_events(FLOW_RUN) == ["71:queued", "71:started"]
