"""The backoff, and a wait that a time limit ends."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from monitor.model.waits import backoff_seconds, happens_within
from tests.clocks import ManualClock


def test_the_backoff_doubles_up_to_its_cap() -> None:
    """Attempts count from 1; the first wait is the base."""
    waits = [backoff_seconds(n, base_seconds=1.0, cap_seconds=5.0) for n in range(1, 6)]
    assert waits == [1.0, 2.0, 4.0, 5.0, 5.0]


@given(
    attempt=st.integers(-10, 10**9),
    base_seconds=st.floats(0.001, 100),
    cap_seconds=st.floats(0.001, 1e6),
)
def test_a_backoff_is_within_its_limits(
    attempt: int, base_seconds: float, cap_seconds: float
) -> None:
    """However many attempts failed, no wait overflows, is negative or passes the cap."""
    seconds = backoff_seconds(attempt, base_seconds=base_seconds, cap_seconds=cap_seconds)
    assert min(base_seconds, cap_seconds) <= seconds <= cap_seconds


async def test_an_event_in_time_returns_true() -> None:
    """The wait ends with the event, and the clock is not awaited any further."""
    clock, happened = ManualClock(), asyncio.Event()
    waiting = asyncio.create_task(
        happens_within(happened.wait(), clock=clock, seconds=10, name="test")
    )
    await clock.advance(9)
    assert not waiting.done()
    happened.set()
    assert await waiting is True


async def test_an_event_as_time_runs_out_ends_the_wait_once() -> None:
    """Whichever comes first in that turn of the loop, the other one disturbs nothing."""
    happened = asyncio.Event()
    disturbed: list[dict[str, Any]] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, context: disturbed.append(context))
    clock = EndingClock(happened)
    waits = [
        asyncio.create_task(happens_within(happened.wait(), clock=clock, seconds=10, name="test"))
        for _ in range(3)
    ]
    await asyncio.sleep(0)
    happened.set()
    await asyncio.gather(*waits)
    await asyncio.sleep(0)

    assert disturbed == []


async def test_a_wait_that_times_out_returns_false_and_cancels_the_event() -> None:
    """Nothing is left running once the time is over."""
    clock, ended = ManualClock(), asyncio.Event()
    waiting = asyncio.create_task(
        happens_within(until_cancelled(ended), clock=clock, seconds=10, name="test")
    )
    await clock.advance(10)
    assert await waiting is False
    assert ended.is_set()
    assert asyncio.all_tasks() == {asyncio.current_task()}


async def test_a_cancelled_wait_leaves_no_task() -> None:
    """Both the event and the timer end with the caller."""
    clock, ended = ManualClock(), asyncio.Event()
    waiting = asyncio.create_task(
        happens_within(until_cancelled(ended), clock=clock, seconds=10, name="test")
    )
    await clock.advance(1)
    waiting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiting
    assert ended.is_set()
    assert asyncio.all_tasks() == {asyncio.current_task()}


async def test_an_error_of_the_event_is_raised() -> None:
    """A failure is neither True nor False, and no exception group hides it."""

    async def fail() -> None:
        raise LookupError("made up")

    with pytest.raises(LookupError, match="made up"):
        await happens_within(fail(), clock=ManualClock(), seconds=10, name="test")


class EndingClock(ManualClock):
    """Its time is over when an event happens."""

    def __init__(self, end: asyncio.Event) -> None:
        super().__init__()
        self._end = end

    async def sleep(self, seconds: float) -> None:
        assert seconds > 0
        await self._end.wait()


async def until_cancelled(ended: asyncio.Event) -> None:
    """Wait forever; set ``ended`` when cancelled."""
    try:
        await asyncio.Event().wait()
    finally:
        ended.set()


class HeldClock(ManualClock):
    """Sleeps until it is let go, in this very turn of the loop."""

    def __init__(self) -> None:
        super().__init__()
        self.over = asyncio.get_running_loop().create_future()

    async def sleep(self, seconds: float) -> None:  # noqa: ARG002 - the signature is the clock's
        await self.over


async def test_an_answer_in_the_turn_in_which_time_runs_out_counts() -> None:
    """No callback of the loop fails afterwards."""
    loop = asyncio.get_running_loop()
    logged: list[dict[str, Any]] = []
    loop.set_exception_handler(lambda _, context: logged.append(context))
    clock, happening = HeldClock(), asyncio.Event()
    waiting = asyncio.create_task(
        happens_within(happening.wait(), clock=clock, seconds=1.0, name="both")
    )
    for _ in range(3):
        await asyncio.sleep(0)
    clock.over.set_result(None)
    happening.set()

    assert await waiting
    await asyncio.sleep(0)
    assert logged == []
