"""The daemon's own metrics about its polls."""

from __future__ import annotations

from prometheus_client import CollectorRegistry, Counter, Histogram

from monitor.model.registries import made_once, process_registry

_BUCKETS_SECONDS = (0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 300.0)


class PollMetrics:
    """One set for all workspaces of a registry; get it by `of`."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self.polls = Counter(
            "dataprep_monitor_polls",
            "Polls of a workspace, by what came of them.",
            ["workspace", "poll", "outcome"],
            registry=registry,
        )
        self.duration = made_once(_duration, process_registry(registry))

    @staticmethod
    def of(registry: CollectorRegistry) -> PollMetrics:
        """Return the registry's set, made at the first call."""
        return made_once(PollMetrics, registry)


def _duration(registry: CollectorRegistry) -> Histogram:
    return Histogram(
        "dataprep_monitor_poll_duration_seconds",
        "From the beginning of a poll to its end or failure.",
        ["poll"],
        buckets=_BUCKETS_SECONDS,
        registry=registry,
    )
