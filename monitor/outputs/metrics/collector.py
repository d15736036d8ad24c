"""Shows one picture to the client library. Runs in the rendering thread, never on the loop."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import chain

from monitor.outputs.metrics import families
from monitor.outputs.metrics.budget import lay_out
from monitor.outputs.metrics.counting import Limits
from monitor.outputs.metrics.daemon import daemon_families
from monitor.outputs.metrics.families import Family
from monitor.outputs.metrics.picture import Picture
from monitor.outputs.metrics.watched import watched_families


class PictureCollector:
    """Collects what `show` was last given; nothing before that."""

    def __init__(
        self,
        *,
        limits: Limits,
        stale_after_seconds: float,
        capabilities: Sequence[str],
        version: str,
    ) -> None:
        self._limits = limits
        self._stale_after_seconds = stale_after_seconds
        self._capabilities = capabilities
        self._version = version
        self._picture: Picture | None = None
        self._left_out: Mapping[tuple[str, str], int] = {}
        self._dropped: dict[str, int] = {}

    def show(self, picture: Picture) -> None:
        self._picture = picture

    def describe(self) -> Iterator[Family]:
        """Name the families, so that nobody else can register the same."""
        return (shape.family() for shape in families.SHAPES)

    def collect(self) -> Iterator[Family]:
        picture = self._picture
        if picture is None:
            return
        layout = lay_out(picture, limits=self._limits)
        watched = watched_families(
            picture,
            layout,
            stale_after_seconds=self._stale_after_seconds,
            capabilities=self._capabilities,
        )
        self._count_dropped(layout.dropped)
        series = 0
        for family in chain(watched, daemon_families(picture, version=self._version)):
            is_watched = not family.name.startswith("dataprep_monitor_")
            series += len(family.samples) if is_watched else 0
            if family.samples:
                yield family
        yield from self._budget(series)

    def _count_dropped(self, left_out: Mapping[tuple[str, str], int]) -> None:
        for (metric, whose), count in left_out.items():
            if (metric, whose) not in self._left_out:
                self._dropped[metric] = self._dropped.get(metric, 0) + count
        # Only the present is held, so that this cannot grow with pipelines that are gone.
        self._left_out = left_out

    def _budget(self, series: int) -> Iterator[Family]:
        gauge, dropped = families.SERIES.gauge(), families.SERIES_DROPPED.counter()
        gauge.add_metric([], series)
        for shape in (*families.SERIES_OF_PIPELINE, families.SCHEDULE_ENABLED):
            dropped.add_metric([shape.name], self._dropped.get(shape.name, 0))
        yield from (gauge, dropped)
