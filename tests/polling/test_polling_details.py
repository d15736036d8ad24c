"""Details: job records are read once after an end, failures first, and never hold an end long."""

from __future__ import annotations

import asyncio
from datetime import timedelta

import pytest

from monitor.model.observations import Observation
from monitor.model.runs import JobCount, Source, Status
from monitor.polling.settings import PollSettings
from tests.clocks import ManualClock
from tests.polling.conftest import Scenario, until
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
    scenario: Scenario, workspace: TinyWorkspace, clock: ManualClock
) -> None:
    """Records that come in time give the end its times, its error and its counts."""
    created_at = workspace.now()
    started_at, finished_at = created_at + timedelta(seconds=5), created_at + timedelta(seconds=9)
    times = {"startedAt": stamp(started_at), "finishedAt": stamp(finished_at)}
    workspace.put_job(1, "Failed", errorMessage={"message": "no such column"}, **times)
    workspace.put_job(1, "Complete", jobType="filewriter", **times)
    await clock.advance(20)
    workspace.put_job_group(1, "Failed", createdAt=stamp(created_at))
    async with readers(scenario):
        await scenario.polls.changes.poll()

    state = await scenario.state(1)
    assert state is not None
    assert (state.started_at, state.finished_at) == (started_at, finished_at)
    assert (state.approximate, state.detailed) == (("finished_at",), True)
    assert state.error == "no such column"
    assert state.jobs is not None
    assert state.jobs.counts == (
        JobCount(job_type="filewriter", status="succeeded", count=1),
        JobCount(job_type="wrangle", status="failed", count=1),
    )
    assert await scenario.run_events() == ["1:queued", "1:started", "1:failed", "1:detailed"]
    assert workspace.count("jobGroups/1/jobs") == 1


async def test_a_failure_waits_only_so_long(
    scenario: Scenario, workspace: TinyWorkspace, clock: ManualClock
) -> None:
    """Late records are published by themselves; the failure was published without them."""
    workspace.put_job(1)
    workspace.put_job_group(1, "Failed")
    workspace.holds["jobGroups/1/jobs"] = asyncio.Event()
    async with readers(scenario):
        polling = asyncio.create_task(scenario.polls.changes.poll(), name="poll")
        await until(lambda: workspace.count("jobGroups/1/jobs") > 0)
        await clock.advance(1)
        await polling
        assert (await scenario.run_events())[-1] == "1:failed"

        workspace.holds["jobGroups/1/jobs"].set()
        await detailed(scenario, 1)
        await until(lambda: late_details(scenario) == 1)

    assert (await scenario.run_events())[-1] == "1:detailed"


def late_details(scenario: Scenario) -> float:
    return scenario.sample(
        "dataprep_monitor_observations_total", source="detail", outcome="changed"
    )


async def test_failures_come_first(scenario: Scenario, workspace: TinyWorkspace) -> None:
    """When many runs end at once, the records of those that failed are read first."""
    for number in range(1, 13):
        workspace.put_job_group(number, "Failed" if number > 8 else "Complete")
        workspace.put_job(number)
    polling = asyncio.create_task(scenario.polls.changes.poll(), name="poll")
    await until(lambda: len(scenario.polls.details._queue) > 0)
    async with readers(scenario):
        await polling
    runs_read = [
        int(path.split("/")[1]) for path, _ in workspace.requests if path.endswith("/jobs")
    ]

    assert set(runs_read[:4]) == {9, 10, 11, 12}
    assert len(runs_read) == len(set(runs_read))


async def test_a_callback_alone_reads_nothing(scenario: Scenario, workspace: TinyWorkspace) -> None:
    """A callback that names a run that was never observed costs no request for its records."""
    forged = Observation(
        key=scenario.key(666),
        source=Source.CALLBACK,
        observed_at=scenario.clock.now(),
        native_status="Failed",
        inbox_id=1,
    )
    async with readers(scenario):
        assert await scenario.polls.details.complete((forged,)) == [forged]

    assert workspace.count("jobGroups/666.*") == 0


async def test_a_callback_of_a_known_run_is_completed(
    scenario: Scenario, workspace: TinyWorkspace
) -> None:
    """The end that a callback shows carries the records and still completes that callback."""
    workspace.put_job_group(1, "InProgress")
    await scenario.polls.changes.poll()
    workspace.put_job(1)
    reported = Observation(
        key=scenario.key(1),
        source=Source.CALLBACK,
        observed_at=scenario.clock.now(),
        native_status="Failed",
        inbox_id=1,
    )
    async with readers(scenario):
        (complete,) = await scenario.polls.details.complete((reported,))

    assert complete.is_detail_final
    assert complete.jobs is not None
    assert (complete.source, complete.inbox_id) == (Source.CALLBACK, 1)


