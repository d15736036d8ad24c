"""Draws one shard's part of a page. Runs in the rendering thread, never on the loop."""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Mapping, Sequence

from monitor.outputs.metrics import families
from monitor.outputs.metrics.counting import CountingLimits
from monitor.outputs.metrics.exposition_cache import (
    Encoder,
    ExpositionCache,
    ExpositionPage,
    FamilyText,
)
from monitor.outputs.metrics.inventory_metrics import SeriesByMetric
from monitor.outputs.metrics.metrics_snapshot import MetricsSnapshot
from monitor.outputs.metrics.operation import operation_families
from monitor.outputs.metrics.series_budget import lay_out
from monitor.outputs.metrics.watched import watched_families


class ShardDrawing:
    """Keeps the starts of lines for the next page, and which series had no place on the last."""

    def __init__(
        self,
        *,
        shard: str,
        limits: CountingLimits,
        stale_after_seconds: float,
        capabilities: Sequence[str],
    ) -> None:
        self.limits = limits
        self.stale_after_seconds = stale_after_seconds
        self._shard = shard
        self._capabilities = capabilities
        self._exposition_cache = ExpositionCache()
        self._left_out: Mapping[Hashable, SeriesByMetric] = {}
        self._dropped: dict[str, int] = {}

    def draw(
        self, snapshot: MetricsSnapshot, encoder: Encoder, *, is_openmetrics: bool
    ) -> Iterator[FamilyText]:
        """Yield the families as ``encoder`` would write them: the same ones for every snapshot."""
        layout = lay_out(snapshot, limits=self.limits)
        self._count_dropped(layout.dropped)
        page = self._exposition_cache.begin(
            encoder, is_openmetrics=is_openmetrics, shard=self._shard
        )
        series = 0
        for family_text in watched_families(
            snapshot,
            layout,
            page,
            stale_after_seconds=self.stale_after_seconds,
            capabilities=self._capabilities,
        ):
            series += len(family_text)
            yield family_text
        yield from operation_families(snapshot, page)
        yield from self._budget(page, series)

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

    def _budget(self, page: ExpositionPage, series: int) -> Iterator[FamilyText]:
        shown = page.family_text(families.SERIES)
        dropped = page.family_text(families.SERIES_DROPPED)
        shown.add((), series)
        own = (families.SCHEDULE_ENABLED, *families.INVENTORY)
        for shape in (*families.SERIES_OF_PIPELINE, *own):
            dropped.add((shape.name,), self._dropped.get(shape.name, 0))
        yield from (shown, dropped)
