"""A histogram of transactions' durations, in the same buckets for every store."""

from __future__ import annotations

from prometheus_client import CollectorRegistry, Histogram

_BUCKETS = (0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10)


def commit_durations(registry: CollectorRegistry) -> Histogram:
    return Histogram(
        "dataprep_monitor_commit_duration_seconds",
        "Time from the start of a transaction to its being durable; one holds many changes.",
        buckets=_BUCKETS,
        registry=registry,
    )
