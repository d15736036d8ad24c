"""The daemon's own metrics about requests to workspaces."""

from __future__ import annotations

from weakref import WeakKeyDictionary

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram

_BUCKETS_SECONDS = (0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0)


class ApiMetrics:
    """One set for all workspaces of a registry; get it by `of`."""

    def __init__(self, registry: CollectorRegistry) -> None:
        prefix = "dataprep_monitor_api"
        self.requests = Counter(
            f"{prefix}_requests",
            "Requests sent to a workspace, by the answer's status code or the kind of failure.",
            ["workspace", "operation", "code"],
            registry=registry,
        )
        self.duration = Histogram(
            f"{prefix}_request_duration_seconds",
            "From sending a request to having read its whole answer.",
            ["operation"],
            buckets=_BUCKETS_SECONDS,
            registry=registry,
        )
        self.retries = Counter(
            f"{prefix}_retries",
            "Requests sent again, by what made that necessary.",
            ["workspace", "reason"],
            registry=registry,
        )
        self.rate_limit = Gauge(
            f"{prefix}_rate_limit",
            "Requests a minute: our own budget, and the quotas of the newest answers.",
            ["workspace", "scope"],
            registry=registry,
        )
        self.rate_limit_remaining = Gauge(
            f"{prefix}_rate_limit_remaining",
            "Requests that may be sent at once, as of the last request.",
            ["workspace", "scope"],
            registry=registry,
        )
        self.throttle_seconds = Counter(
            f"{prefix}_throttle_seconds",
            "Time that requests waited for their turn in the budget.",
            ["workspace"],
            registry=registry,
        )

    @staticmethod
    def of(registry: CollectorRegistry) -> ApiMetrics:
        """Return the registry's set, made at the first call."""
        known = _known.get(registry)
        if known is None:
            known = _known[registry] = ApiMetrics(registry)
        return known


# A registry takes each name once, and every workspace has a client of its own.
_known: WeakKeyDictionary[CollectorRegistry, ApiMetrics] = WeakKeyDictionary()
