"""The reference of all metrics, from the registry of a daemon that runs for a moment.

``python -m monitor.app.metrics_reference deploy/METRICS.md`` writes it.
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

from msgspec import Struct
from prometheus_client import CollectorRegistry
from prometheus_client.metrics import MetricWrapperBase

from monitor.app.daemon import Addresses, Daemon
from monitor.bus.postgres.postgres_metrics import LeaseMetrics, fenced_writes
from monitor.bus.settings import StorageSettings
from monitor.callbacks.settings import ListenerSettings
from monitor.config import Configuration, WorkspaceConfiguration
from monitor.model.clock import SystemClock
from monitor.model.secrets import Secret
from monitor.outputs.metrics.families import SHAPES
from monitor.outputs.mqtt.settings import MqttSettings
from monitor.outputs.notify.channel_metrics import ChannelMetrics
from monitor.web.settings import ServerSettings
from monitor.workspace.settings import WorkspaceSettings

_NO_LISTENER = "127.0.0.1:9"  # where nothing listens; nothing is asked before the daemon is stopped
_INTRODUCTION = """\
# Metrics

Every metric at `/metrics`, made by `python -m monitor.app.metrics_reference deploy/METRICS.md`.

Units are in the names: seconds and bytes; `_timestamp_seconds` is Unix time. `workspace`, `kind`
(flow_run, job_group, plan_run) and `pipeline` (the name of a flow or plan) say what a series is
about. A run id is an exemplar, never a label. A value that is not known is absent, not 0. Watched
counters and histograms are kept in the store and survive restarts; the daemon's own start at zero.
What a shard with a name has without a `workspace` carries the label `shard`.
Metrics of MQTT, of callbacks and of `[workspaces.inventory]` appear where these are configured,
those of leases, takeovers, shards and fenced writes where the store is a PostgreSQL database, and
messages of channels where there is a `[[notify]]`.
The client library's metrics of the process (`process_*`, `python_*`) are not listed.
"""
_GROUPS = {
    "dataprep_": "What is watched",
    "dataprep_monitor_": "The daemon",
}


class MetricEntry(Struct, frozen=True, order=True):
    """One metric, by the name of its series."""

    name: str
    form: str
    labels: tuple[str, ...]
    unit: str
    documentation: str


async def read_metrics() -> list[MetricEntry]:
    """Return every metric of a daemon with all that has metrics, by name."""
    stop = asyncio.Event()
    entries: set[MetricEntry] = set()

    def read(_: Addresses) -> None:
        for registry in daemon.registries:
            entries.update(_entries(registry))
        stop.set()

    with TemporaryDirectory() as folder:
        daemon = Daemon(
            _configuration(Path(folder)), clock=SystemClock(), registry=CollectorRegistry()
        )
        await daemon.run(stop, on_started=read)
    rarely_used = CollectorRegistry()  # needs no database, and no channel
    LeaseMetrics(rarely_used)
    fenced_writes(rarely_used)
    ChannelMetrics(rarely_used)
    entries.update(_entries(rarely_used))
    watched = {
        MetricEntry(
            shape.name, str(shape.form), shape.labels, _unit_of(shape.name), shape.documentation
        )
        for shape in SHAPES
    }
    return sorted(entries | watched)


def metrics_reference(entries: list[MetricEntry]) -> str:
    """Return the reference as Markdown."""
    sections = [_INTRODUCTION]
    for prefix, title in _GROUPS.items():
        longer = [other for other in _GROUPS if len(other) > len(prefix)]
        rows = [
            f"| `{entry.name}` | {', '.join(f'`{label}`' for label in entry.labels)} "
            f"| {entry.form} | {entry.unit} | {entry.documentation} |"
            for entry in entries
            if entry.name.startswith(prefix) and not entry.name.startswith(tuple(longer))
        ]
        head = "| metric | labels | type | unit | meaning |\n|---|---|---|---|---|"
        sections.append("\n".join([f"## {title}\n", head, *rows, ""]))
    return "\n".join(sections)


def _configuration(folder: Path) -> Configuration:
    workspace = WorkspaceConfiguration(
        workspace=WorkspaceSettings(
            name="reference", url=f"http://{_NO_LISTENER}", token=Secret("none")
        )
    )
    return Configuration(
        workspaces=(workspace,),
        outputs={"mqtt": MqttSettings(url=f"mqtt://{_NO_LISTENER}")},
        server=ServerSettings(listen="127.0.0.1:0"),
        callbacks=ListenerSettings(listen="127.0.0.1:0"),
        storage=StorageSettings(url=f"sqlite://{folder}/state.db"),
    )


def _entries(registry: CollectorRegistry) -> Iterator[MetricEntry]:
    # The library has no other way to list collectors, nor to ask a metric for its labels.
    for collector in list(registry._collector_to_names):  # noqa: SLF001
        if isinstance(collector, CollectorRegistry):
            yield from _entries(collector)
        elif isinstance(collector, MetricWrapperBase):
            (family,) = collector.describe()
            name = f"{family.name}_total" if family.type == "counter" else family.name
            labels = collector._labelnames  # noqa: SLF001
            yield MetricEntry(name, family.type, labels, _unit_of(name), family.documentation)


def _unit_of(name: str) -> str:
    words = name.removesuffix("_total").split("_")
    return words[-1] if words[-1] in ("seconds", "bytes", "ratio") else ""


def main(arguments: list[str]) -> int:
    """Write the reference; return 2 unless given one file."""
    if len(arguments) != 1:
        sys.stderr.write("usage: python -m monitor.app.metrics_reference FILE\n")
        return 2
    Path(arguments[0]).write_text(metrics_reference(asyncio.run(read_metrics())), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
