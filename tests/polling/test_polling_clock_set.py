"""Our clock is set between two polls, and while one is under way."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from datetime import datetime, timedelta
from pathlib import Path

import pytest

from monitor.model.clock import WatchedClock
from monitor.model.observations import Observation
from monitor.model.runs import RunKind, Source
from monitor.polling.settings import PollSettings
from monitor.tracking.clock_step import move
from tests.clocks import ManualClock, SetClock
from tests.polling.conftest import NAME, Scenario
from tests.polling.tiny_workspace import TinyWorkspace

HOUR = timedelta(hours=1)


@pytest.fixture
def ours(clock: ManualClock) -> SetClock:
    """The clock of the daemon's machine; that of the workspace is never set here."""
    return SetClock(clock)


@pytest.fixture
async def watched(
    ours: SetClock,
    clock: ManualClock,
    workspace: TinyWorkspace,
    tmp_path: Path,
    settings: PollSettings,
) -> AsyncIterator[Scenario]:
    """A connected scenario whose live state follows the steps of our clock."""
    watched = WatchedClock(ours)
    scenario = Scenario(clock=watched, folder=tmp_path, url=workspace.url, settings=settings)
    await scenario.open()
    watched.on_step(lambda step: move(scenario.live_state, step, now=watched.now()))
    await scenario.begin()
    await clock.advance(3_600)
    yield scenario
    await scenario.close()


def age_seconds(scenario: Scenario, at: datetime) -> float:
    return (scenario.clock.now() - at).total_seconds()


@pytest.mark.parametrize("step", [HOUR, -HOUR])
async def test_a_deleted_run_is_lost_however_our_clock_is_set(
    watched: Scenario, workspace: TinyWorkspace, clock: ManualClock, ours: SetClock, step: timedelta
) -> None:
    """Two reconciliations that deny it end it, though the clock is set before each of them."""
    for number in (1, 2):
        workspace.put_job_group(number)
    await watched.poll("changes")
    del workspace.tables["jobLibrary"][2]
    for _ in range(2):
        await clock.advance(300)
        ours.ahead += step
        await watched.poll("reconciliation")

    assert "2:lost" in await watched.run_events()
    assert list(watched.live_state.active) == [watched.key(1)]


@pytest.mark.parametrize("step", [HOUR, -HOUR])
@pytest.mark.parametrize("poll", ["changes", "plan_runs"])
async def test_a_list_that_is_read_while_our_clock_is_set_is_confirmed_now(
    watched: Scenario, workspace: TinyWorkspace, ours: SetClock, step: timedelta, poll: str
) -> None:
    """Neither an hour ago nor in an hour: else the runs were unknown, or known for too long."""

    def set_clock(path: str, _: Mapping[str, str]) -> None:
        if path in ("jobLibrary", "planSnapshotRuns"):
            ours.ahead += step
            workspace.before_answer = None

    workspace.before_answer = set_clock
    await watched.poll(poll)

    kind = RunKind.JOB_GROUP if poll == "changes" else RunKind.PLAN_RUN
    assert age_seconds(watched, watched.live_state.confirmed[NAME, kind]) == 0


async def test_an_old_denial_counts_after_our_clock_was_set(
    watched: Scenario, workspace: TinyWorkspace, clock: ManualClock, ours: SetClock
) -> None:
    """A step shows nothing about a run, so it is no observation since the first denial."""
    for number in (1, 2):
        workspace.put_job_group(number)
    await watched.poll("changes")
    del workspace.tables["jobLibrary"][2]
    await clock.advance(300)
    await watched.poll("reconciliation")
    ours.ahead -= HOUR
    await clock.advance(300)
    await watched.poll("reconciliation")

    assert "2:lost" in await watched.run_events()


@pytest.mark.parametrize("step", [HOUR, -HOUR])
async def test_a_run_that_is_observed_while_our_clock_is_set_is_confirmed_now(
    watched: Scenario, workspace: TinyWorkspace, clock: ManualClock, ours: SetClock, step: timedelta
) -> None:
    """An observation dated before the step and stored after it is as old as it is."""
    workspace.put_job_group(1)
    await watched.poll("changes")
    key = watched.key(1)
    read = Observation(
        key=key, source=Source.POLL, observed_at=watched.clock.now(), native_status="InProgress"
    )
    await clock.advance(2)
    ours.ahead += step
    await clock.advance(1)
    await watched.observer.observe([read])
    assert age_seconds(watched, watched.live_state.active[key].confirmed_at) == 3

    again = Observation(
        key=key, source=Source.POLL, observed_at=watched.clock.now(), native_status="InProgress"
    )
    await watched.observer.observe([again])
    assert age_seconds(watched, watched.live_state.active[key].confirmed_at) == 0
