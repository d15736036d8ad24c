"""Metrics of the daemon: what it says of itself, its shards, and their exposition."""

from __future__ import annotations

import platform
from collections.abc import Iterator
from datetime import datetime

import msgspec
from msgspec import Struct
from prometheus_client import (
    CollectorRegistry,
    GCCollector,
    Histogram,
    PlatformCollector,
    ProcessCollector,
)

from monitor.model.clock import Clock
from monitor.outputs.metrics import families
from monitor.outputs.metrics.exposition import Exposition
from monitor.outputs.metrics.family_shapes import Family
from monitor.outputs.metrics.settings import MetricsSettings
from monitor.outputs.metrics.shard_metrics import ShardMetrics

_LAG_BOUNDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10)


class ConfigurationStatus(Struct, frozen=True, kw_only=True):
    """Which configuration is in force, and whether the one read last is that one."""

    hash: str
    is_newest: bool = True


class DaemonCollector:
    """Build, configuration and store. Written on the loop, collected in the rendering thread."""

    def __init__(self, *, version: str) -> None:
        self._version = version
        self._configuration: ConfigurationStatus | None = None
        self._store_bytes: int | None = None
        self._certificates: dict[str, datetime] = {}  # listener -> expiry

    def store_measured(self, store_bytes: int | None) -> None:
        """Show this size of the store; None where it did not answer in time."""
        self._store_bytes = store_bytes

    def certificate_loaded(self, listener: str, expires_at: datetime) -> None:
        """Show when the certificate that a listener serves with from now on expires."""
        self._certificates = {**self._certificates, listener: expires_at}

    def configuration_taken(self, configuration_hash: str) -> None:
        """Show this configuration as the one in force."""
        self._configuration = ConfigurationStatus(hash=configuration_hash)

    def configuration_refused(self) -> None:
        """Show that what was read last is not in force; the one before still is."""
        if self._configuration is not None:
            self._configuration = msgspec.structs.replace(self._configuration, is_newest=False)

    def describe(self) -> Iterator[Family]:
        """Name all families, drawn or collected, so that no other can register the same."""
        return (shape.family() for shape in families.SHAPES)

    def collect(self) -> Iterator[Family]:
        build = families.BUILD_INFO.info()
        build.add_metric(
            [], {"version": self._version, "python_version": platform.python_version()}
        )
        yield build
        if (status := self._configuration) is not None:
            info, success = families.CONFIG_INFO.info(), families.CONFIG_SUCCESS.gauge()
            info.add_metric([], {"hash": status.hash})
            success.add_metric([], status.is_newest)
            yield from (info, success)
        if certificates := self._certificates:
            expiry = families.CERTIFICATE_EXPIRY.gauge()
            for listener, expires_at in certificates.items():
                expiry.add_metric([listener], expires_at.timestamp())
            yield expiry
        if self._store_bytes is not None:
            store_bytes = families.STORE_BYTES.gauge()
            store_bytes.add_metric([], self._store_bytes)
            yield store_bytes


class LoopLag:
    """Measures how late the event loop wakes a sleeper: what every answer waits in addition."""

    def __init__(
        self, *, clock: Clock, registry: CollectorRegistry, interval_seconds: float
    ) -> None:
        self._clock = clock
        self._interval_seconds = interval_seconds
        self._lag = Histogram(
            "dataprep_monitor_event_loop_lag_seconds",
            "Seconds by which the event loop woke a sleeping task too late.",
            buckets=_LAG_BOUNDS,
            registry=registry,
        )

    async def run(self) -> None:
        """Measure until cancelled."""
        while True:
            due = self._clock.monotonic() + self._interval_seconds
            await self._clock.sleep(self._interval_seconds)
            self._lag.observe(max(0.0, self._clock.monotonic() - due))


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
            store_measured=self._daemon.store_measured,
            timeout_seconds=settings.render_timeout_seconds,
        )
        self.certificate_loaded = self._daemon.certificate_loaded
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
