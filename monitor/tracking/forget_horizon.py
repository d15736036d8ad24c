"""The horizon behind which an ended run may have been emitted and forgotten."""

from __future__ import annotations

from datetime import datetime, timedelta

from monitor.model.clock import Clock

# A run whose end lies this close to the horizon may have been forgotten already.
_MARGIN = timedelta(hours=1)


class ForgetHorizon:
    """Follows the workspace's clock, but never ahead of the time that has passed here."""

    def __init__(self, clock: Clock, *, forget_seconds: float) -> None:
        self._clock = clock
        self._reach = _MARGIN - timedelta(seconds=forget_seconds)
        self._began_at, self._began = clock.now(), clock.monotonic()

    def forgotten_before(self, clock_skew_seconds: float | None) -> datetime:
        """Return the horizon in workspace time; the skew is that of our clock as it is now."""
        there = self._clock.now() + timedelta(seconds=clock_skew_seconds or 0.0)
        running = timedelta(seconds=self._clock.monotonic() - self._began)
        return min(there, self._began_at + running) + self._reach
