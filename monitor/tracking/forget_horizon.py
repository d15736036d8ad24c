"""The horizon behind which an ended run may have been emitted and forgotten."""

from __future__ import annotations

from datetime import datetime, timedelta

from monitor.model.clock import Clock

# A run whose end lies this close to the horizon may have been forgotten already.
_MARGIN = timedelta(hours=1)


class ForgetHorizon:
    """Follows the workspace's clock. Where that is unknown, no jump of ours moves it ahead."""

    def __init__(self, clock: Clock, *, forget_seconds: float) -> None:
        self._clock = clock
        self._reach = _MARGIN - timedelta(seconds=forget_seconds)
        self._began_at, self._began = clock.now(), clock.monotonic()

    def forgotten_before(self, clock_skew_seconds: float | None) -> datetime:
        """Return the horizon in workspace time; the skew is that of our clock as it is now."""
        if clock_skew_seconds is not None:
            return self._clock.now() + timedelta(seconds=clock_skew_seconds) + self._reach
        running = timedelta(seconds=self._clock.monotonic() - self._began)
        return min(self._clock.now(), self._began_at + running) + self._reach
