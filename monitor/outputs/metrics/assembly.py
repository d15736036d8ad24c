"""Metrics, put together: the consumer that counts, the collector that shows, and the page."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import msgspec
from prometheus_client import (
    CollectorRegistry,
    GCCollector,
    PlatformCollector,
    ProcessCollector,
)

from monitor.bus.contract import EventBus
from monitor.model.alerts import AlertingSnapshot
from monitor.model.clock import Clock
from monitor.outputs.metrics.budget import limits_of
from monitor.outputs.metrics.collector import SnapshotCollector
from monitor.outputs.metrics.consumer import CONSUMER, MetricsConsumer
from monitor.outputs.metrics.counting import CountingLimits
from monitor.outputs.metrics.daemon import LoopLag
from monitor.outputs.metrics.exposition import Exposition
from monitor.outputs.metrics.settings import MetricsSettings
from monitor.outputs.metrics.snapshot import (
    ConfigurationStatus,
    MetricsSnapshot,
    snapshot_of,
    status_of,
)
from monitor.tracking.live_state import LiveStateView

__all__ = ["CONSUMER", "Exposition", "LoopLag", "Metrics", "MetricsConsumer"]


class Metrics:
    """All of it for one daemon. ``consumer.run`` and ``loop_lag.run`` are its tasks.

    ``capabilities`` are the words of all capabilities there are, so that one that a workspace
    lacks is shown as 0. The workspaces are those of ``live_state`` when this is made.
    ``alerting`` returns the present alerts; it is called on the event loop and must not wait.
    """

    def __init__(
        self,
        *,
        bus: EventBus,
        live_state: LiveStateView,
        clock: Clock,
        registry: CollectorRegistry,
        settings: MetricsSettings,
        version: str,
        capabilities: Sequence[str] = (),
        alerting: Callable[[], AlertingSnapshot] | None = None,
    ) -> None:
        self._bus = bus
        self._alerting = alerting
        self._live_state = live_state
        self._clock = clock
        self._settings = settings
        self._configuration: ConfigurationStatus | None = None
        limits = self._limits()
        self.consumer = MetricsConsumer(
            bus=bus,
            live_state=live_state,
            clock=clock,
            registry=registry,
            settings=settings,
            limits=limits,
        )
        self.loop_lag = LoopLag(
            clock=clock, registry=registry, interval_seconds=settings.loop_lag_interval_seconds
        )
        self._collector = SnapshotCollector(
            limits=limits,
            stale_after_seconds=settings.stale_after_seconds,
            capabilities=capabilities,
            version=version,
        )
        registry.register(self._collector)
        for process in (ProcessCollector, PlatformCollector, GCCollector):
            process(registry=registry)
        self.exposition = Exposition(
            registry=registry,
            collector=self._collector,
            gather=self._gather,
            timeout_seconds=settings.render_timeout_seconds,
        )

    def reconfigure(self, settings: MetricsSettings) -> None:
        """Show and count by other settings from now on.

        Rows that a smaller budget has no place for are merged when ``consumer.run`` starts again.
        """
        self._settings = settings
        self.consumer.limits = self._collector.limits = self._limits()
        self._collector.stale_after_seconds = settings.stale_after_seconds
        self.exposition.timeout_seconds = settings.render_timeout_seconds

    def _limits(self) -> CountingLimits:
        return limits_of(
            series_budget=self._settings.series_budget,
            forget_seconds=self._settings.forget_pipelines_seconds,
            workspaces=len(self._live_state.workspaces()),
        )

    def configuration_taken(self, configuration_hash: str) -> None:
        """Show this configuration as the one in force."""
        self._configuration = ConfigurationStatus(hash=configuration_hash)

    def configuration_refused(self) -> None:
        """Show that what was read last is not in force; the one before still is."""
        if self._configuration is not None:
            self._configuration = msgspec.structs.replace(self._configuration, is_newest=False)

    async def _gather(self) -> MetricsSnapshot:
        # The store's figures first, because they are waited for: all the rest is of one moment.
        status = await status_of(self._bus, timeout_seconds=self._settings.standing_timeout_seconds)
        return snapshot_of(
            self._live_state,
            now=self._clock.now(),
            rows=self.consumer.rows,
            seen=self.consumer.seen,
            bus=status,
            configuration=self._configuration,
            alerting=self._alerting() if self._alerting is not None else None,
        )
