"""Expected and real starts of a week, a row for each schedule and pipeline."""

from __future__ import annotations

import asyncio
from bisect import bisect_left
from collections import Counter
from collections.abc import Mapping, Sequence
from datetime import UTC, date, datetime, time, timedelta
from zoneinfo import ZoneInfo

from msgspec import Struct

from monitor.alerting.rules.expected_starts import ExpectedStart
from monitor.model.alerts import PipelineOfKind
from monitor.model.days_off import DaysOff
from monitor.model.live_state import SCHEDULES, ScheduleKnown, WorkspaceStatus
from monitor.model.runs import RUN_KINDS, Pipeline, RunState
from monitor.model.slices import in_slices
from monitor.web.http.instants import zone_of
from monitor.web.http.problem_details import ProblemDetails
from monitor.web.http.request_parsing import cursor_after, one_line, read_cursor, sort_text
from monitor.web.views.schedules.comparison import (
    MOST_TIMES,
    Known,
    ScheduledStart,
    Span,
    StartState,
    compared,
    expected_times,
    unexpected_times,
)
from monitor.web.views.schedules.deadline_list import DeadlineOfPipeline, deadline_list
from monitor.web.views.schedules.schedule_list import (
    ScheduleView,
    is_meant,
    order_of,
    ordered_schedules,
    schedule_view,
)
from monitor.web.views.schedules.starts_known import MOST_RUNS, starts_known
from monitor.web.views.view import ViewSources, view

RowKey = tuple[str, str, str, str]  # workspace, schedule's name and id, pipeline

_LIST = "schedules by name"
_ROWS = 25
_LEAST_RUNS = 250
_RUNS_ON_A_PAGE = 40_000
_MOST_TIMES_ON_A_PAGE = 3 * MOST_TIMES
_MOST_STARTS_A_DAY = 4  # that stand one by one; more of them are counted by hour
_MARGIN = timedelta(days=1)  # around the week: a start may come late
_DAYS, _HOURS = 7, 24
_EARLIEST_YEAR, _LATEST_YEAR = 2000, 2100


class CalendarQuery(Struct, frozen=True, kw_only=True):
    """``pipeline`` is the id of a flow or plan, or a part of its name; ``zone`` is for the days."""

    week: str | None = None  # such as 2026-W47; the present one without it
    workspace: str | None = None
    pipeline: str | None = None
    zone: str = "UTC"
    cursor: str | None = None


class HourOfStarts(Struct, frozen=True, kw_only=True):
    """An hour of a day with many starts. ``counts`` are by state."""

    hour: int
    counts: dict[StartState, int]


class DayOfStarts(Struct, frozen=True, kw_only=True):
    """What was expected on a day. Many starts stand in ``hours`` instead of ``starts``."""

    day: date
    counts: dict[StartState, int]
    starts: tuple[ScheduledStart, ...] = ()
    hours: tuple[HourOfStarts, ...] = ()


class CalendarRow(Struct, frozen=True, kw_only=True):
    """One schedule and one pipeline that it starts; None where all that it started is gone."""

    workspace: str
    schedule: ScheduleView
    pipeline: Pipeline | None
    pipeline_name: str | None
    days: tuple[DayOfStarts, ...]
    problem: str | None  # why expected starts are not known


class VisibleSchedules(Struct, frozen=True, kw_only=True):
    """Whose schedules a token can see. Schedules of other people are not listed by the API."""

    workspace: str
    of: str | None
    read_at: datetime | None  # workspace time
    unwatched: str | None
    count: int


class Calendar(Struct, frozen=True, kw_only=True):
    """A week of starts. ``next`` is the cursor of the following rows."""

    week: str
    previous_week: str
    next_week: str
    this_week: str
    days: tuple[date, ...]
    today: date
    visible: tuple[VisibleSchedules, ...]
    counts: dict[StartState, int]  # of these rows
    data: tuple[CalendarRow, ...]
    deadlines: tuple[DeadlineOfPipeline, ...]  # of a hundred pipelines, missed ones first
    next: str | None


class _Row(Struct, frozen=True, kw_only=True):
    """What a row is made of."""

    status: WorkspaceStatus
    schedule: ScheduleKnown
    pipeline: Pipeline | None

    @property
    def key(self) -> RowKey:
        """What rows are sorted by; no two are alike."""
        pipeline = "" if self.pipeline is None else f"{self.pipeline.kind}/{self.pipeline.id}"
        return self.status.workspace, sort_text(self.schedule.name), self.schedule.id, pipeline


