"""The shapes of charts, in the coordinates of their view boxes. Pure.

The templates write them as SVG with classes for colours; axes and words stand beside them as text.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from datetime import datetime
from typing import Any

import msgspec
from msgspec import Struct

from monitor.model.runs import RunKind
from monitor.model.words import duration, kind_words, utc
from monitor.web.page.template_filters import run_path
from monitor.web.views.pipelines.pipeline_details import PipelineDetails
from monitor.web.views.runs.run_details import RunDetails, RunPart
from monitor.web.views.runs.run_views import RunView

WIDTH, HEIGHT = 1000.0, 100.0
_LEAST = 2.0  # of a bar, so that it can be seen
_LEAST_HEIGHT = 12.0
_BAR = 6.0
_MOST_BARS = 240
_TITLE = 200  # characters of a reason
_WORST = ("failed", "lost", "unknown", "canceled", "running", "pending", "succeeded")


class Bar(Struct, frozen=True, kw_only=True):
    """A rectangle. ``status`` is its class, ``title`` its words."""

    x: float
    y: float
    width: float
    height: float
    status: str
    title: str = ""


class Dots(Struct, frozen=True, kw_only=True):
    """A chart of one figure over time: a path of dots, and a line at the learned limit.

    ``series`` is what the browser draws it from.
    """

    path: str
    limit_y: float | None
    top: float
    series: str


class TimeSpan(Struct, frozen=True):
    """The time that a chart shows, in seconds since 1970."""

    begin: float
    end: float

    def x(self, at: datetime) -> float:
        """Return where an instant stands; what lies outside stands at the edge."""
        length = self.end - self.begin
        share = (at.timestamp() - self.begin) / length if length > 0 else 0.0
        return WIDTH * min(1.0, max(0.0, share))


def timeline(view: PipelineDetails) -> Iterator[Bar]:
    """Yield a bar for each run at its time, as high as it took; of many runs one for several."""
    span = _span(view)
    slots: dict[int, list[RunView]] = {}
    is_dense = len(view.history) > _MOST_BARS
    for number, run in enumerate(view.history):
        at = run.started_at or run.created_at or run.finished_at
        if at is not None and at.timestamp() >= span.begin:
            slot = int(span.x(at) * _MOST_BARS / WIDTH) if is_dense else number
            slots.setdefault(slot, []).append(run)
    longest = max((run.duration_seconds or 0.0 for run in view.history), default=0.0)
    # One by one, so that a rendering may pause between them.
    return (_timeline_bar(runs, span, longest) for _, runs in sorted(slots.items()))


def _timeline_bar(runs: Sequence[RunView], span: TimeSpan, longest: float) -> Bar:
    first = runs[-1]
    at = first.started_at or first.created_at or first.finished_at
    seconds = max(run.duration_seconds or 0.0 for run in runs)
    status = min((run.status for run in runs), key=_WORST.index)
    height = _LEAST_HEIGHT + (HEIGHT - _LEAST_HEIGHT) * (seconds / longest if longest else 0.0)
    title = f"{status}, {utc(at)}, {duration(seconds)}"
    if first.reason:
        title += f": {first.reason[:_TITLE]}"
    if len(runs) > 1:
        failed = sum(run.status == "failed" for run in runs)
        title = f"{len(runs)} runs from {utc(at)}, {failed} failed, longest {duration(seconds)}"
    return Bar(
        x=round(min(0.0 if at is None else span.x(at), WIDTH - _BAR), 1),
        y=round(HEIGHT - height, 1),
        width=_BAR,
        height=round(height, 1),
        status=status,
        title=title,
    )


def durations(view: PipelineDetails) -> Dots | None:
    """Return the chart of how long runs took; None where no run says it."""
    return _dots(view, lambda run: run.duration_seconds, limit=view.limit_seconds)


def queues(view: PipelineDetails) -> Dots | None:
    """Return the chart of how long runs waited for their start."""
    return _dots(view, lambda run: run.queue_seconds, limit=None)


def _dots(
    view: PipelineDetails, of: Callable[[RunView], float | None], *, limit: float | None
) -> Dots | None:
    span = _span(view)
    points = [
        (run.created_at.timestamp(), seconds, run.status)
        for run in reversed(view.history)
        if run.created_at is not None and (seconds := of(run)) is not None
    ]
    points = [point for point in points if point[0] >= span.begin]
    if not points:
        return None
    top = max(1.0, *(seconds for _, seconds, _ in points), limit or 0.0)
    right, down = WIDTH / (span.end - span.begin), HEIGHT / top
    path = "".join(
        f"M{(at - span.begin) * right:.1f} {HEIGHT - seconds * down:.1f}h0"
        for at, seconds, _ in points
    )
    series: dict[str, Any] = {
        "from": int(span.begin),
        "until": int(span.end),
        "times": [round(at) for at, _, _ in points],
        "seconds": [round(seconds, 1) for _, seconds, _ in points],
        "failed": [int(status == "failed") for _, _, status in points],
        "limit": limit,
    }
    return Dots(
        path=path,
        limit_y=None if limit is None else round(HEIGHT - limit * down, 1),
        top=top,
        series=msgspec.json.encode(series).decode(),
    )


def _span(view: PipelineDetails) -> TimeSpan:
    """Return the time that is drawn. It moves on by steps, so that a chart stays as it is."""
    length = view.range.length.total_seconds()
    step = length / WIDTH
    begin = view.since.timestamp() // step * step
    return TimeSpan(begin, begin + length + step)


class GanttRow(Struct, frozen=True, kw_only=True):
    """A part of a run, and its bars: the wait for its start, and the work."""

    part: RunPart
    bars: tuple[Bar, ...]
    path: str | None


class Gantt(Struct, frozen=True, kw_only=True):
    """The parts of a run over the time from its creation to its end, or to now."""

    rows: tuple[GanttRow, ...]
    begin: datetime
    end: datetime


def gantt(view: RunDetails, now: datetime) -> Gantt | None:
    """Return the chart of a run; None where no time of it is known."""
    begun = [at for part in view.parts if (at := part.created_at or part.started_at) is not None]
    ended = [at for part in view.parts if (at := part.finished_at) is not None]
    if not begun:
        return None
    is_active = any(_is_active(part) for part in view.parts)
    begin, end = min(begun), max([*begun, *ended, *([now] if is_active else [])])
    span = TimeSpan(begin.timestamp(), end.timestamp())
    rows = tuple(
        GanttRow(
            part=part,
            bars=tuple(_gantt_bars(part, span, now=end)),
            path=None if part.kind == "job" else run_path(view.run.workspace, part.kind, part.id),
        )
        for part in view.parts
    )
    return Gantt(rows=rows, begin=begin, end=end)


def _gantt_bars(part: RunPart, span: TimeSpan, *, now: datetime) -> list[Bar]:
    started_at, finished_at = part.started_at, part.finished_at
    if finished_at is None and _is_active(part):
        finished_at = now
    stretches = []
    if part.created_at is not None and started_at is not None:
        stretches.append((part.created_at, started_at, "waiting"))
    work_at = started_at or part.created_at
    if work_at is not None:
        stretches.append((work_at, finished_at or work_at, part.status))
    bars = []
    for from_at, to_at, status in stretches:
        x, right = span.x(from_at), span.x(to_at)
        if right > x or status != "waiting":
            width = min(WIDTH, max(right - x, _LEAST * 2))
            bars.append(
                Bar(x=min(x, WIDTH - width), y=0, width=width, height=HEIGHT, status=status)
            )
    return bars


def _is_active(part: RunPart) -> bool:
    return part.status in ("pending", "running")


def part_words(part: RunPart) -> str:
    """Return the kind and id of a part for people."""
    return f"{kind_words(part.kind)} {part.id}"


def without_parts(runs: Sequence[RunView]) -> list[RunView]:
    """Return the runs but for job groups whose flow run is among them."""
    flow_runs = {(run.workspace, run.id) for run in runs if run.kind == RunKind.FLOW_RUN}
    return [run for run in runs if (run.workspace, run.flow_run) not in flow_runs]
