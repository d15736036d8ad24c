"""The metrics of a store that daemons share; the reference lists them without a database."""

from __future__ import annotations

from prometheus_client import CollectorRegistry, Counter, Gauge

_RENEWAL_OUTCOMES = ("renewed", "failed", "gone")


class LeaseMetrics:
    """How the leases of this daemon are."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self.renewals = Counter(
            "dataprep_monitor_lease_renewals",
            "Renewals of this daemon's lease, by outcome: renewed, failed (the database did not "
            "answer), gone (other daemons had declared this one gone).",
            ("outcome",),
            registry=registry,
        )
        for outcome in _RENEWAL_OUTCOMES:
            self.renewals.labels(outcome)
        self.takeovers = Counter(
            "dataprep_monitor_takeovers",
            "Shards that this daemon took over from one that was gone.",
            registry=registry,
        )
        self.shards_held = Gauge(
            "dataprep_monitor_shards_held",
            "Shards that this daemon holds.",
            registry=registry,
        )


def fenced_writes(registry: CollectorRegistry) -> Counter:
    """Return the counter of writes that came too late, wherever that was found out."""
    return Counter(
        "dataprep_monitor_fenced_writes",
        "Writes that were refused because another daemon holds the shard, or may hold it.",
        registry=registry,
    )
