"""The daemon's own metrics about requests to workspaces."""

from __future__ import annotations

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram

from monitor.model.registries import made_once, process_registry

_PREFIX = "dataprep_monitor_api"
_BUCKETS_SECONDS = (0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0)


class ApiMetrics:
    """One set for all workspaces of a registry; get it by `of`."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self.requests = Counter(
            f"{_PREFIX}_requests",
            "Requests sent to a workspace, by the answer's status code or the kind of failure.",
            ["workspace", "operation", "code"],
            registry=registry,
        )
        self.duration = made_once(_duration, process_registry(registry))
        self.retries = Counter(
            f"{_PREFIX}_retries",
            "Requests sent again, by what made that necessary.",
            ["workspace", "reason"],
            registry=registry,
        )
        self.token_refreshes = Counter(
            "dataprep_monitor_token_refreshes",
            "Refreshes of the access token of a workspace with [workspaces.oauth], by what came.",
            ["workspace", "outcome"],
            registry=registry,
        )
        self.token_expiry = Gauge(
            "dataprep_monitor_access_token_expiry_timestamp_seconds",
            "When the refreshed access token in use expires; absent where no answer says that.",
            ["workspace"],
            registry=registry,
        )
        self.rate_limit = Gauge(
            f"{_PREFIX}_rate_limit",
            "Requests a minute: our own budget, and the quotas of the newest answers.",
            ["workspace", "scope"],
            registry=registry,
        )
        self.rate_limit_remaining = Gauge(
            f"{_PREFIX}_rate_limit_remaining",
            "Requests that may be sent at once, as of the last request.",
            ["workspace", "scope"],
            registry=registry,
        )
        self.throttle_seconds = Counter(
            f"{_PREFIX}_throttle_seconds",
            "Time that requests waited for their turn in the budget.",
            ["workspace"],
            registry=registry,
        )

    @staticmethod
    def of(registry: CollectorRegistry) -> ApiMetrics:
        """Return the registry's set, made at the first call."""
        return made_once(ApiMetrics, registry)


def _duration(registry: CollectorRegistry) -> Histogram:
    return Histogram(
        f"{_PREFIX}_request_duration_seconds",
        "From sending a request to having read its whole answer.",
        ["operation"],
        buckets=_BUCKETS_SECONDS,
        registry=registry,
    )
