"""A signal with which one task ends the wait of another."""

from __future__ import annotations

import asyncio

from monitor.model.clock import Clock
from monitor.model.waits import happens_within


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
