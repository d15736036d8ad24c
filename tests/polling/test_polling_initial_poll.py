"""The initial poll: runs that ended before are stored and never published."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import timedelta

import pytest

from monitor.catalogue.capabilities import Capability
from monitor.model.errors import TryLaterError
from monitor.model.live_state import HistoryRead, RefusedCapability
from monitor.model.runs import RunKind, Status, Trigger
from monitor.polling.flow_runs.tracked_flow_runs import Urgency
from monitor.workspace.priority import Priority
from tests.clocks import ManualClock
from tests.polling.conftest import NAME, Scenario
from tests.polling.tiny_workspace import OVERLOADED, TinyWorkspace, stamp


async def poll_all(scenario: Scenario) -> None:
    await scenario.polls.changes.poll()
    await scenario.polls.plan_runs.poll()
    await scenario.poll("reconciliation")
    for _ in range(3):
        await scenario.polls.flow_runs.poll(scenario.polls.job_groups.handle)


async def test_old_runs_seed_state_and_emit_nothing(
    unbegun: Scenario, workspace: TinyWorkspace, clock: ManualClock
) -> None:
    """Every kind of run that ended in the last day is remembered without an event."""
    workspace.put_flow_run(71, "Complete")
    workspace.put_job_group(1, "Complete", flowRun={"id": 71})
    workspace.put_job_group(2, "Failed", flowRun={"id": 72})
    workspace.put_flow_run(72, "Failed")
    finished = stamp(workspace.now())
    workspace.put_plan_run(7, "Complete", finishedAt=finished)
    await clock.advance(3_600)
    await unbegun.begin()
    await poll_all(unbegun)

    assert await unbegun.run_events() == []
    for run_id, kind, status in (
        (1, RunKind.JOB_GROUP, Status.SUCCEEDED),
        (7, RunKind.PLAN_RUN, Status.SUCCEEDED),
        (71, RunKind.FLOW_RUN, Status.SUCCEEDED),
        (72, RunKind.FLOW_RUN, Status.FAILED),
    ):
        state = await unbegun.state(run_id, kind)
        assert state is not None
        assert (state.status, state.historical) == (status, True)


async def test_a_restart_emits_no_old_run(
    unbegun: Scenario, workspace: TinyWorkspace, clock: ManualClock
) -> None:
    """An old job group shown again after a restart does not start its flow run again."""
    workspace.put_flow_run(71, "Complete")
    workspace.put_job_group(1, "Complete", flowRun={"id": 71})
    await clock.advance(30)
    await unbegun.begin()
    await unbegun.polls.changes.poll()
    await unbegun.restart()
    await poll_all(unbegun)

    assert await unbegun.run_events() == []


async def test_old_flow_runs_delay_no_end(
    unbegun: Scenario, workspace: TinyWorkspace, clock: ManualClock
) -> None:
    """Old flow runs have a poll of their own: the end of a new one is read without any of them."""
    for number in range(71, 91):
        workspace.put_flow_run(number, "Complete")
        workspace.put_job_group(number, "Complete", flowRun={"id": number})
    await clock.advance(3_600)
    await unbegun.begin()
    await unbegun.polls.changes.poll()
    workspace.put_flow_run(95, "Complete")
    workspace.put_job_group(95, "Complete", flowRun={"id": 95})
    await unbegun.polls.changes.poll()
    flow_runs = unbegun.polls.flow_runs
    await flow_runs.poll(unbegun.polls.job_groups.handle, Urgency.NOW)

    ended = await unbegun.state(95, RunKind.FLOW_RUN)
    assert ended is not None
    assert ended.status is Status.SUCCEEDED
    assert await unbegun.state(71, RunKind.FLOW_RUN) is None
    assert flow_runs.seconds_until_due(Urgency.NOW) is None
    assert flow_runs.seconds_until_due(Urgency.OLD) == 0.0


async def test_active_runs_of_the_initial_poll_are_followed(
    unbegun: Scenario, workspace: TinyWorkspace, clock: ManualClock
) -> None:
    """A run that began long ago and still runs is published, and so is its end."""
    workspace.put_job_group(1, "InProgress")
    await clock.advance(200_000)
    await unbegun.begin()
    await poll_all(unbegun)
    assert await unbegun.run_events() == ["1:queued", "1:started"]

    workspace.put_job_group(1, "Complete")
    await unbegun.polls.changes.poll()

    assert (await unbegun.run_events())[-1] == "1:succeeded"


async def test_an_end_that_only_job_records_can_date(
    unbegun: Scenario, workspace: TinyWorkspace, clock: ManualClock
) -> None:
    """The records of an old run edited after the start decide, also over a restart."""
    ended = stamp(workspace.now())
    for group in (1, 2):
        workspace.put_job_group(group, "Complete")
    await clock.advance(60)
    await unbegun.begin()
    await clock.advance(60)
    workspace.put_job(1, startedAt=ended, finishedAt=ended)
    workspace.put_job(2, startedAt=ended, finishedAt=stamp(workspace.now()))
    for group in (1, 2):
        workspace.put_job_group(group, "Complete", name="edited")
    workspace.faults["jobGroups/./jobs"] = OVERLOADED
    await unbegun.polls.changes.poll()
    assert await unbegun.run_events() == []

    await clock.advance(600)
    await unbegun.restart()
    workspace.faults.clear()
    await unbegun.polls.refetch_queue.poll(unbegun.polls.by_id.read_queued)

    assert {event.split(":")[0] for event in await unbegun.run_events()} == {"2"}
    state = await unbegun.state(1)
    assert state is not None
    assert state.historical


async def test_following_begins_once(
    unbegun: Scenario, workspace: TinyWorkspace, clock: ManualClock
) -> None:
    """A restart keeps since when runs are published, and what ended meanwhile is published."""
    await unbegun.begin()
    since = unbegun.since()
    await clock.advance(500)
    workspace.put_job_group(1, "Complete")
    await clock.advance(5_000)
    await unbegun.restart()
    await poll_all(unbegun)

    assert unbegun.since() == since
    assert since <= workspace.now() - timedelta(seconds=5_000)
    assert "1:succeeded" in await unbegun.run_events()


async def test_the_old_flow_runs_that_wait_are_bounded(
    unbegun: Scenario, workspace: TinyWorkspace, clock: ManualClock
) -> None:
    """A day of very much history is not kept in memory while it waits to be read."""
    for number in range(1, 1_201):
        workspace.put_job_group(number, "Complete", flowRun={"id": 10_000 + number})
    await clock.advance(60)
    await unbegun.begin()
    await unbegun.polls.changes.poll()

    assert len(unbegun.polls.flow_runs._tracked) == 1_000


async def test_the_newest_runs_are_known_first(
    unbegun: Scenario, workspace: TinyWorkspace, clock: ManualClock
) -> None:
    """A first list that breaks off has shown its newest rows; the watermark waits for the rest."""
    for number in range(1, 61):
        workspace.put_job_group(number, "Complete")
        workspace.put_plan_run(number, "Complete", finishedAt=stamp(workspace.now()))
        await clock.advance(600)
    unbegun.page_size = 20
    await unbegun.restart()

    def break_off(path: str, query: Mapping[str, str]) -> None:
        if path in ("jobLibrary", "planSnapshotRuns") and int(query.get("offset", 0)) > 0:
            workspace.faults[path] = OVERLOADED

    workspace.before_answer = break_off
    for poll in (unbegun.polls.changes.poll, unbegun.polls.plan_runs.poll):
        with pytest.raises(TryLaterError):
            await poll()
    for kind in (RunKind.JOB_GROUP, RunKind.PLAN_RUN):
        assert await unbegun.state(60, kind) is not None
        assert await unbegun.state(41, kind) is not None
        assert await unbegun.state(40, kind) is None
    assert unbegun.polls.changes.watermark.at is None
    await unbegun.poll("history")
    assert _history(unbegun).words == "3 of 24 h read"

    workspace.before_answer = None
    workspace.faults.clear()
    await poll_all(unbegun)
    await unbegun.poll("history")
    assert await unbegun.state(1) is not None
    assert unbegun.polls.changes.watermark.at is not None
    assert (_history(unbegun).words, _history(unbegun).is_over) == (None, True)
    assert await unbegun.run_events() == []


async def test_the_newest_flow_run_of_each_flow_comes_first(
    unbegun: Scenario, workspace: TinyWorkspace, clock: ManualClock
) -> None:
    """Old flow runs: the newest of every flow, then the newest of all; also after a restart."""
    for number in range(1, 41):
        flow = 12 if number == 5 else 11
        workspace.put_flow_run(100 + number, "Complete")
        workspace.put_job_group(
            number,
            "Complete",
            flowRun={"id": 100 + number},
            # Another recipe each time: nothing shows that it was all.
            wrangledDataset={"id": 40 + number, "flow": {"id": flow, "name": f"flow {flow}"}},
        )
        await clock.advance(600)
    await unbegun.begin()
    await unbegun.polls.changes.poll()
    old = unbegun.polls.flow_runs.old
    assert old.newest_of_flows() == {"140", "105"}
    assert [old.priority_of(run) for run in ("140", "139")] == [Priority.ENDS, Priority.INVENTORY]
    assert (NAME, RunKind.FLOW_RUN) not in unbegun.live_state.complete
    await unbegun.restart()
    workspace.requests.clear()
    await unbegun.poll("old_flow_runs")

    read = [int(path.split("/")[1]) for path, _ in workspace.requests if path.endswith("/status")]
    assert set(read) == {140, 105}
    for _ in range(3):
        await unbegun.poll("old_flow_runs")
    read = [int(path.split("/")[1]) for path, _ in workspace.requests if path.endswith("/status")]
    assert [set(read[2:6]), set(read[6:10])] == [set(range(136, 140)), set(range(132, 136))]
    await unbegun.polls.changes.poll()
    assert (NAME, RunKind.FLOW_RUN) in unbegun.live_state.complete
    await unbegun.polls.plan_runs.poll()
    await unbegun.poll("history")
    assert _history(unbegun).words == "2 of 24 h read"


async def test_an_old_flow_run_takes_one_read(
    unbegun: Scenario, workspace: TinyWorkspace, clock: ManualClock
) -> None:
    """Its job groups show the rest; one that has just ended may lack some, which its list shows."""
    for run_id in (71, 72):
        workspace.put_flow_run(run_id, "Complete")
        recipe = {"id": run_id, "flow": {"id": run_id, "name": f"Flow {run_id}"}}
        workspace.put_job_group(run_id, "Complete", flowRun={"id": run_id}, wrangledDataset=recipe)
        await clock.advance(119)
    await unbegun.begin()
    created_at = unbegun.since() - timedelta(seconds=238)
    await poll_all(unbegun)
    assert workspace.count("flowRuns/71.*") == 1
    assert workspace.count("flowRuns/72/jobGroups") == 1

    state = await unbegun.state(71, RunKind.FLOW_RUN)
    assert state is not None
    assert (state.status, state.historical) == (Status.SUCCEEDED, True)
    assert (state.created_at, state.finished_at) == (created_at, created_at)
    assert state.approximate == ("created_at", "finished_at")
    assert state.pipeline is not None
    assert (state.pipeline.id, state.trigger) == ("71", Trigger.MANUAL)


async def test_old_flow_runs_that_the_list_shows_in_full_take_no_read(
    unbegun: Scenario, workspace: TinyWorkspace, clock: ManualClock
) -> None:
    """The newest three of a flow are read, and those that failed; read later is the rest."""
    for number in range(1, 31):
        end = "Failed" if number == 5 else "Complete"
        workspace.put_flow_run(100 + number, end)
        workspace.put_job_group(number, end, flowRun={"id": 100 + number})
        await clock.advance(600)
    await unbegun.begin()
    await unbegun.polls.changes.poll()
    await clock.advance(1)
    await unbegun.polls.changes.poll()
    for _ in range(30):
        await unbegun.poll("old_flow_runs")
        await clock.advance(1)

    states = [await unbegun.state(100 + number, RunKind.FLOW_RUN) for number in range(1, 31)]
    assert [state.status.value for state in states if state is not None] == [
        "failed" if number == 5 else "succeeded" for number in range(1, 31)
    ]
    assert all(state.historical for state in states if state is not None)
    assert workspace.count("flowRuns/.*") <= 8
    assert await unbegun.run_events() == []

    workspace.put_flow_run(110, "Failed")
    await clock.advance(600)
    for _ in range(30):
        await unbegun.poll("derived_flow_runs")
        await clock.advance(60)
    state = await unbegun.state(110, RunKind.FLOW_RUN)
    assert state is not None
    assert state.status is Status.FAILED


async def test_more_old_flow_runs_than_are_kept_have_their_turn_afterwards(
    unbegun: Scenario, workspace: TinyWorkspace, clock: ManualClock
) -> None:
    """History goes on until nothing is left out."""
    for number in range(1, 1_201):
        workspace.put_flow_run(10_000 + number, "Complete")
        workspace.put_job_group(number, "Complete", flowRun={"id": 10_000 + number})
        await clock.advance(60)
    await unbegun.begin()
    await unbegun.polls.changes.poll()
    await clock.advance(1)
    await unbegun.polls.changes.poll()
    await unbegun.polls.plan_runs.poll()
    for _ in range(400):
        await unbegun.poll("old_flow_runs")
        await unbegun.poll("history")
        await clock.advance(1)

    assert _history(unbegun).is_over
    assert _history(unbegun).words is None
    assert await unbegun.state(10_001, RunKind.FLOW_RUN) is not None


async def test_history_is_not_over_while_a_list_is_refused(
    unbegun: Scenario, workspace: TinyWorkspace
) -> None:
    """A list that is refused for now is not read; history goes on when it is given back."""
    workspace.put_job_group(1, "Complete")
    await unbegun.begin()
    await poll_all(unbegun)
    refused = RefusedCapability(
        capability=Capability.LIST_PLAN_RUNS, since=workspace.now(), unwatched=(), reason="403"
    )
    unbegun.live_state.update_workspace(NAME, refused=(refused,))
    await unbegun.poll("history")
    assert not _history(unbegun).is_over

    unbegun.live_state.update_workspace(NAME, refused=())
    await unbegun.poll("history")
    assert _history(unbegun).is_over


def _history(scenario: Scenario) -> HistoryRead:
    history = scenario.live_state.workspaces[NAME].history
    assert history is not None
    return history
