"""Details: job records are read once after an end, failures first, and never hold an end long."""

from __future__ import annotations

import asyncio
from datetime import timedelta

import pytest

from monitor.model.observations import Observation
from monitor.model.runs import JobCount, Source, Status
from monitor.polling.settings import PollSettings
from tests.clocks import ManualClock
from tests.polling.conftest import Scene, until
from tests.polling.job_record_readers import detailed, readers
from tests.polling.tiny_workspace import (
    FORBIDDEN,
    OVERLOADED,
    TinyWorkspace,
    stamp,
)


@pytest.fixture
def settings() -> PollSettings:
    return PollSettings(detail_wait_seconds=1.0)


async def test_an_end_carries_its_job_records(
    scene: Scene, workspace: TinyWorkspace, clock: ManualClock
) -> None:
    """Records that come in time give the end its times, its error and its counts."""
    created_at = workspace.now()
    started_at, finished_at = created_at + timedelta(seconds=5), created_at + timedelta(seconds=9)
    times = {"startedAt": stamp(started_at), "finishedAt": stamp(finished_at)}
    workspace.put_job(1, "Failed", errorMessage={"message": "no such column"}, **times)
    workspace.put_job(1, "Complete", jobType="filewriter", **times)
    await clock.advance(20)
    workspace.put_job_group(1, "Failed", createdAt=stamp(created_at))
    async with readers(scene):
        await scene.polls.changes.poll()

    state = await scene.state(1)
    assert state is not None
    assert (state.started_at, state.finished_at) == (started_at, finished_at)
    assert (state.approximate, state.detailed) == (("finished_at",), True)
    assert state.error == "no such column"
    assert state.jobs is not None
    assert state.jobs.counts == (
        JobCount(job_type="filewriter", status="succeeded", count=1),
        JobCount(job_type="wrangle", status="failed", count=1),
    )
    assert await scene.run_events() == ["1:queued", "1:started", "1:failed", "1:detailed"]
    assert workspace.count("jobGroups/1/jobs") == 1


async def test_a_failure_waits_only_so_long(
    scene: Scene, workspace: TinyWorkspace, clock: ManualClock
) -> None:
    """Late records are published by themselves; the failure was published without them."""
    workspace.put_job(1)
    workspace.put_job_group(1, "Failed")
    workspace.holds["jobGroups/1/jobs"] = asyncio.Event()
    async with readers(scene):
        polling = asyncio.create_task(scene.polls.changes.poll(), name="poll")
        await until(lambda: workspace.count("jobGroups/1/jobs") > 0)
        await clock.advance(1)
        await polling
        assert (await scene.run_events())[-1] == "1:failed"

        workspace.holds["jobGroups/1/jobs"].set()
        await detailed(scene, 1)
        await until(lambda: late_details(scene) == 1)

    assert (await scene.run_events())[-1] == "1:detailed"


def late_details(scene: Scene) -> float:
    return scene.sample("dataprep_monitor_observations_total", source="detail", outcome="changed")


async def test_failures_come_first(scene: Scene, workspace: TinyWorkspace) -> None:
    """When many runs end at once, the records of those that failed are read first."""
    for number in range(1, 13):
        workspace.put_job_group(number, "Failed" if number > 8 else "Complete")
        workspace.put_job(number)
    polling = asyncio.create_task(scene.polls.changes.poll(), name="poll")
    await until(lambda: len(scene.polls.details._queue) > 0)
    async with readers(scene):
        await polling
    runs_read = [
        int(path.split("/")[1]) for path, _ in workspace.requests if path.endswith("/jobs")
    ]

    assert set(runs_read[:4]) == {9, 10, 11, 12}
    assert len(runs_read) == len(set(runs_read))


async def test_a_callback_alone_reads_nothing(scene: Scene, workspace: TinyWorkspace) -> None:
    """A callback that names a run that was never observed costs no request for its records."""
    forged = Observation(
        key=scene.key(666),
        source=Source.CALLBACK,
        observed_at=scene.clock.now(),
        native_status="Failed",
        inbox_id=1,
    )
    async with readers(scene):
        assert await scene.polls.details.complete((forged,)) == [forged]

    assert workspace.count("jobGroups/666.*") == 0


