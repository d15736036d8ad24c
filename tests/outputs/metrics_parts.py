"""The metrics of a daemon with one shard, as the app builds them."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from prometheus_client import CollectorRegistry

from monitor.bus.contract import EventBus
from monitor.model.alerts import AlertingSnapshot
from monitor.model.clock import Clock
from monitor.model.registries import ShardRegistry
from monitor.outputs.metrics.consumer import MetricsConsumer
from monitor.outputs.metrics.daemon_metrics import DaemonMetrics
from monitor.outputs.metrics.exposition import Exposition
from monitor.outputs.metrics.settings import MetricsSettings
from monitor.outputs.metrics.shard_metrics import ShardMetrics
from monitor.tracking.live_state import LiveStateView


class Metrics:
    """What one daemon says of itself, and of the one shard that it holds."""

    def __init__(
        self,
        *,
        bus: EventBus,
        live_state: LiveStateView,
        clock: Clock,
        registry: CollectorRegistry | None = None,
        settings: MetricsSettings | None = None,
        version: str = "1.2.3",
        capabilities: Sequence[str] = (),
        alerting: Callable[[], AlertingSnapshot] | None = None,
    ) -> None:
        registry = registry or CollectorRegistry()
        settings = settings or MetricsSettings()
        self.daemon = DaemonMetrics(
            registry=registry, clock=clock, settings=settings, version=version
        )
        self.shard = shard_metrics(
            bus,
            live_state=live_state,
            clock=clock,
            registry=registry,
            settings=settings,
            capabilities=capabilities,
            alerting=alerting,
        )
        self.daemon.add(self.shard)

    @property
    def consumer(self) -> MetricsConsumer:
        return self.shard.consumer

    @property
    def exposition(self) -> Exposition:
        return self.daemon.exposition

    def reconfigure(self, settings: MetricsSettings) -> None:
        self.daemon.reconfigure(settings)
        self.shard.reconfigure(settings)


def shard_metrics(
    bus: EventBus,
    *,
    live_state: LiveStateView,
    clock: Clock,
    registry: CollectorRegistry,
    settings: MetricsSettings | None = None,
    capabilities: Sequence[str] = (),
    alerting: Callable[[], AlertingSnapshot] | None = None,
) -> ShardMetrics:
    """Return the metrics of one shard of a process that counts in ``registry``."""
    return ShardMetrics(
        bus=bus,
        live_state=live_state,
        clock=clock,
        registry=ShardRegistry(registry, shard=bus.shard),
        settings=settings or MetricsSettings(),
        capabilities=capabilities,
        alerting=alerting,
    )
