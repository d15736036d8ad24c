"""The metrics of channels."""

from __future__ import annotations

from prometheus_client import CollectorRegistry, Counter

from monitor.model.registries import made_once, process_registry


class ChannelMetrics:
    """The series of all channels; get them by `of`."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self.messages = Counter(
            "dataprep_monitor_channel_messages",
            "Messages to channels by result; one may be about many alerts.",
            ["channel", "result"],
            registry=registry,
        )

    @staticmethod
    def of(registry: CollectorRegistry) -> ChannelMetrics:
        """Return those of the process, made at the first call."""
        return made_once(ChannelMetrics, process_registry(registry))
