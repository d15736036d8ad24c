"""Slows guessing down: after some wrong credentials a source has to wait, longer each time.

All sources together have a bound too, because each comparison costs a processor; it is for those
from which no right credentials came yet, so that guesses from many addresses lock out no user at
his own. Credentials that were right lately are accepted all the same, so that guesses lock out no
user who has the same address.
"""

from __future__ import annotations

from monitor.model.bounded_memory import BoundedMemory
from monitor.model.clock import Clock

_FREE = 5  # wrong ones of a source that cost no wait: people mistype
_LONGEST_SECONDS = 300.0
_FORGOTTEN_SECONDS = 900.0
_SOURCES = 10_000
_TOGETHER_PER_SECOND = 5.0
_TOGETHER_AT_ONCE = 50.0


class Guesses:
    """How long each source, and all together, must wait before credentials are looked at again."""

    def __init__(self, *, clock: Clock) -> None:
        self._clock = clock
        # Source -> how many were wrong in a row, and until when it waits (monotonic).
        self._wrong: BoundedMemory[str, tuple[int, float]] = BoundedMemory(_SOURCES)
        self._known: BoundedMemory[str, bool] = BoundedMemory(_SOURCES)  # sources of right ones
        self._left, self._left_at = _TOGETHER_AT_ONCE, clock.monotonic()

    def wait_seconds(self, source: str) -> float:
        """Return how long the source must wait; 0 where its credentials are looked at now."""
        now = self._clock.monotonic()
        _, until = self._wrong.get(source) or (0, now)
        is_known = self._known.get(source) is not None
        of_all = 0.0 if is_known else (1 - self._refilled(now)) / _TOGETHER_PER_SECOND
        return max(0.0, until - now, of_all)

    def know(self, source: str) -> None:
        """Note that right credentials came from there."""
        self._known.put(source, True)

    def add(self, source: str) -> None:
        """Count credentials that were wrong."""
        now = self._clock.monotonic()
        self._left, self._left_at = self._refilled(now) - 1, now
        count, until = self._wrong.get(source) or (0, now)
        if now - until > _FORGOTTEN_SECONDS:
            count = 0
        count += 1
        over = count - _FREE
        wait = min(2.0 ** min(over, 10), _LONGEST_SECONDS) if over > 0 else 0.0
        self._wrong.put(source, (count, now + wait))

    def _refilled(self, now: float) -> float:
        gained = (now - self._left_at) * _TOGETHER_PER_SECOND
        return min(_TOGETHER_AT_ONCE, self._left + gained)