class _Week(Struct, frozen=True, kw_only=True):
    """A week in a time zone."""

    monday: date
    zone: ZoneInfo

    @property
    def span(self) -> Span:
        end = self.monday + timedelta(days=_DAYS)
        return Span(begin=self._midnight(self.monday), end=self._midnight(end))

    @property
    def days(self) -> tuple[date, ...]:
        return tuple(self.monday + timedelta(days=number) for number in range(_DAYS))

    def _midnight(self, day: date) -> datetime:
        return datetime.combine(day, time(), tzinfo=self.zone).astimezone(UTC)


@view(
    "schedule_starts",
    "/api/v1/schedules/starts",
    "Expected and real starts of a week, by schedule.",
)
async def calendar_view(sources: ViewSources, query: CalendarQuery) -> Calendar:
    zone = zone_of(query.zone)
    today = sources.clock.now().astimezone(zone).date()
    week = _Week(monday=_monday(query.week, today), zone=zone)
    after = read_cursor(_LIST, query.cursor, tuple[str, str, str, str])
    rows = await _rows(sources, query, after)
    shown = rows[:_ROWS]
    data = await _compare(sources, shown, week)
    return Calendar(
        week=_name(week.monday),
        previous_week=_name(week.monday - timedelta(days=_DAYS)),
        next_week=_name(week.monday + timedelta(days=_DAYS)),
        this_week=_name(today),
        days=week.days,
        today=today,
        visible=tuple(
            VisibleSchedules(
                workspace=status.workspace,
                of=status.schedules_of,
                read_at=status.schedules_read_at,
                unwatched=sources.live.why_unwatched(status.workspace, SCHEDULES),
                count=len(status.schedules),
            )
            for status in sources.workspaces(query.workspace)
        ),
        counts=dict(sum((Counter(day.counts) for row in data for day in row.days), Counter())),
        data=tuple(data),
        deadlines=await deadline_list(sources, workspace=query.workspace, text=query.pipeline),
        next=cursor_after(_LIST, shown[-1].key) if len(rows) > len(shown) else None,
    )


async def _rows(sources: ViewSources, query: CalendarQuery, after: RowKey | None) -> list[_Row]:
    """Return the rows of a page, and at least one more where there are more."""
    rows: list[_Row] = []
    statuses = sources.workspaces(query.workspace)
    for status in sorted(statuses, key=lambda status: status.workspace):
        ordered = await ordered_schedules(status)
        if after is not None and status.workspace < after[0]:
            continue
        if after is not None and status.workspace == after[0]:
            ordered = ordered[bisect_left(ordered, after[1:3], key=order_of) :]
        async for schedule in in_slices(ordered):  # thousands of a workspace
            found = _rows_of(sources, status, schedule, query.pipeline)
            rows += [row for row in found if after is None or row.key > after]
            if len(rows) > _ROWS:
                return rows
    return rows


def _rows_of(
    sources: ViewSources, status: WorkspaceStatus, schedule: ScheduleKnown, text: str | None
) -> list[_Row]:
    """Return a row for each pipeline that is meant, in their order."""
    meant = [
        pipeline
        for pipeline in schedule.starts or schedule.pipelines
        if text is None or is_meant(sources, text, status, pipeline)
    ]
    # Of what was deleted nothing is left but the schedule itself.
    is_shown = bool(meant) or text is None
    pipelines = meant if schedule.starts else [None] * is_shown
    rows = [_Row(status=status, schedule=schedule, pipeline=pipeline) for pipeline in pipelines]
    return sorted(rows, key=lambda row: row.key)


