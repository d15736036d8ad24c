"""How often each list is read: plan runs as often as they change, and the first lists first."""

from __future__ import annotations

from monitor.model.runs import RunKind
from monitor.polling.settings import PollSettings
from tests.app.eventually import pause
from tests.clocks import ManualClock
from tests.polling.conftest import NAME, Scenario, asleep
from tests.polling.test_polling_poller import running
from tests.polling.tiny_workspace import TinyWorkspace

SETTINGS = PollSettings(jitter_share=0.0)
PLAN_RUNS = "planSnapshotRuns"


async def lists_in(workspace: TinyWorkspace, clock: ManualClock, *, seconds: int) -> int:
    """Return how often plan runs are listed for their changes in so many seconds."""
    before = len(workspace.requests)
    for _ in range(seconds):
        await clock.advance(1)
        await asleep(clock)
    changes = [
        path
        for path, query in workspace.requests[before:]
        if path == PLAN_RUNS and "dateFilter[updatedAt][gte]" in query
    ]
    return len(changes)


async def test_plan_runs_are_listed_often_only_while_one_runs(
    unbegun: Scenario, workspace: TinyWorkspace, clock: ManualClock
) -> None:
    """While other runs are active their list is read as when nothing runs at all."""
    unbegun.settings = SETTINGS
    workspace.put_job_group(1)
    async with running(unbegun.poller()):
        await asleep(clock)
        await clock.advance(SETTINGS.idle_seconds)
        await asleep(clock)
        without = await lists_in(workspace, clock, seconds=120)
        workspace.put_plan_run(7)
        await clock.advance(SETTINGS.idle_seconds)
        await asleep(clock)
        assert unbegun.key(7, RunKind.PLAN_RUN) in unbegun.live_state.active
        during = await lists_in(workspace, clock, seconds=60)

    assert without <= 120 / SETTINGS.idle_seconds + 1
    assert during >= 60 / SETTINGS.active_seconds - 1


async def test_a_part_of_an_unknown_plan_run_shows_its_start_at_once(
    unbegun: Scenario, workspace: TinyWorkspace, clock: ManualClock
) -> None:
    """The plan run is known a second after its first part, however long the interval is."""
    unbegun.settings = SETTINGS
    workspace.put_job_group(1)
    async with running(unbegun.poller()):
        await asleep(clock)
        await clock.advance(SETTINGS.idle_seconds)
        await asleep(clock)
        await lists_in(workspace, clock, seconds=2)
        workspace.put_plan_run(7)
        workspace.put_job_group(2, ranfor="plan")
        seconds = 0
        while unbegun.key(2) not in unbegun.live_state.active:
            await lists_in(workspace, clock, seconds=1)
            seconds += 1
        await lists_in(workspace, clock, seconds=1)

    assert seconds <= SETTINGS.active_seconds + 1
    assert unbegun.key(7, RunKind.PLAN_RUN) in unbegun.live_state.active


async def test_lists_that_were_never_read_come_before_all_else(
    unbegun: Scenario, workspace: TinyWorkspace, clock: ManualClock
) -> None:
    """Flows and schedules are known within seconds, however many ends wait for the budget."""
    for run_id in range(100, 160):
        workspace.put_flow_run(run_id, "Complete")
        recipe = {"id": run_id, "flow": {"id": run_id, "name": f"Flow {run_id}"}}
        workspace.put_job_group(run_id, "Complete", flowRun={"id": run_id}, wrangledDataset=recipe)
    await clock.advance(3_600)
    unbegun.settings, unbegun.requests_per_minute = SETTINGS, 60.0
    await unbegun.close()
    await unbegun.open()
    began, polls = clock.monotonic(), unbegun.live_state.polls
    async with running(unbegun.poller()):
        while not {(NAME, "names"), (NAME, "schedules")} <= polls.keys():
            await clock.advance(0.05)
            await pause(0.001)
        took_seconds = clock.monotonic() - began

    assert workspace.count("flowRuns/.*") < 60
    assert took_seconds < 20
