"""Time, as a parameter. Nothing that runs for long reads the machine's clock elsewhere."""

from __future__ import annotations

import asyncio
import time
from datetime import UTC, datetime
from typing import Protocol


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
