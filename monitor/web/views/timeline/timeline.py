"""The time line: what each pipeline did between two instants, a lane a pipeline."""

from __future__ import annotations

from bisect import bisect_right
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime, timedelta
from enum import StrEnum
from functools import partial
from typing import Annotated

from msgspec import Meta, Struct

from monitor.model.alerts import PipelineOfKind
from monitor.model.live_state import ScheduleKnown
from monitor.model.runs import RUN_KINDS, Pipeline, PipelineKind, RunKey, RunKind, RunState
from monitor.model.slices import for_each, in_slices
from monitor.web.http.instants import zone_of
from monitor.web.http.request_parsing import cursor_after, read_cursor, sort_text
from monitor.web.views.overview.grid_history import MissedStarts
from monitor.web.views.overview.pipeline_list import PipelinesQuery, selected
from monitor.web.views.overview.pipeline_state import PipelineKey, PipelineRow, PipelineSort
from monitor.web.views.overview.recent_overview import RecentOverview, computed
from monitor.web.views.timeline.blindness import blind_times, gaps_of
from monitor.web.views.timeline.expected_marks import LaneStarts, compared_starts, marks_by_rules
from monitor.web.views.timeline.lanes import Lane, LaneSources, lane_of
from monitor.web.views.timeline.time_range import TimelinePeriod, TimeRange, range_of
from monitor.web.views.view import ViewSources, view

_RUNS_ON_A_PAGE = 40_000
_LEAST_RUNS, _MOST_RUNS = 30, 2_500  # of one pipeline and kind
_LONG_RUNS = 3  # of one pipeline and kind, that began long before the time that is shown
_MOST_MARGIN = timedelta(days=1)  # a start may come late, and a run may last
_MOST_PLANS, _AT_ONCE = 200, 8
_LANES_IN_A_SLICE = 10
_LAST = "\U0010ffff"  # sorts what has no group after all others
LaneKey = tuple[str, str, str, str, str]  # group, name, workspace, kind, id


class LaneGroup(StrEnum):
    """What lanes stand together by. By plan: with the flows that its newest run has run."""

    WORKSPACE = "workspace"
    PLAN = "plan"
    FOLDER = "folder"
    OWNER = "owner"


class TimelineQuery(Struct, frozen=True, kw_only=True):
    """Which time, which pipelines and how they are grouped; by default the last 24 hours."""

    period: (
        Annotated[TimelinePeriod, Meta(description="The last night, today, or the last so long.")]
        | None
    ) = None
    since: Annotated[
        str | None,
        Meta(
            description="Begin: an ISO 8601 instant, a wall time of zone, or how long ago, as 24h."
        ),
    ] = None
    until: Annotated[str | None, Meta(description="End, in the same forms; else now.")] = None
    zone: str = "UTC"
    group: Annotated[LaneGroup, Meta(description="What lanes stand together by.")] = (
        LaneGroup.WORKSPACE
    )
    workspace: str | None = None
    pipeline: Annotated[str | None, Meta(description="An id, or a part of a name.")] = None
    kind: PipelineKind | None = None
    folder: str | None = None
    owner: str | None = None
    limit: Annotated[int, Meta(ge=1, le=1_000)] = 100
    cursor: str | None = None


class LanesAnswer(Struct, frozen=True, kw_only=True):
    """Lanes by group and name. ``total`` counts all that fit the filters."""

    since: datetime
    until: datetime
    ticks: tuple[datetime, ...]  # at equal distances, from ``since`` on
    data: tuple[Lane, ...]
    next: str | None
    total: int
    workspaces: tuple[str, ...]


@view("timeline", "/api/v1/timeline", "Runs by the clock: a lane a pipeline, with what was due.")
async def timeline_view(sources: ViewSources, query: TimelineQuery) -> LanesAnswer:
    shown = range_of(
        period=query.period,
        since=query.since,
        until=query.until,
        now=sources.clock.now(),
        zone=zone_of(query.zone),
    )
    sources.refuse_unknown(query.workspace)
    order = f"lanes by {query.group}"
    after = read_cursor(order, query.cursor, tuple[str, str, str, str, str])
    overview = await sources.shared(RecentOverview).get()
    fitting = await selected(
        overview,
        PipelinesQuery(
            workspace=query.workspace,
            kind=query.kind,
            owner=query.owner,
            folder=query.folder,
            q=query.pipeline,
            sort=PipelineSort.NAME,
        ),
    )
    plans = await _plans(sources, fitting) if query.group is LaneGroup.PLAN else {}
    key = partial(_lane_key, query.group, plans)
    rows = await computed(len(fitting), partial(sorted, fitting, key=key))
    start = 0 if after is None else bisect_right(rows, after, key=key)
    page = rows[start : start + query.limit]
    return LanesAnswer(
        since=shown.since,
        until=shown.until,
        ticks=shown.ticks,
        data=await _lanes(sources, page, shown, partial(_group_of, query.group, plans)),
        next=cursor_after(order, key(page[-1])) if start + query.limit < len(rows) else None,
        total=len(rows),
        workspaces=tuple(sources.workspace_names),
    )


def _group_of(group: LaneGroup, plans: Mapping[PipelineKey, str], row: PipelineRow) -> str | None:
    match group:
        case LaneGroup.FOLDER:
            return row.folder
        case LaneGroup.OWNER:
            return row.owner
        case LaneGroup.PLAN:
            return row.pipeline if row.kind is PipelineKind.PLAN else plans.get(row.key)
    return row.workspace