async def test_refused_records_are_final(scenario: Scenario, workspace: TinyWorkspace) -> None:
    """403 on the records is not tried again, and the run counts as read."""
    workspace.faults["jobGroups/1/jobs"] = FORBIDDEN
    workspace.put_job_group(1, "Complete")
    async with readers(scenario):
        await scenario.polls.changes.poll()
        await until(lambda: scenario.polls.details.waiting == 0)

    state = await scenario.state(1)
    assert state is not None
    assert state.detailed
    assert await scenario.polls.details.pick_up() is False
    assert scenario.polls.details.waiting == 0


async def test_unread_records_are_picked_up_after_a_restart(
    scenario: Scenario, workspace: TinyWorkspace, clock: ManualClock
) -> None:
    """A stop between the end and its records loses only time."""
    workspace.put_job(1)
    workspace.put_job_group(1, "Complete")
    polling = asyncio.create_task(scenario.polls.changes.poll(), name="poll")
    await until(lambda: len(scenario.polls.details._queue) > 0)
    await clock.advance(1)
    await polling
    await clock.advance(600)
    await scenario.restart()
    await scenario.polls.details.pick_up()
    async with readers(scenario):
        await detailed(scenario, 1)

    assert await scenario.run_events() == ["1:queued", "1:started", "1:succeeded", "1:detailed"]


async def test_failing_reads_are_repeated(
    scenario: Scenario, workspace: TinyWorkspace, clock: ManualClock
) -> None:
    """Requests to an overloaded workspace are retried with growing waits until it answers."""
    workspace.put_job(1)
    workspace.put_job_group(1, "Complete")
    workspace.faults["jobGroups/1/jobs"] = OVERLOADED
    async with readers(scenario):
        polling = asyncio.create_task(scenario.polls.changes.poll(), name="poll")
        await until(lambda: workspace.count("jobGroups/1/jobs") > 0)
        await clock.advance(1)
        await polling
        workspace.faults.clear()
        await clock.advance(2)
        await detailed(scenario, 1)

    assert workspace.count("jobGroups/1/jobs") == 2


async def test_the_line_is_bounded(
    clock: ManualClock, scenario: Scenario, workspace: TinyWorkspace
) -> None:
    """Ends above the bound are published at once and their records read later."""
    object.__setattr__(scenario.polls.details._queue._requests, "_bound", 2)
    for number in range(1, 6):
        workspace.put_job_group(number, "Complete")
    polling = asyncio.create_task(scenario.polls.changes.poll(), name="poll")
    await until(lambda: len(scenario.polls.details._queue) > 0)
    await clock.advance(1)
    await polling

    assert len(scenario.polls.details._queue) == 2
    assert sum(event.endswith("succeeded") for event in await scenario.run_events()) == 5


async def test_progress_is_read_oldest_first_from_what_is_left(
    scenario: Scenario, workspace: TinyWorkspace, clock: ManualClock
) -> None:
    """Heartbeat and percentage of active runs are known, each read at most once a minute."""
    for number in (1, 2):
        workspace.put_job_group(number, "InProgress")
        workspace.put_job(
            number, "InProgress", percentComplete=40, lastHeartbeatAt=stamp(workspace.now())
        )
    await scenario.polls.changes.poll()
    assert await scenario.poll("progress") is True
    assert await scenario.poll("progress") is False

    active = scenario.live_state.active[scenario.key(1)]
    assert (active.percent_complete, active.heartbeat_at) == (40, workspace.now())
    assert active.run.started_at is None
    await clock.advance(61)
    assert await scenario.poll("progress") is True


async def test_progress_shows_that_a_run_of_an_unknown_word_works(
    scenario: Scenario, workspace: TinyWorkspace
) -> None:
    """It has started as soon as its job records show a heartbeat; its word is still shown."""
    workspace.put_job_group(1, "Hibernating")
    workspace.put_job(1, "InProgress", lastHeartbeatAt=stamp(workspace.now()))
    await scenario.polls.changes.poll()
    assert await scenario.run_events() == ["1:queued"]
    await scenario.poll("progress")

    assert await scenario.run_events() == ["1:queued", "1:started"]
    active = scenario.live_state.active[scenario.key(1)]
    assert (active.run.status, active.run.native_status) == (Status.RUNNING, "Hibernating")
