"""The lane of one pipeline: its runs as bars, many short ones as one bar, and its marks. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime, timedelta
from enum import StrEnum

from msgspec import Struct

from monitor.model.runs import RunKind, RunState, Status
from monitor.web.views.overview.grid_history import WORST_FIRST
from monitor.web.views.overview.pipeline_list import SightGap
from monitor.web.views.overview.pipeline_state import PipelineRow
from monitor.web.views.schedules.comparison import ScheduledStart, StartState
from monitor.web.views.timeline.time_range import TimeRange

_NARROW = 300  # the part of a lane that a bar of its own needs
_MOST_MARKS = 400  # of a lane
# What came needs no mark: its run stands there.
_MARKED = (StartState.MISSED, StartState.DUE, StartState.UNKNOWN, StartState.COMING)


class MarkKind(StrEnum):
    """What was to happen at an instant."""

    MISSED = "missed"  # a start was expected, and none came
    DUE = "due"  # a start is expected, and its grace is not over
    UNKNOWN = "unknown"  # a start was expected; whether one came is not known
    COMING = "coming"  # a start is expected
    DEADLINE = "deadline"  # by then it has to succeed
    DEADLINE_MISSED = "deadline_missed"


class LaneBar(Struct, frozen=True, kw_only=True, gc=False):
    """One run, or several that lie too close to be drawn one by one. Instants: workspace time.

    ``status`` is the worst of them. ``until`` None: one of them has not ended.
    """

    since: datetime
    until: datetime | None
    status: Status
    counts: dict[Status, int]
    run_kind: RunKind | None = None  # this and the id: of a single run
    run_id: str | None = None

    @property
    def runs(self) -> int:
        return sum(self.counts.values())


class LaneMark(Struct, frozen=True, kw_only=True, gc=False):
    """An expected start or a deadline."""

    at: datetime
    kind: MarkKind


class Lane(Struct, frozen=True, kw_only=True):
    """What one pipeline did in the time that is shown. Instants are the workspace's."""

    workspace: str
    kind: str
    id: str
    name: str
    group: str | None  # what it is grouped by; None: it has none
    state: str
    counts: dict[Status, int]  # runs
    missed: int  # expected starts
    bars: tuple[LaneBar, ...]
    marks: tuple[LaneMark, ...]
    gaps: tuple[SightGap, ...]  # times in which its runs could not be observed
    drawn_since: datetime | None  # only so many of the newest runs are read; None: all are here
    now: datetime


class LaneSources(Struct, frozen=True, kw_only=True):
    """What a lane is made of."""

    row: PipelineRow
    group: str | None
    runs: Sequence[RunState]
    marks: Sequence[LaneMark]  # that no schedule gives
    gaps: Sequence[SightGap]
    drawn_since: datetime | None
    now: datetime  # workspace time


def lane_of(known: LaneSources, shown: TimeRange, *, starts: Sequence[ScheduledStart]) -> Lane:
    """Return the lane; ``starts`` as schedules have them."""
    runs = [run for run in whole_runs(known.runs) if _overlaps(run, shown, known.now)]
    marks = {
        mark
        for mark in (*map(_mark, starts), *known.marks)
        if mark is not None and shown.since <= mark.at < shown.until
    }
    row = known.row
    ordered = sorted(marks, key=lambda mark: (mark.at, mark.kind))
    return Lane(
        workspace=row.workspace,
        kind=row.kind,
        id=row.pipeline_id,
        name=row.pipeline,
        group=known.group,
        state=row.state,
        counts=dict(Counter(run.known_end or run.status for run in runs)),
        missed=sum(mark.kind is MarkKind.MISSED for mark in ordered),
        bars=tuple(_bars(runs, shown, known.now)),
        marks=tuple(ordered[-_MOST_MARKS:]),
        gaps=tuple(
            gap
            for gap in known.gaps
            if gap.since < shown.until and (gap.until is None or gap.until > shown.since)
        ),
        drawn_since=known.drawn_since,
        now=known.now,
    )


def whole_runs(runs: Iterable[RunState]) -> list[RunState]:
    """Return the runs without job groups of flow runs that are among them."""
    found = list(runs)
    stored = {run.key.id for run in found if run.key.kind is RunKind.FLOW_RUN}
    return [
        run
        for run in found
        if run.key.kind is not RunKind.JOB_GROUP or run.parents.flow_run not in stored
    ]


def _mark(start: ScheduledStart) -> LaneMark | None:
    return LaneMark(at=start.at, kind=MarkKind(start.state)) if start.state in _MARKED else None


def _begin(run: RunState) -> datetime:
    return run.started_at or run.created_at or run.finished_at or run.confirmed_at


def _end(run: RunState) -> datetime | None:
    """Return when it ended, as well as it is known; None while it has not."""
    if run.known_end is None:
        return None
    return run.finished_at or run.updated_at or run.end_seen_at or run.confirmed_at


def _overlaps(run: RunState, shown: TimeRange, now: datetime) -> bool:
    return _begin(run) < shown.until and (_end(run) or now) >= shown.since


def _bars(runs: Sequence[RunState], shown: TimeRange, now: datetime) -> Iterable[LaneBar]:
    """Yield the bars, oldest first; runs that are narrow and close together share one."""
    narrow = shown.length / _NARROW
    close: list[RunState] = []
    until = shown.since
    for run in sorted(runs, key=_begin):
        begin, end = _begin(run), _end(run) or now
        is_narrow = end - begin < narrow
        if close and (not is_narrow or begin - until > narrow / 2 or _width(close, end) > narrow):
            yield _bar(close)
            close = []
        if not is_narrow:
            yield _bar([run])
            continue
        close.append(run)
        until = max(until, end)
    if close:
        yield _bar(close)


def _width(close: Sequence[RunState], end: datetime) -> timedelta:
    return end - _begin(close[0])


def _bar(runs: Sequence[RunState]) -> LaneBar:
    counts: Mapping[Status, int] = Counter(run.known_end or run.status for run in runs)
    ends = [_end(run) for run in runs]
    first = runs[0]
    return LaneBar(
        since=_begin(first),
        until=None if None in ends else max(end for end in ends if end is not None),
        status=min(counts, key=WORST_FIRST.index),
        counts=dict(counts),
        run_kind=first.key.kind if len(runs) == 1 else None,
        run_id=first.key.id if len(runs) == 1 else None,
    )
