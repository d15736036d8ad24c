"""Shows one snapshot. Runs in the rendering thread, never on the loop."""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Mapping, Sequence

from monitor.outputs.metrics import families
from monitor.outputs.metrics.budget import lay_out
from monitor.outputs.metrics.counting import CountingLimits
from monitor.outputs.metrics.daemon import daemon_families
from monitor.outputs.metrics.exposition_cache import Encoder, ExpositionCache
from monitor.outputs.metrics.families import Family
from monitor.outputs.metrics.inventory import SeriesByMetric
from monitor.outputs.metrics.snapshot import MetricsSnapshot
from monitor.outputs.metrics.watched import watched_families


class SnapshotCollector:
    """Draws what is watched, and lets the client library collect what the daemon says of itself.

    Both are of the snapshot that `draw` was last given; before that there is nothing.
    """

    def __init__(
        self,
        *,
        limits: CountingLimits,
        stale_after_seconds: float,
        capabilities: Sequence[str],
        version: str,
    ) -> None:
        self.limits = limits
        self.stale_after_seconds = stale_after_seconds
        self._capabilities = capabilities
        self._version = version
        self._exposition_cache = ExpositionCache()
        self._snapshot: MetricsSnapshot | None = None
        self._series = 0
        self._left_out: Mapping[Hashable, SeriesByMetric] = {}
        self._dropped: dict[str, int] = {}

    def draw(
        self, snapshot: MetricsSnapshot, encoder: Encoder, *, is_openmetrics: bool
    ) -> Iterator[bytes]:
        """Yield the families of what is watched, in pieces, as ``encoder`` would write them.

        `collect` shows this snapshot once all of them were taken.
        """
        layout = lay_out(snapshot, limits=self.limits)
        self._count_dropped(layout.dropped)
        series = 0
        for family_text in watched_families(
            snapshot,
            layout,
            self._exposition_cache.begin(encoder, is_openmetrics=is_openmetrics),
            stale_after_seconds=self.stale_after_seconds,
            capabilities=self._capabilities,
        ):
            series += len(family_text)
            yield from family_text.texts()
        self._snapshot, self._series = snapshot, series

    def describe(self) -> Iterator[Family]:
        """Name all families, drawn or collected, so that nobody else can register the same."""
        return (shape.family() for shape in families.SHAPES)

    def collect(self) -> Iterator[Family]:
        if self._snapshot is None:
            return
        for family in daemon_families(self._snapshot, version=self._version):
            if family.samples:
                yield family
        yield from self._budget()

    def _count_dropped(self, left_out: Mapping[Hashable, SeriesByMetric]) -> None:
        for owner, series in left_out.items():
            before = self._left_out.get(owner, {})
            if series is before:  # as of most owners, on most pages
                continue
            for metric, count in series.items():
                if metric not in before:
                    self._dropped[metric] = self._dropped.get(metric, 0) + count
        # Only the present is kept, so that this cannot grow with pipelines that are gone.
        self._left_out = left_out

    def _budget(self) -> Iterator[Family]:
        gauge, dropped = families.SERIES.gauge(), families.SERIES_DROPPED.counter()
        gauge.add_metric([], self._series)
        own = (families.SCHEDULE_ENABLED, *families.INVENTORY)
        for shape in (*families.SERIES_OF_PIPELINE, *own):
            dropped.add_metric([shape.name], self._dropped.get(shape.name, 0))
        yield from (gauge, dropped)
