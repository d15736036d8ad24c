"""An outage of the store in the log: its beginning and its end, however many ask meanwhile."""

from __future__ import annotations

from collections import Counter

import structlog

from monitor.model.clock import Clock
from monitor.model.errors import BusError

log = structlog.get_logger()

_ANOTHER_SECONDS = 60.0  # without a refusal: the next one begins another outage


class StoreOutage:
    """What cannot be shown while the store does not answer: routes, and boxes of pages."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._refused: Counter[str] = Counter()
        self._refused_at = float("-inf")  # monotonic, the last time

    def refuse(self, shown: str, reason: BusError) -> None:
        """Note that this could not be shown."""
        now = self._clock.monotonic()
        if now - self._refused_at > _ANOTHER_SECONDS:
            self._refused.clear()  # what was refused is never asked for again
        if not self._refused:
            log.warning("request cannot be served now", route=shown, reason=str(reason))
        self._refused[shown] += 1
        self._refused_at = now

    def serve(self, shown: str) -> None:
        """Note that this was shown: the outage is over if it could not be before."""
        if shown in self._refused:  # others may need no store
            log.info("requests can be served again", refused=self._refused.total())
            self._refused.clear()
