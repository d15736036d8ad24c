"""Which writes the store has refused, and whether it has stored anything since."""

from __future__ import annotations

import msgspec
from prometheus_client import CollectorRegistry, Counter

from monitor.bus.contract import WriteFailures
from monitor.model.clock import Clock

# Failures further apart are two stretches of trouble.
_STRETCH_SECONDS = 300.0


class WriteFailureRecord:
    """Remembers the newest stretch of failures. On the event loop only."""

    def __init__(self, clock: Clock, registry: CollectorRegistry) -> None:
        self._clock = clock
        self._refused = Counter(
            "dataprep_monitor_store_writes_refused",
            "Writes that the store did not keep: disk full, file locked or queue full.",
            registry=registry,
        )
        self._failures: WriteFailures | None = None
        self._last = 0.0  # on the monotonic clock

    @property
    def failures(self) -> WriteFailures | None:
        """The newest stretch of failures; None without any since the start."""
        if self._failures is None:
            return None
        return msgspec.structs.replace(self._failures, quiet_seconds=self._quiet_seconds())

    def refused(self, reason: str, *, writes: int = 1) -> None:
        """Count writes that were not stored."""
        self._refused.inc(writes)
        stretch = self._failures
        if stretch is None or (stretch.is_over and self._quiet_seconds() > _STRETCH_SECONDS):
            stretch = WriteFailures(since=self._clock.now(), quiet_seconds=0, count=0, reason="")
        self._last = self._clock.monotonic()
        self._failures = msgspec.structs.replace(
            stretch, count=stretch.count + writes, reason=reason, is_over=False
        )

    def stored(self) -> None:
        """Note that a write has become durable, other than a probe."""
        if self._failures is not None and not self._failures.is_over:
            self._failures = msgspec.structs.replace(self._failures, is_over=True)

    def _quiet_seconds(self) -> float:
        return self._clock.monotonic() - self._last
