"""Time, as a parameter. Nothing that runs for long reads the machine's clock elsewhere."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Protocol

_LEAST_STEP_SECONDS = 0.5  # less may lie between two readings, and ages bear it


def boottime() -> float:
    """Return seconds that go on while the process, or the machine, is stopped."""
    return time.clock_gettime(time.CLOCK_BOOTTIME)


class Clock(Protocol):
    """The time, and waits. Tests pass a clock that they move themselves."""

    def now(self) -> datetime:
        """Return the wall time, aware UTC. It may jump when the machine's clock is set."""

    def monotonic(self) -> float:
        """Return seconds that never go back and have no meaning but their differences."""

    async def sleep(self, seconds: float) -> None:
        """Wait ``seconds`` by the monotonic clock; 0 or less only lets other tasks run."""


class SystemClock:
    """The machine's own clocks."""

    def now(self) -> datetime:
        return datetime.now(UTC)

    def monotonic(self) -> float:
        return time.monotonic()

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(max(0.0, seconds))


class WatchedClock:
    """A clock that notices when the wall clock is set, and not only late after a sleep.

    Before it returns the first wall time after a step, it calls those who keep instants of ours in
    memory: moved along by the step, their ages stay what they are.
    """

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        # The monotonic clock stands still while the machine sleeps, the wall clock does not.
        self._elapsed = boottime if isinstance(clock, SystemClock) else clock.monotonic
        self._thread = threading.get_ident()
        self._followers: list[Callable[[timedelta], None]] = []
        self._ahead = clock.now().timestamp() - self._elapsed()

    def on_step(self, follow: Callable[[timedelta], None]) -> None:
        """Call this at each step, in the thread that made the clock; below 0: it was set back."""
        self._followers.append(follow)

    def now(self) -> datetime:
        now = self._clock.now()
        if threading.get_ident() == self._thread:  # what is in memory belongs to that one
            before, self._ahead = self._ahead, now.timestamp() - self._elapsed()
            step_seconds = self._ahead - before
            if abs(step_seconds) >= _LEAST_STEP_SECONDS:
                for follow in self._followers:
                    follow(timedelta(seconds=step_seconds))
        return now

    def monotonic(self) -> float:
        return self._clock.monotonic()

    async def sleep(self, seconds: float) -> None:
        await self._clock.sleep(seconds)
