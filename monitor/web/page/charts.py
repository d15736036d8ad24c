"""The shapes of charts, in the coordinates of their view boxes. Pure.

The templates write them as SVG with classes for colours; axes and words stand beside them as text.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from typing import Any

import msgspec
from msgspec import Struct

from monitor.model.words import duration, kind_words, utc
from monitor.web.page.links import run_path
from monitor.web.views.pipelines.pipeline_details import PipelineDetails
from monitor.web.views.pipelines.pipeline_history import HistoryRun
from monitor.web.views.run_details import RunDetails, RunPart

WIDTH, HEIGHT = 1000.0, 100.0
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_LEAST = 2.0  # of a bar, so that it can be seen
_LEAST_HEIGHT = 12.0
_BAR = 6.0
_MOST_BARS = 240
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


def timeline(view: PipelineDetails) -> list[Bar]:
    """Return a bar for each run at its time, as high as it took; of many runs one for several."""
    begin, end = _span(view)
    slots: dict[int, list[HistoryRun]] = {}
    is_dense = len(view.history) > _MOST_BARS
    for number, run in enumerate(view.history):
        at = run.started_at or run.created_at or run.finished_at
        if at is not None and at >= begin:
            slot = int(_x(at, begin, end) * _MOST_BARS / WIDTH) if is_dense else number
            slots.setdefault(slot, []).append(run)
    longest = max((run.duration_seconds or 0.0 for run in view.history), default=0.0)
    return [_timeline_bar(runs, view, longest) for _, runs in sorted(slots.items())]


def _timeline_bar(runs: Sequence[HistoryRun], view: PipelineDetails, longest: float) -> Bar:
    first = runs[-1]
    at = first.started_at or first.created_at or first.finished_at or view.since
    seconds = max(run.duration_seconds or 0.0 for run in runs)
    status = min((run.status for run in runs), key=_WORST.index)
    height = _LEAST_HEIGHT + (HEIGHT - _LEAST_HEIGHT) * (seconds / longest if longest else 0.0)
    title = f"{status}, {utc(at)}, {duration(seconds)}"
    if first.reason:
        title += f": {first.reason[:200]}"
    if len(runs) > 1:
        failed = sum(run.status == "failed" for run in runs)
        title = f"{len(runs)} runs from {utc(at)}, {failed} failed, longest {duration(seconds)}"
    return Bar(
        x=round(min(_x(at, *_span(view)), WIDTH - _BAR), 1),
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
    view: PipelineDetails, of: Callable[[HistoryRun], float | None], *, limit: float | None
) -> Dots | None:
    begin, end = _span(view)
    points = [
        (run.created_at, seconds, run.status)
        for run in reversed(view.history)
        if run.created_at is not None
        and run.created_at >= begin
        and (seconds := of(run)) is not None
    ]
    if not points:
        return None
    top = max(1.0, *(seconds for _, seconds, _ in points), limit or 0.0)
    path = "".join(
        f"M{_x(at, begin, end):.1f} {HEIGHT * (1 - seconds / top):.1f}h0"
        for at, seconds, _ in points
    )
    series: dict[str, Any] = {
        "from": int(begin.timestamp()),
        "until": int(end.timestamp()),
        "times": [round(at.timestamp()) for at, _, _ in points],
        "seconds": [round(seconds, 1) for _, seconds, _ in points],
        "failed": [int(status == "failed") for _, _, status in points],
        "limit": limit,
    }
    return Dots(
        path=path,
        limit_y=None if limit is None else round(HEIGHT * (1 - limit / top), 1),
        top=top,
        series=msgspec.json.encode(series).decode(),
    )


def _span(view: PipelineDetails) -> tuple[datetime, datetime]:
    """Return the time that is drawn. It moves on by steps, so that a chart stays as it is."""
    step = view.range.length / WIDTH
    begin = view.since - (view.since - _EPOCH) % step
    return begin, begin + view.range.length + step


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
    rows = tuple(
        GanttRow(
            part=part,
            bars=tuple(_gantt_bars(part, begin=begin, end=end)),
            path=None if part.kind == "job" else run_path(view.run.workspace, part.kind, part.id),
        )
        for part in view.parts
    )
    return Gantt(rows=rows, begin=begin, end=end)


def _gantt_bars(part: RunPart, *, begin: datetime, end: datetime) -> list[Bar]:
    started_at, finished_at = part.started_at, part.finished_at
    if finished_at is None and _is_active(part):
        finished_at = end
    stretches = []
    if part.created_at is not None and started_at is not None:
        stretches.append((part.created_at, started_at, "waiting"))
    work_at = started_at or part.created_at
    if work_at is not None:
        stretches.append((work_at, finished_at or work_at, part.status))
    bars = []
    for from_at, to_at, status in stretches:
        x, right = _x(from_at, begin, end), _x(to_at, begin, end)
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


def _x(at: datetime, begin: datetime, end: datetime) -> float:
    seconds = (end - begin).total_seconds()
    share = (at - begin).total_seconds() / seconds if seconds > 0 else 0.0
    return WIDTH * min(1.0, max(0.0, share)) if math.isfinite(share) else 0.0
