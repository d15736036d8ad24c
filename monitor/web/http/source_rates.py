"""Rates of requests by source: what each has left comes back evenly over a minute."""

from __future__ import annotations

from monitor.model.bounded_memory import BoundedMemory
from monitor.model.clock import Clock

_SOURCES_REMEMBERED = 1_000
_SECONDS = 60.0


class SourceRates:
    """How much each source may still ask for at once."""

    def __init__(self, *, per_minute: int, clock: Clock) -> None:
        self._per_minute = per_minute
        self._clock = clock
        # Source -> what is left, and when that was.
        self._left: BoundedMemory[str, tuple[float, float]] = BoundedMemory(_SOURCES_REMEMBERED)

    def take(self, source: str, cost: float = 1.0) -> float:
        """Take the cost, and return 0; or take nothing, and return the seconds until it is there.

        What costs more than a minute has is let through when the whole minute is there.
        """
        now, most = self._clock.monotonic(), float(self._per_minute)
        cost = min(cost, most)
        left, at = self._left.get(source) or (most, now)
        left = min(most, left + (now - at) * most / _SECONDS)
        wait = 0.0 if left >= cost else (cost - left) * _SECONDS / most
        self._left.put(source, (left if wait else left - cost, now))
        return wait
