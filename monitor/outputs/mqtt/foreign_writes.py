"""Messages of others on our retained topics: noticed, repaired in bounds, and reported.

Called on the event loop only: by the link for each message, and by the task that publishes states.
"""

from __future__ import annotations

import structlog
from prometheus_client import CollectorRegistry, Counter

from monitor.model.alerts import OverwrittenTopics
from monitor.model.clock import Clock
from monitor.model.registries import made_once, process_registry

log = structlog.get_logger()

# Against a client that writes without end, more often would only add to the noise.
_REPAIR_SECONDS = 60.0
# One that was repaired and overwritten again within this time is written by a client that goes on.
_AGAIN_SECONDS = 600.0


class ForeignWrites:
    """Which topics were overwritten, and when each may be repaired."""

    def __init__(self, *, clock: Clock, registry: CollectorRegistry) -> None:
        self._clock = clock
        self._overwritten: set[str] = set()  # and not repaired yet
        self._repaired: dict[str, float] = {}  # topic -> monotonic time
        self._lasting: OverwrittenTopics | None = None
        self._lasted_at = 0.0
        self._total = made_once(_total, process_registry(registry))

    def notice(self, topic: str) -> None:
        """Another client has published on this topic of ours."""
        self._total.inc()
        if topic in self._overwritten:
            return
        self._overwritten.add(topic)
        now = self._clock.monotonic()
        repaired_at = self._repaired.get(topic)
        if repaired_at is None or now - repaired_at >= _AGAIN_SECONDS:
            log.warning("retained topic overwritten by another client", topic=topic)
            return
        if self.lasting() is None:
            log.error("retained topic overwritten again after its repair", topic=topic)
            self._lasting = OverwrittenTopics(since=self._clock.now(), topic=topic)
        self._lasted_at = now

    def due(self) -> set[str]:
        """Return the topics to be repaired now; they count as repaired."""
        now = self._clock.monotonic()
        due = {
            topic
            for topic in self._overwritten
            if now - self._repaired.get(topic, -_REPAIR_SECONDS) >= _REPAIR_SECONDS
        }
        self._overwritten -= due
        if due:
            self._repaired = {
                topic: at for topic, at in self._repaired.items() if now - at < _AGAIN_SECONDS
            } | dict.fromkeys(due, now)
        return due

    def lasting(self) -> OverwrittenTopics | None:
        """Return what others overwrite again and again; None ten minutes after the last time."""
        if self._clock.monotonic() - self._lasted_at >= _AGAIN_SECONDS:
            self._lasting = None
        return self._lasting


def _total(registry: CollectorRegistry) -> Counter:
    return Counter(
        "dataprep_monitor_mqtt_overwritten",
        "Messages of others on the retained topics of this instance.",
        registry=registry,
    )
