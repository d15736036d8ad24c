"""The starts of one pipeline: its schedules, and expected and real starts over some time."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta

from msgspec import Struct

from monitor.model.days_off import DaysOff
from monitor.model.live_state import SCHEDULES, ScheduleKnown
from monitor.model.runs import RUN_KINDS, Pipeline, RunState
from monitor.web.views.pipelines.pipeline_details import PipelineQuery
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
from monitor.web.views.schedules.schedule_list import ScheduleView, schedule_view
from monitor.web.views.schedules.starts_known import MOST_RUNS, starts_known
from monitor.web.views.view import ViewSources, view

_MARGIN = timedelta(days=1)  # a start may come late
_AN_HOUR = timedelta(hours=1)
_SHOWN = 30  # starts that were expected
_COMING = 5


class PipelineSchedule(Struct, frozen=True, kw_only=True):
    """The schedules that start a pipeline, and what became of its starts.

    ``starts`` are the newest of the range, newest first; ``counts`` are of the whole range, by
    state. Instants are the workspace's.
    """

    schedules: tuple[ScheduleView, ...]
    of: str | None  # whose schedules the token sees
    unwatched: str | None
    counts: dict[StartState, int]
    starts: tuple[ScheduledStart, ...]
    coming: tuple[datetime, ...]
    problems: tuple[str, ...]  # why expected starts are not known


@view(
    "pipeline_schedule",
    "/api/v1/pipelines/{workspace}/{kind}/{id}/schedule",
    "The schedules of a flow or plan, with expected and real starts.",
)
async def pipeline_schedule_view(sources: ViewSources, query: PipelineQuery) -> PipelineSchedule:
    status = sources.live.workspace(query.workspace)
    pipeline = (query.kind, query.id)
    schedules = [
        schedule
        for schedule in (() if status is None else status.schedules)
        if any((started.kind, started.id) == pipeline for started in schedule.starts)
    ]
    if status is None or not schedules:
        unwatched = sources.live.why_unwatched(query.workspace, SCHEDULES)
        of = None if status is None else status.schedules_of
        return PipelineSchedule(
            schedules=(),
            of=of,
            unwatched=unwatched,
            counts={},
            starts=(),
            coming=(),
            problems=(),
        )
    now = status.time_there(sources.clock.now())
    # To the hour, so that times which were computed serve the next reads too.
    hour = now.replace(minute=0, second=0, microsecond=0)
    span = Span(begin=hour - query.range.length - _MARGIN, end=hour + _MARGIN + _AN_HOUR)
    runs = await sources.runs.pipeline_runs(
        [(query.workspace, kind, query.id) for kind in RUN_KINDS[query.kind]],
        limit=MOST_RUNS,
        since=span.begin,
    )
    known = {
        schedule.id: starts_known(sources, status, schedule, runs, limit=MOST_RUNS)
        for schedule in schedules
    }
    found = [run for some in runs.values() for run in some]
    days_off = sources.alerting.starts_days_off(
        query.workspace, Pipeline(kind=query.kind, id=query.id)
    )
    # Thousands of times may have to be computed, which takes longer than a step may.
    starts, problems = await asyncio.to_thread(_starts, schedules, found, known, days_off, span)
    past = [start for start in starts if now - query.range.length <= start.at <= now]
    return PipelineSchedule(
        schedules=tuple(
            schedule_view(sources, status, schedule, now=now) for schedule in schedules
        ),
        of=status.schedules_of,
        unwatched=sources.live.why_unwatched(query.workspace, SCHEDULES),
        counts=dict(Counter(start.state for start in past)),
        starts=tuple(past[: -_SHOWN - 1 : -1]),
        coming=tuple(start.at for start in starts if start.at > now)[:_COMING],
        problems=problems,
    )


def _starts(
    schedules: Sequence[ScheduleKnown],
    runs: Sequence[RunState],
    known: Mapping[str, Known],
    days_off: Sequence[DaysOff],
    span: Span,
) -> tuple[list[ScheduledStart], tuple[str, ...]]:
    """Return the starts of all the schedules, ascending, each time once."""
    times = {
        schedule.id: expected_times(schedule, span, limit=MOST_TIMES) for schedule in schedules
    }
    unexpected = {
        schedule.id: unexpected_times(schedule, span, days_off)
        for schedule in schedules
        if times[schedule.id][0]
    }
    expected = {key: expected for key, (expected, _) in times.items()}
    starts = compared(expected, runs, known, unexpected)
    by_time = {(start.at, start.run_id): start for own in starts.values() for start in own}
    problems = tuple(problem for _, problem in times.values() if problem is not None)
    return sorted(by_time.values(), key=lambda start: start.at), problems
