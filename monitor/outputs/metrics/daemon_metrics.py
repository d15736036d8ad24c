"""Metrics of the daemon, put together: what it says of itself, its shards, and the page."""

from __future__ import annotations

from prometheus_client import (
    CollectorRegistry,
    GCCollector,
    PlatformCollector,
    ProcessCollector,
)

from monitor.model.clock import Clock
from monitor.outputs.metrics.consumer import CONSUMER, MetricsConsumer
from monitor.outputs.metrics.exposition import Exposition
from monitor.outputs.metrics.process_metrics import DaemonCollector, LoopLag
from monitor.outputs.metrics.settings import MetricsSettings
from monitor.outputs.metrics.shard_metrics import ShardMetrics

__all__ = [
    "CONSUMER",
    "DaemonMetrics",
    "Exposition",
    "LoopLag",
    "MetricsConsumer",
    "ShardMetrics",
]


class DaemonMetrics:
    """Metrics of one process. ``loop_lag.run`` is its task.

    Shards come and go while pages are made.
    """

    def __init__(
        self,
        *,
        registry: CollectorRegistry,
        clock: Clock,
        settings: MetricsSettings,
        version: str,
    ) -> None:
        self._registry = registry
        self._shards: list[ShardMetrics] = []
        self._daemon = DaemonCollector(version=version)
        registry.register(self._daemon)
        for process in (ProcessCollector, PlatformCollector, GCCollector):
            process(registry=registry)
        self.loop_lag = LoopLag(
            clock=clock, registry=registry, interval_seconds=settings.loop_lag_interval_seconds
        )
        self.exposition = Exposition(
            registry=registry,
            shards=lambda: tuple(self._shards),
            daemon=self._daemon,
            timeout_seconds=settings.render_timeout_seconds,
        )
        self.configuration_taken = self._daemon.configuration_taken
        self.configuration_refused = self._daemon.configuration_refused

    def add(self, shard: ShardMetrics) -> None:
        """Show this shard too, on every page that is begun from now on.

        To be called once all that it counts is read from the store, but for ``consumer``.
        """
        self._shards.append(shard)

    def remove(self, shard: ShardMetrics) -> None:
        """Show this shard no more, if it ever was."""
        shard.end()
        self._shards = [other for other in self._shards if other is not shard]

    def registries(self) -> list[CollectorRegistry]:
        """Return the registries of the process and of its shards."""
        return [self._registry, *(shard.registry for shard in self._shards)]

    def reconfigure(self, settings: MetricsSettings) -> None:
        """Make pages by other settings from now on; shards have theirs of their own."""
        self.exposition.timeout_seconds = settings.render_timeout_seconds
