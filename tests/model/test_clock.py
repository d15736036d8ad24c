"""The clock that notices when it is set."""

from __future__ import annotations

import threading
from datetime import datetime, timedelta

import pytest

from monitor.model.clock import SystemClock, WatchedClock
from tests.clocks import ManualClock


class Steps:
    """What a follower of a clock was told."""

    def __init__(self, clock: ManualClock) -> None:
        self.seen: list[float] = []
        self.clock = WatchedClock(clock)
        self.clock.on_step(lambda step: self.seen.append(step.total_seconds()))


@pytest.mark.parametrize("seconds", [1.0, -1.0, 3_600.0, -3_600.0, 3_456_000.0, -3_456_000.0])
async def test_a_step_is_reported_before_the_first_time_after_it(seconds: float) -> None:
    """A second, an hour and forty days, both ways: once, however much time passed beside it."""
    manual = ManualClock()
    steps = Steps(manual)
    read: list[tuple[list[float], datetime]] = []
    steps.clock.on_step(lambda _: read.append((list(steps.seen), manual.now())))
    await manual.advance(40)
    manual.set_wall(manual.now() + timedelta(seconds=seconds))
    now = steps.clock.now()

    assert steps.seen == [pytest.approx(seconds, abs=0.01)]
    assert read == [(steps.seen, now)]
    await manual.advance(1_000)
    assert steps.clock.now() == manual.now()
    assert len(steps.seen) == 1


async def test_time_that_passes_is_no_step() -> None:
    """Neither does a clock that a time service slews: 500 parts in a million for an hour."""
    manual = ManualClock()
    steps = Steps(manual)
    for _ in range(360):
        await manual.advance(10)
        manual.set_wall(manual.now() + timedelta(seconds=0.005))
        steps.clock.now()

    assert steps.seen == []


def test_other_threads_move_nothing() -> None:
    """State in memory belongs to the thread of the event loop, which finds the step itself."""
    manual = ManualClock()
    steps = Steps(manual)
    manual.set_wall(manual.now() + timedelta(hours=1))
    thread = threading.Thread(target=steps.clock.now)
    thread.start()
    thread.join()
    assert steps.seen == []

    steps.clock.now()
    assert steps.seen == [3_600.0]


def test_the_clocks_of_the_machine_agree() -> None:
    """Between two readings of a clock that is not set there is no step."""
    watched, seen = WatchedClock(SystemClock()), list[timedelta]()
    watched.on_step(seen.append)
    before = watched.now()

    assert all(watched.now() >= before for _ in range(1_000))
    assert seen == []
