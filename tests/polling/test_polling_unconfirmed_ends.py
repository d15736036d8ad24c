"""A run whose end only a callback has reported is read on, and its job records are read once."""

from __future__ import annotations

import asyncio
from datetime import timedelta

import pytest

from monitor.model.observations import Observation
from monitor.model.runs import RunState, Source, Status
from monitor.polling.settings import PollSettings
from tests.clocks import ManualClock
from tests.polling.conftest import Scenario, until
from tests.polling.job_record_readers import readers
from tests.polling.tiny_workspace import TinyWorkspace, stamp

RECORDS = "jobGroups/1/jobs"


@pytest.fixture
def settings() -> PollSettings:
    return PollSettings(detail_wait_seconds=1.0)


async def claim(scenario: Scenario, word: str) -> None:
    """Observe a callback as the inbox does, completed by the job records that come in time."""
    claimed = Observation(
        key=scenario.key(1),
        source=Source.CALLBACK,
        observed_at=scenario.clock.now(),
        native_status=word,
    )
    await scenario.observer.observe(await scenario.polls.details.complete((claimed,)))


async def state_of(scenario: Scenario) -> RunState:
    state = await scenario.state(1)
    assert state is not None
    return state


@pytest.fixture
async def running(scenario: Scenario, workspace: TinyWorkspace, clock: ManualClock) -> Scenario:
    """A scenario with one known job group that runs."""
    workspace.put_job_group(1, "InProgress")
    await scenario.polls.changes.poll()
    await clock.advance(300)
    return scenario


async def test_records_read_for_a_claim_are_not_read_again(
    running: Scenario, workspace: TinyWorkspace
) -> None:
    """The claimed end carries them, and the workspace's end needs no second read."""
    workspace.put_job(1, "Failed", errorMessage={"message": "no such column"})
    async with readers(running):
        await claim(running, "Failed")
        workspace.put_job_group(1, "Failed")
        await running.polls.changes.poll()

    state = await state_of(running)
    assert (state.status, state.unconfirmed_end) == (Status.FAILED, None)
    assert (state.error, state.detailed) == ("no such column", True)
    assert workspace.count(RECORDS) == 1
    assert (await running.run_events())[2:] == ["1:failed", "1:confirmed", "1:detailed"]


async def test_repeated_claims_read_no_records(
    running: Scenario, workspace: TinyWorkspace, clock: ManualClock
) -> None:
    """A callback that lies again and again about a run that goes on costs what the first costs."""
    workspace.put_job(1, "InProgress")
    async with readers(running):
        claiming = asyncio.create_task(claim(running, "Complete"), name="claim")
        for _ in range(4):
            await until(lambda: workspace.count(RECORDS) > 0)
            await clock.advance(2)
        await claiming
        await until(lambda: running.polls.details.waiting == 0)
        reads = workspace.count(RECORDS)
        for _ in range(5):
            await claim(running, "Complete")

    assert workspace.count(RECORDS) == reads
    state = await state_of(running)
    assert (state.status, state.unconfirmed_end) == (Status.RUNNING, Status.SUCCEEDED)
    assert (state.detailed, state.finished_at) == (False, None)


async def test_late_records_of_a_claim_confirm_nothing(
    running: Scenario, workspace: TinyWorkspace, clock: ManualClock
) -> None:
    """They were read because a callback named an end, which is not the workspace's report."""
    workspace.put_job(1, "Failed", errorMessage={"message": "no such column"})
    workspace.holds[RECORDS] = asyncio.Event()
    async with readers(running):
        claiming = asyncio.create_task(claim(running, "Failed"), name="claim")
        await until(lambda: workspace.count(RECORDS) > 0)
        await clock.advance(1)
        await claiming
        workspace.holds[RECORDS].set()
        await until(lambda: running.polls.details.waiting == 0)

    state = await state_of(running)
    assert (state.status, state.unconfirmed_end) == (Status.RUNNING, Status.FAILED)
    assert (state.error, state.detailed) == ("no such column", True)
    assert (await running.run_events())[2:] == ["1:failed"]


async def test_a_claimed_run_that_has_left_the_active_lists_is_read_by_id(
    running: Scenario, workspace: TinyWorkspace
) -> None:
    """The next reconciliation finds its true end, where no list of changes shows it."""
    await running.observer.observe(
        [
            Observation(
                key=running.key(1),
                source=Source.CALLBACK,
                observed_at=running.clock.now(),
                native_status="Complete",
            )
        ]
    )
    late = stamp(workspace.now() - timedelta(seconds=1_000))
    workspace.put_job_group(1, "Failed", updatedAt=late)
    async with readers(running):
        await running.poll("reconciliation")

    assert workspace.count("jobGroups/1") == 1
    assert (await running.run_events())[2:5] == ["1:succeeded", "1:corrected", "1:failed"]
    assert (await state_of(running)).status is Status.FAILED


async def test_a_restart_knows_what_is_unconfirmed(
    running: Scenario, workspace: TinyWorkspace
) -> None:
    """A claimed run is still active after a restart, and its true end corrects the claim."""
    await running.observer.observe(
        [
            Observation(
                key=running.key(1),
                source=Source.CALLBACK,
                observed_at=running.clock.now(),
                native_status="Complete",
            )
        ]
    )
    await running.restart()
    assert running.key(1) in running.live_state.active
    workspace.put_job_group(1, "Failed")
    async with readers(running):
        await running.polls.changes.poll()

    assert (await running.run_events())[2:5] == ["1:succeeded", "1:corrected", "1:failed"]
