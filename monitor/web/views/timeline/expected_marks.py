"""The expected starts and deadlines of lanes: by schedules, and by rules of the configuration."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime

from msgspec import Struct

from monitor.model.alerts import PipelineDeadlines, PipelineOfKind
from monitor.model.days_off import DaysOff
from monitor.model.live_state import ScheduleKnown
from monitor.model.runs import Pipeline, RunState
from monitor.web.views.overview.grid_history import MissedStart
from monitor.web.views.overview.pipeline_state import PipelineRow
from monitor.web.views.schedules.comparison import (
    MOST_TIMES,
    Known,
    ScheduledStart,
    Span,
    compared,
    expected_times,
    unexpected_times,
)
from monitor.web.views.schedules.starts_known import starts_known
from monitor.web.views.timeline.lanes import LaneMark, MarkKind
from monitor.web.views.timeline.time_range import TimeRange
from monitor.web.views.view import ViewSources

_MOST_TIMES_ON_A_PAGE = 3 * MOST_TIMES


class LaneStarts(Struct, frozen=True, kw_only=True):
    """What the starts of one pipeline are compared from; nothing in it changes."""

    schedules: Sequence[ScheduleKnown]
    runs: Sequence[RunState]
    known: Mapping[str, Known]
    days_off: Sequence[DaysOff]

    @classmethod
    def of(
        cls,
        sources: ViewSources,
        row: PipelineRow,
        schedules: Sequence[ScheduleKnown],
        runs: Mapping[PipelineOfKind, Sequence[RunState]],
        *,
        limit: int,
    ) -> LaneStarts | None:
        """Return them, None where no schedule starts the pipeline."""
        status = sources.live.workspace(row.workspace)
        if status is None or not schedules:
            return None
        return cls(
            schedules=schedules,
            runs=[run for some in runs.values() for run in some],
            known={
                schedule.id: starts_known(sources, status, schedule, runs, limit=limit)
                for schedule in schedules
            },
            days_off=sources.alerting.starts_days_off(
                row.workspace, Pipeline(kind=row.kind, id=row.pipeline_id)
            ),
        )


def compared_starts(
    lanes: Iterable[LaneStarts | None], shown: TimeRange
) -> Iterator[Sequence[ScheduledStart]]:
    """Yield the starts of each lane; none where too many would have to be computed."""
    span, left = Span(begin=shown.since, end=shown.until), _MOST_TIMES_ON_A_PAGE
    for lane in lanes:
        if lane is None:
            yield ()
            continue
        times = {}
        for schedule in lane.schedules:
            times[schedule.id], _ = expected_times(schedule, span, limit=left)
            left -= len(times[schedule.id])
        unexpected = {
            schedule.id: unexpected_times(schedule, span, lane.days_off)
            for schedule in lane.schedules
            if times[schedule.id]
        }
        starts = compared(times, lane.runs, lane.known, unexpected)
        yield [start for own in starts.values() for start in own]


def marks_by_rules(
    row: PipelineRow,
    missed: Iterable[MissedStart],
    deadlines: Iterable[PipelineDeadlines | None],
    *,
    now: datetime,
) -> list[LaneMark]:
    """Return starts that alerts have reported, the next one, and the next and missed deadline."""
    marks = [LaneMark(at=start.at, kind=MarkKind.MISSED) for start in missed]
    if row.expected_start_at is not None and row.expected_start_at > now:
        marks.append(LaneMark(at=row.expected_start_at, kind=MarkKind.COMING))
    for known in deadlines:
        if known is not None and known.next_at is not None:
            marks.append(LaneMark(at=known.next_at, kind=MarkKind.DEADLINE))
        if known is not None and known.missed_at is not None:
            marks.append(LaneMark(at=known.missed_at, kind=MarkKind.DEADLINE_MISSED))
    return marks
