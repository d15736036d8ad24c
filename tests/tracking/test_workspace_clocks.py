"""How far the clock of a workspace is ahead of ours, by its answers and by its stamps."""

from __future__ import annotations

from datetime import datetime, timedelta

import pytest

from monitor.model.observations import Observation
from monitor.model.runs import RunKey, RunKind, Source
from monitor.tracking.live_state import LiveState
from monitor.tracking.workspace_clocks import WorkspaceClocks
from tests.clocks import ManualClock


def read(clock: ManualClock, number: int, updated_at: datetime | None = None) -> Observation:
    """Return a job group that was read now and written just then, or at another time."""
    return Observation(
        key=RunKey("acme", RunKind.JOB_GROUP, str(number)),
        source=Source.POLL,
        observed_at=clock.now(),
        updated_at=updated_at or clock.now(),
    )


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


async def test_one_stamp_that_is_ahead_moves_no_clock(clock: ManualClock) -> None:
    """An undated workspace's clock is what two runs show, and one that was wrong is forgotten."""
    clocks = WorkspaceClocks(LiveState(["acme"]), clock)
    clocks.measure("acme", lambda: None)
    later = clock.now() + timedelta(minutes=50)
    clocks.learn([read(clock, 1)])
    clocks.learn([read(clock, 2, later)])
    assert clocks.skew_seconds("acme") == 0
    clocks.learn([read(clock, 3, later)])
    assert clocks.skew_seconds("acme") == 3_000

    await clock.advance(3_700)
    clocks.learn([read(clock, 4), read(clock, 5)])
    assert clocks.skew_seconds("acme") == 0


async def test_stamps_bear_out_a_clock_that_is_said_to_be_ahead(clock: ManualClock) -> None:
    """An end without a time sorts after them; a ``Date`` or a stamp alone moves nothing."""
    clocks, doubt = WorkspaceClocks(LiveState(["acme"]), clock), 0.0
    clocks.measure("acme", lambda: 0.0, lambda: doubt)
    doubt = 3_600.0
    clocks.learn([read(clock, 1)])
    assert clocks.skew_seconds("acme") == 0
    later = clock.now() + timedelta(minutes=50)
    clocks.learn([read(clock, 2, later)])
    assert clocks.skew_seconds("acme") == 3_000
    doubt = 900.0
    assert clocks.skew_seconds("acme") == 900
    doubt = 0.0
    assert clocks.skew_seconds("acme") == 0