def _lane_key(group: LaneGroup, plans: Mapping[PipelineKey, str], row: PipelineRow) -> LaneKey:
    """Return what lanes are sorted by: a plan before its flows, what has no group last."""
    name = _group_of(group, plans, row)
    is_head = group is LaneGroup.PLAN and row.kind is PipelineKind.PLAN
    own = "" if is_head else sort_text(row.pipeline)
    return _LAST if name is None else sort_text(name), own, *row.key


async def _plans(sources: ViewSources, rows: Sequence[PipelineRow]) -> dict[PipelineKey, str]:
    """Return the name of the plan whose newest run has run a flow, by the flow."""
    plans = {
        (row.workspace, RunKind.PLAN_RUN, row.pipeline_id): row.pipeline
        for row in rows
        if row.kind is PipelineKind.PLAN
    }
    newest = await sources.runs.pipeline_runs(list(plans)[:_MOST_PLANS], limit=1)
    found = [(plans[of], runs[0].key) for of, runs in newest.items() if runs]

    async def flows(named: tuple[str, RunKey]) -> dict[PipelineKey, str]:
        name, key = named
        return {
            (key.workspace, child.pipeline.kind, child.pipeline.id): name
            for child in await sources.runs.children(key)
            if child.pipeline is not None
        }

    of_plans = await for_each(found, flows, at_once=_AT_ONCE, name="flows of a plan")
    return {flow: name for flows_of in reversed(of_plans) for flow, name in flows_of.items()}


async def _lanes(
    sources: ViewSources,
    rows: Sequence[PipelineRow],
    shown: TimeRange,
    group_of: Callable[[PipelineRow], str | None],
) -> tuple[Lane, ...]:
    margin = min(_MOST_MARGIN, shown.length / 4)
    wide = TimeRange(since=shown.since - margin, until=shown.until + margin)
    keys = [key for row in rows for key in _runs_of(row)]
    limit = min(_MOST_RUNS, max(_LEAST_RUNS, _RUNS_ON_A_PAGE // max(1, len(keys))))
    runs = await sources.runs.pipeline_runs(keys, limit=limit, since=wide.since, before=wide.until)
    long = await _long_runs(sources, keys, before=wide.since)
    schedules = await _schedules(sources, rows)
    missed = await sources.shared(MissedStarts).get(rows)
    blind = {name: blind_times(sources, name) for name in {row.workspace for row in rows}}
    deadlines, now = sources.alerting.snapshot().deadlines, sources.clock.now()
    lanes: list[LaneSources] = []
    starts: list[LaneStarts | None] = []
    async for row in in_slices(rows, size=_LANES_IN_A_SLICE):
        own: dict[PipelineOfKind, Sequence[RunState]] = {
            key: runs.get(key, ()) for key in _runs_of(row)
        }
        status = sources.live.workspace(row.workspace)
        there = now if status is None else status.time_there(now)
        cut = [some[-1].created_at or wide.since for some in own.values() if len(some) == limit]
        lanes.append(
            LaneSources(
                row=row,
                group=group_of(row),
                runs=[run for key in own for run in (*own[key], *long.get(key, ()))],
                marks=marks_by_rules(row, missed[row.key], map(deadlines.get, own), now=there),
                gaps=gaps_of(sources, row, blind[row.workspace], there),
                drawn_since=max(cut, default=None),
                now=there,
            )
        )
        starts.append(LaneStarts.of(sources, row, schedules.get(row.key, ()), own, limit=limit))
    items = sum(len(lane.runs) for lane in lanes) + _LANES_IN_A_SLICE * len(lanes)
    return await computed(items, _made, lanes, starts, shown, wide)


def _made(
    lanes: Sequence[LaneSources],
    starts: Sequence[LaneStarts | None],
    shown: TimeRange,
    wide: TimeRange,
) -> tuple[Lane, ...]:
    compared = compared_starts(starts, wide)
    return tuple(
        [lane_of(lane, shown, starts=own) for lane, own in zip(lanes, compared, strict=True)]
    )


def _runs_of(row: PipelineRow) -> list[PipelineOfKind]:
    return [(row.workspace, kind, row.pipeline_id) for kind in RUN_KINDS[row.kind]]


async def _long_runs(
    sources: ViewSources, keys: Sequence[PipelineOfKind], *, before: datetime
) -> dict[PipelineOfKind, list[RunState]]:
    """Return the newest runs that began before, and those of them that still last."""
    found = await sources.runs.pipeline_runs(keys, limit=_LONG_RUNS, before=before)
    wanted = set(keys)
    async for active in in_slices(sources.live.active_runs()):  # thousands
        run = active.run
        if run.pipeline is None or run.created_at is None or run.created_at >= before:
            continue
        key = (run.key.workspace, run.key.kind, run.pipeline.id)
        if key in wanted and all(run.key != other.key for other in found.get(key, ())):
            found.setdefault(key, []).append(run)
    return found


async def _schedules(
    sources: ViewSources, rows: Sequence[PipelineRow]
) -> Mapping[PipelineKey, list[ScheduleKnown]]:
    wanted = {row.key for row in rows}
    found: defaultdict[PipelineKey, list[ScheduleKnown]] = defaultdict(list)
    for status in sources.live.workspaces():
        async for schedule in in_slices(status.schedules):  # thousands
            for pipeline in schedule.starts:
                if (key := _key_of(status.workspace, pipeline)) in wanted:
                    found[key].append(schedule)
    return found


def _key_of(workspace: str, pipeline: Pipeline) -> PipelineKey:
    return workspace, pipeline.kind, pipeline.id