async def test_a_callback_of_a_known_run_is_completed(
    scene: Scene, workspace: TinyWorkspace
) -> None:
    """The end that a callback shows carries the records and still completes that callback."""
    workspace.put_job_group(1, "InProgress")
    await scene.polls.changes.poll()
    workspace.put_job(1)
    reported = Observation(
        key=scene.key(1),
        source=Source.CALLBACK,
        observed_at=scene.clock.now(),
        native_status="Failed",
        inbox_id=1,
    )
    async with readers(scene):
        (complete,) = await scene.polls.details.complete((reported,))

    assert complete.is_detail_final
    assert complete.jobs is not None
    assert (complete.source, complete.inbox_id) == (Source.CALLBACK, 1)


async def test_refused_records_are_final(scene: Scene, workspace: TinyWorkspace) -> None:
    """403 on the records is not tried again, and the run counts as read."""
    workspace.faults["jobGroups/1/jobs"] = FORBIDDEN
    workspace.put_job_group(1, "Complete")
    async with readers(scene):
        await scene.polls.changes.poll()
        await until(lambda: scene.polls.details.waiting == 0)

    state = await scene.state(1)
    assert state is not None
    assert state.detailed
    assert await scene.polls.details.pick_up() is False
    assert scene.polls.details.waiting == 0


async def test_unread_records_are_picked_up_after_a_restart(
    scene: Scene, workspace: TinyWorkspace, clock: ManualClock
) -> None:
    """A stop between the end and its records loses only time."""
    workspace.put_job(1)
    workspace.put_job_group(1, "Complete")
    polling = asyncio.create_task(scene.polls.changes.poll(), name="poll")
    await until(lambda: len(scene.polls.details._queue) > 0)
    await clock.advance(1)
    await polling
    await clock.advance(600)
    await scene.restart()
    await scene.polls.details.pick_up()
    async with readers(scene):
        await detailed(scene, 1)

    assert await scene.run_events() == ["1:queued", "1:started", "1:succeeded", "1:detailed"]


async def test_failing_reads_are_repeated(
    scene: Scene, workspace: TinyWorkspace, clock: ManualClock
) -> None:
    """Requests to an overloaded workspace are retried with growing waits until it answers."""
    workspace.put_job(1)
    workspace.put_job_group(1, "Complete")
    workspace.faults["jobGroups/1/jobs"] = OVERLOADED
    async with readers(scene):
        polling = asyncio.create_task(scene.polls.changes.poll(), name="poll")
        await until(lambda: workspace.count("jobGroups/1/jobs") > 0)
        await clock.advance(1)
        await polling
        workspace.faults.clear()
        await clock.advance(2)
        await detailed(scene, 1)

    assert workspace.count("jobGroups/1/jobs") == 2


async def test_the_line_is_bounded(
    clock: ManualClock, scene: Scene, workspace: TinyWorkspace
) -> None:
    """Ends above the bound are published at once and their records read later."""
    object.__setattr__(scene.polls.details._queue._requests, "_bound", 2)
    for number in range(1, 6):
        workspace.put_job_group(number, "Complete")
    polling = asyncio.create_task(scene.polls.changes.poll(), name="poll")
    await until(lambda: len(scene.polls.details._queue) > 0)
    await clock.advance(1)
    await polling

    assert len(scene.polls.details._queue) == 2
    assert sum(event.endswith("succeeded") for event in await scene.run_events()) == 5


async def test_progress_is_read_oldest_first_from_what_is_left(
    scene: Scene, workspace: TinyWorkspace, clock: ManualClock
) -> None:
    """Heartbeat and percentage of active runs are known, each read at most once a minute."""
    for number in (1, 2):
        workspace.put_job_group(number, "InProgress")
        workspace.put_job(
            number, "InProgress", percentComplete=40, lastHeartbeatAt=stamp(workspace.now())
        )
    await scene.polls.changes.poll()
    assert await scene.poll("progress") is True
    assert await scene.poll("progress") is False

    active = scene.live_state.active[scene.key(1)]
    assert (active.percent_complete, active.heartbeat_at) == (40, workspace.now())
    assert active.run.started_at is None
    await clock.advance(61)
    assert await scene.poll("progress") is True


async def test_progress_shows_that_a_run_of_an_unknown_word_works(
    scene: Scene, workspace: TinyWorkspace
) -> None:
    """It has started as soon as its job records show a heartbeat; its word is still shown."""
    workspace.put_job_group(1, "Hibernating")
    workspace.put_job(1, "InProgress", lastHeartbeatAt=stamp(workspace.now()))
    await scene.polls.changes.poll()
    assert await scene.run_events() == ["1:queued"]
    await scene.poll("progress")

    assert await scene.run_events() == ["1:queued", "1:started"]
    active = scene.live_state.active[scene.key(1)]
    assert (active.run.status, active.run.native_status) == (Status.RUNNING, "Hibernating")
