"""Waits: backoff, an event or a time limit, a wake, and what must not be cut off."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Coroutine
from typing import Any

import structlog

from monitor.model.clock import Clock

log = structlog.get_logger()

_DOUBLINGS = 60


def backoff_seconds(attempt: int, *, base_seconds: float, cap_seconds: float) -> float:
    """Return the wait after the failed ``attempt``, which counts from 1. Adds no jitter."""
    # Bounded, because a weekend of attempts would overflow a float.
    return min(base_seconds * 2.0 ** min(max(attempt - 1, 0), _DOUBLINGS), cap_seconds)


async def happens_within(
    happening: Coroutine[Any, Any, object], *, clock: Clock, seconds: float, name: str
) -> bool:
    """Wait until ``happening`` returns, at most ``seconds``; False where time ran out.

    ``happening`` is cancelled when time runs out, and with a cancelled call; so it must leave
    nothing half done, as `asyncio.Event.wait` does. What it raises is raised here.
    """
    # A task for the clock alone: a daemon of many shards has tens of thousands of such waits.
    timer = asyncio.create_task(clock.sleep(seconds), name=name)
    limit = asyncio.timeout(None)
    loop = asyncio.get_running_loop()
    is_over = False

    def run_out(_: asyncio.Task[None]) -> None:
        # Its call may be on its way already when the wait ends.
        if not is_over:
            limit.reschedule(loop.time())

    try:
        async with limit:
            timer.add_done_callback(run_out)
            try:
                await happening
            finally:
                is_over = True
    except TimeoutError:
        if not limit.expired():
            raise
        return False
    else:
        return True
    finally:
        timer.cancel()


class WakeSignal:
    """Set by any task, waited for by one: however often it is set before, it wakes once."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._is_set = asyncio.Event()
        self._set_at: float | None = None  # monotonic

    def set(self) -> None:
        self._set_at = self._clock.monotonic()
        self._is_set.set()

    def seconds_since(self) -> float | None:
        """Return how long ago it was set last; None before the first time."""
        return None if self._set_at is None else self._clock.monotonic() - self._set_at

    async def wait(self, seconds: float) -> bool:
        """Wait until it is set, at most ``seconds``, and clear it; True where it was set.

        A cancelled wait leaves it as it was: set or not, the next wait sees it.
        """
        if not self._is_set.is_set():
            await happens_within(
                self._is_set.wait(), clock=self._clock, seconds=seconds, name="waiting for a wake"
            )
        was_set = self._is_set.is_set()
        self._is_set.clear()
        return was_set


async def to_its_end(
    work: Coroutine[Any, Any, None], *, name: str, on_cancelled: Callable[[], None]
) -> None:
    """Wait for ``work``, which has time limits, also while the call is cancelled.

    A cancelled call calls ``on_cancelled`` and waits on. What the work raises then is logged.
    """
    task = asyncio.create_task(work, name=name)
    try:
        await asyncio.shield(task)
    except asyncio.CancelledError:
        on_cancelled()
        while not task.done():
            with contextlib.suppress(asyncio.CancelledError):
                await asyncio.wait((task,))
        if not task.cancelled() and (error := task.exception()) is not None:
            log.warning("work of a cancelled task failed", task=name, reason=str(error))
        raise
