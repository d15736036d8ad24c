"""An outage of the store in the log: its beginning and its end, however many ask meanwhile."""

from __future__ import annotations

from collections import Counter

import structlog

from monitor.model.errors import BusError

log = structlog.get_logger()


class StoreOutage:
    """What cannot be shown while the store does not answer: routes, and boxes of pages."""

    def __init__(self) -> None:
        self._refused: Counter[str] = Counter()

    def refuse(self, shown: str, reason: BusError) -> None:
        """Note that this could not be shown."""
        if not self._refused:
            log.warning("request cannot be served now", route=shown, reason=str(reason))
        self._refused[shown] += 1

    def serve(self, shown: str) -> None:
        """Note that this was shown: the outage is over if it could not be before."""
        if shown in self._refused:  # others may need no store
            log.info("requests can be served again", refused=self._refused.total())
            self._refused.clear()
