"""The initial poll: runs that ended before are stored and never published."""

from __future__ import annotations

from datetime import timedelta

from monitor.model.runs import RunKind, Status
from monitor.polling.runs.tracked_flow_run import Urgency
from tests.clocks import ManualClock
from tests.polling.conftest import Scene
from tests.polling.tiny_workspace import OVERLOADED, TinyWorkspace, stamp


async def poll_all(scene: Scene) -> None:
    await scene.polls.changes.poll()
    await scene.polls.plan_runs.poll()
    await scene.poll("reconciliation")
    for _ in range(3):
        await scene.polls.flow_runs.poll(scene.polls.job_groups.handle)


async def test_old_runs_seed_state_and_emit_nothing(
    unbegun: Scene, workspace: TinyWorkspace, clock: ManualClock
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
    unbegun: Scene, workspace: TinyWorkspace, clock: ManualClock
) -> None:
    """An old job group shown again after a restart does not start its flow run anew."""
    workspace.put_flow_run(71, "Complete")
    workspace.put_job_group(1, "Complete", flowRun={"id": 71})
    await clock.advance(30)
    await unbegun.begin()
    await unbegun.polls.changes.poll()
    await unbegun.restart()
    await poll_all(unbegun)

    assert await unbegun.run_events() == []


async def test_no_end_waits_behind_old_flow_runs(
    unbegun: Scene, workspace: TinyWorkspace, clock: ManualClock
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


async def test_what_runs_at_the_initial_poll_is_followed(
    unbegun: Scene, workspace: TinyWorkspace, clock: ManualClock
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
    unbegun: Scene, workspace: TinyWorkspace, clock: ManualClock
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
    unbegun: Scene, workspace: TinyWorkspace, clock: ManualClock
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
    unbegun: Scene, workspace: TinyWorkspace, clock: ManualClock
) -> None:
    """A day of very much history is not kept in memory while it waits to be read."""
    for number in range(1, 1_201):
        workspace.put_job_group(number, "Complete", flowRun={"id": 10_000 + number})
    await clock.advance(60)
    await unbegun.begin()
    await unbegun.polls.changes.poll()

    assert len(unbegun.polls.flow_runs._tracked) == 1_000