async def _compare(sources: ViewSources, rows: Sequence[_Row], week: _Week) -> list[CalendarRow]:
    span = Span(begin=week.span.begin - _MARGIN, end=week.span.end + _MARGIN)
    keys = {key for row in rows for key in _keys(row)}
    limit = min(MOST_RUNS, max(_LEAST_RUNS, _RUNS_ON_A_PAGE // max(1, len(keys))))
    runs = await sources.runs.pipeline_runs(
        keys,
        limit=limit,
        since=span.begin,
        before=span.end,
    )
    known = {
        row.key: starts_known(
            sources,
            row.status,
            row.schedule,
            {key: runs.get(key, ()) for key in _keys(row)},
            limit=limit,
        )
        for row in rows
    }
    days_off = {row.key: _days_off(sources, row) for row in rows}
    # Thousands of times may have to be computed, which takes longer than a step may.
    days = await asyncio.to_thread(_days_of, rows, runs, known, days_off, week=week, span=span)
    return [_view(sources, row, *days[row.key]) for row in rows]


def _view(
    sources: ViewSources, row: _Row, days: tuple[DayOfStarts, ...], problem: str | None
) -> CalendarRow:
    status, pipeline = row.status, row.pipeline
    now = status.time_there(sources.clock.now())
    return CalendarRow(
        workspace=status.workspace,
        schedule=schedule_view(sources, status, row.schedule, now=now),
        pipeline=pipeline,
        pipeline_name=sources.live.label(status.workspace, pipeline) if pipeline else None,
        days=days,
        problem=problem,
    )


def _days_off(sources: ViewSources, row: _Row) -> Sequence[DaysOff]:
    if row.pipeline is None:
        return ()
    return sources.alerting.starts_days_off(row.status.workspace, row.pipeline)


def _keys(row: _Row) -> list[PipelineOfKind]:
    """Return the kinds of runs that the row's pipeline has."""
    if row.pipeline is None:
        return []
    return [(row.status.workspace, kind, row.pipeline.id) for kind in RUN_KINDS[row.pipeline.kind]]


def _days_of(
    rows: Sequence[_Row],
    runs: Mapping[PipelineOfKind, Sequence[RunState]],
    known: Mapping[RowKey, Known],
    days_off: Mapping[RowKey, Sequence[DaysOff]],
    *,
    week: _Week,
    span: Span,
) -> dict[RowKey, tuple[tuple[DayOfStarts, ...], str | None]]:
    """Return the days of each row, and why nothing is expected, by the row's key."""
    times: dict[RowKey, tuple[Sequence[ExpectedStart], str | None]] = {}
    left = _MOST_TIMES_ON_A_PAGE
    for row in rows:
        # Of what is gone nothing is expected.
        known_times = expected_times(row.schedule, span, limit=left) if row.pipeline else ((), None)
        times[row.key], left = known_times, left - len(known_times[0])
    pipelines: dict[tuple[str, Pipeline | None], list[_Row]] = {}
    for row in rows:
        pipelines.setdefault((row.status.workspace, row.pipeline), []).append(row)
    days: dict[RowKey, tuple[tuple[DayOfStarts, ...], str | None]] = {}
    for same in pipelines.values():
        started = [run for key in _keys(same[0]) for run in runs.get(key, ())]
        expected = {row.key: times[row.key][0] for row in same}
        unexpected = {
            row.key: unexpected_times(row.schedule, span, days_off[row.key])
            for row in same
            if expected[row.key]
        }
        starts = compared(expected, started, known, unexpected)
        for row in same:
            days[row.key] = (_by_day(starts[row.key], week), times[row.key][1])
    return days


def _by_day(starts: Sequence[ScheduledStart], week: _Week) -> tuple[DayOfStarts, ...]:
    by_day: dict[date, list[ScheduledStart]] = {day: [] for day in week.days}
    for start in starts:
        day = start.at.astimezone(week.zone).date()
        if day in by_day:
            by_day[day].append(start)
    return tuple(_day(day, found, week.zone) for day, found in by_day.items())


def _day(day: date, starts: Sequence[ScheduledStart], zone: ZoneInfo) -> DayOfStarts:
    counts = dict(Counter(start.state for start in starts))
    if len(starts) <= _MOST_STARTS_A_DAY:
        return DayOfStarts(day=day, counts=counts, starts=tuple(starts))
    hours: list[Counter[StartState]] = [Counter() for _ in range(_HOURS)]
    for start in starts:
        hours[start.at.astimezone(zone).hour][start.state] += 1
    return DayOfStarts(
        day=day,
        counts=counts,
        hours=tuple(
            HourOfStarts(hour=hour, counts=dict(counted)) for hour, counted in enumerate(hours)
        ),
    )


def _monday(week: str | None, today: date) -> date:
    if week is None:
        return today - timedelta(days=today.weekday())
    year, _, number = week.partition("-W")
    try:
        monday = date.fromisocalendar(int(year), int(number), 1)
    except ValueError as exc:
        raise _bad_week(week) from exc
    if not _EARLIEST_YEAR <= monday.year < _LATEST_YEAR:
        raise _bad_week(week)
    return monday


def _bad_week(week: str) -> ProblemDetails:
    return ProblemDetails(400, f"week: {one_line(week[:40])!r} is no week; write 2026-W47")


def _name(day: date) -> str:
    year, week, _ = day.isocalendar()
    return f"{year}-W{week:02}"
