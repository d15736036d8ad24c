"""The daemon's own metrics: families from one snapshot, and the lag of the event loop."""

from __future__ import annotations

import platform
from collections.abc import Iterator

from prometheus_client import CollectorRegistry, Histogram

from monitor.bus.contract import StoreStatus
from monitor.model.clock import Clock
from monitor.outputs.metrics import families
from monitor.outputs.metrics.alerts import alert_families
from monitor.outputs.metrics.consumer import CONSUMER
from monitor.outputs.metrics.families import Family
from monitor.outputs.metrics.snapshot import MetricsSnapshot

_LAG_BOUNDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10)


def daemon_families(snapshot: MetricsSnapshot, *, version: str) -> Iterator[Family]:
    """Yield what is known of polls, callbacks, alerts, the store and the configuration."""
    build = families.BUILD_INFO.info()
    build.add_metric([], {"version": version, "python_version": platform.python_version()})
    yield build
    yield from _configuration(snapshot)
    yield _polls(snapshot)
    yield from _callbacks(snapshot)
    if snapshot.alerting is not None:
        yield from alert_families(snapshot.alerting, now=snapshot.now)
    if snapshot.bus is not None:
        yield from _store(snapshot.bus)


def _configuration(snapshot: MetricsSnapshot) -> Iterator[Family]:
    if (status := snapshot.configuration) is not None:
        info, success = families.CONFIG_INFO.info(), families.CONFIG_SUCCESS.gauge()
        info.add_metric([], {"hash": status.hash})
        success.add_metric([], status.is_newest)
        yield from (info, success)


def _polls(snapshot: MetricsSnapshot) -> Family:
    family = families.POLL_SUCCESS.gauge()
    for poll in snapshot.polls:
        if poll.last_success_at is not None:
            family.add_metric([poll.workspace, poll.poll], poll.last_success_at.timestamp())
    return family


def _callbacks(snapshot: MetricsSnapshot) -> Iterator[Family]:
    received, tasks = families.CALLBACK_RECEIVED.gauge(), families.WEBHOOK_TASKS.gauge()
    missed = families.CALLBACKS_MISSED.counter()
    for workspace in snapshot.workspaces:
        missed.add_metric([workspace.workspace], workspace.callbacks_missed)
        if workspace.last_callback_at is not None:
            received.add_metric([workspace.workspace], workspace.last_callback_at.timestamp())
        for state, count in sorted(workspace.webhook_tasks.items()):
            tasks.add_metric([workspace.workspace, state], count)
    yield from (received, tasks, missed)


def _store(status: StoreStatus) -> Iterator[Family]:
    backlog, oldest = families.CONSUMER_BACKLOG.gauge(), families.CONSUMER_OLDEST.gauge()
    lost, letters = families.EVENTS_LOST.counter(), families.DEAD_LETTERS.gauge()
    for consumer in status.consumers:
        backlog.add_metric([consumer.consumer], consumer.backlog)
        lost.add_metric([consumer.consumer], consumer.lost)
        if consumer.oldest_at is not None:
            oldest.add_metric([consumer.consumer], consumer.oldest_at.timestamp())
        if consumer.consumer != CONSUMER:
            letters.add_metric([consumer.consumer], consumer.dead_letters)
    store_bytes = families.STORE_BYTES.gauge()
    store_bytes.add_metric([], status.store_bytes)
    yield from (backlog, oldest, lost, letters, store_bytes)


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
