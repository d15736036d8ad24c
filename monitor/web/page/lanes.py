"""Draws the lanes of the time line as SVG: what a bar is shows in its height as in its colour.

A lane is as wide as its place and stretches with it, so only rectangles stand in it. Screen readers
get the words beside a lane, which is hidden from them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import datetime, timedelta
from itertools import chain
from types import MappingProxyType
from typing import Any

from markupsafe import Markup, escape

from monitor.model.runs import Status
from monitor.model.words import counted, duration, utc
from monitor.web.http.request_parsing import url_of
from monitor.web.page.template_filters import run_path
from monitor.web.views.timeline.lanes import Lane, LaneBar, LaneMark, MarkKind
from monitor.web.views.timeline.timeline import LanesAnswer, TimelineQuery

WIDTH, HEIGHT = 1000, 20
_SHORTEST = timedelta(minutes=2)  # that a bar of several runs leads to
_LEAST = 2.5  # of a bar, so that it can be seen and hit
# Top and height: the worse, the taller.
_HEIGHTS = MappingProxyType(
    {
        Status.FAILED: (0, 20),
        Status.LOST: (0, 20),
        Status.CANCELED: (12, 6),
        Status.RUNNING: (5, 10),
        Status.PENDING: (8, 4),
        Status.SUCCEEDED: (5, 12),
    }
)
_MARK_WORDS = MappingProxyType(
    {
        MarkKind.MISSED: "expected start, missed",
        MarkKind.DUE: "expected start, due",
        MarkKind.UNKNOWN: "expected start, unknown whether it came",
        MarkKind.COMING: "expected start",
        MarkKind.DEADLINE: "deadline",
        MarkKind.DEADLINE_MISSED: "deadline, missed",
    }
)


def lane(row: Lane, view: LanesAnswer, query: TimelineQuery) -> Iterator[Markup]:
    """Yield the shapes of a lane, for its SVG; one by one, so that a rendering may pause."""
    drawn = _Drawing(view, query)
    for shape in chain(
        drawn.shades(row),
        (drawn.bar(row, bar) for bar in row.bars),
        map(drawn.mark, row.marks),
        drawn.now(row),
    ):
        yield Markup(shape)  # noqa: S704 - every text in it is escaped


def lane_words(row: Lane) -> str:
    """Return what a lane shows, such as ``24 runs: 23 succeeded, 1 failed; 1 start missed``."""
    number = sum(row.counts.values())
    words = "no run"
    if number:
        counts = [f"{row.counts[status]} {status}" for status in Status if row.counts.get(status)]
        words = f"{counted(number, 'run')}: {', '.join(counts)}"
    if row.missed:
        words += f"; {counted(row.missed, 'start')} missed"
    deadlines = sum(mark.kind is MarkKind.DEADLINE_MISSED for mark in row.marks)
    if deadlines:
        words += f"; {counted(deadlines, 'deadline')} missed"
    if row.gaps:
        words += "; not observed all the time"
    return words


class _Drawing:
    def __init__(self, view: LanesAnswer, query: TimelineQuery) -> None:
        self._begin = view.since.timestamp()
        self._scale = WIDTH / (view.until - view.since).total_seconds()
        self._query = query

    def shades(self, row: Lane) -> Iterator[str]:
        """Yield what is drawn under the bars: times that were not observed or are not read."""
        for gap in row.gaps:
            until = row.now if gap.until is None else gap.until
            ends = "" if gap.until is None else f" until {utc(gap.until)}"
            words = f"not observed from {utc(gap.since)}{ends}: {gap.why}"
            yield self._shape("blind", gap.since, until, words, top=0, height=HEIGHT)
        if row.drawn_since is not None and self._x(row.drawn_since) > 0:
            words = f"runs before {utc(row.drawn_since)} are not drawn; choose a shorter time"
            yield self._shape("undrawn", None, row.drawn_since, words, top=0, height=HEIGHT)

    def bar(self, row: Lane, bar: LaneBar) -> str:
        until = row.now if bar.until is None else bar.until
        top, height = _HEIGHTS[bar.status]
        shape = self._shape(bar.status, bar.since, until, _words(bar), top=top, height=height)
        return f'<a href="{escape(self._url(row, bar, until))}" tabindex="-1">{shape}</a>'

    def mark(self, mark: LaneMark) -> str:
        words = f"{_MARK_WORDS[mark.kind]}: {utc(mark.at)}"
        return self._shape(f"mark-{mark.kind}", mark.at, mark.at, words, top=0, height=HEIGHT)

    def now(self, row: Lane) -> Iterator[str]:
        if 0 <= self._x(row.now) < WIDTH:
            yield self._shape("now", row.now, row.now, "now", top=0, height=HEIGHT)

    def _url(self, row: Lane, bar: LaneBar, until: datetime) -> str:
        """Return where a bar leads: to its run, or to the lane alone in the time of its runs."""
        if bar.run_kind is not None and bar.run_id is not None:
            return run_path(row.workspace, bar.run_kind, bar.run_id)
        margin = max((until - bar.since) / 4, _SHORTEST / 4)
        return url_of(
            "/timeline",
            self._query,
            period=None,
            since=(bar.since - margin).isoformat(timespec="seconds"),
            until=(until + margin).isoformat(timespec="seconds"),
            workspace=row.workspace,
            pipeline=row.id,
            cursor=None,
        )

    def _x(self, at: datetime) -> float:
        return (at.timestamp() - self._begin) * self._scale

    def _shape(
        self,
        css: str,
        since: datetime | None,
        until: datetime,
        words: str,
        *,
        top: int,
        height: int,
    ) -> str:
        begin = 0.0 if since is None else min(max(0.0, self._x(since)), WIDTH - _LEAST)
        width = max(_LEAST, min(WIDTH, self._x(until)) - begin)
        return (
            f'<rect class="{css}" x="{begin:.1f}" y="{top}" width="{width:.1f}" height="{height}">'
            f"<title>{escape(words)}</title></rect>"
        )


def _words(bar: LaneBar) -> str:
    begin = utc(bar.since)
    if bar.runs == 1:
        if bar.until is None:
            return f"{bar.status} since {begin}"
        seconds = (bar.until - bar.since).total_seconds()
        return f"{bar.status}, {begin}, {duration(seconds)}"
    counts = ", ".join(
        f"{bar.counts[status]} {status}" for status in Status if status in bar.counts
    )
    return f"{counted(bar.runs, 'run')} from {begin}: {counts}"


LANE_FILTERS: dict[str, Callable[..., Any]] = {"lane": lane, "lane_words": lane_words}
