"""The list of pipelines: the grid of the overview, a row a pipeline with its newest runs."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from datetime import datetime, timedelta
from enum import StrEnum
from functools import partial
from typing import Annotated

from msgspec import Meta, Struct

from monitor.model.alerts import PipelineOfKind
from monitor.model.live_state import Reachability
from monitor.model.public_shapes import filled
from monitor.model.runs import PipelineKind, RunKind, Status
from monitor.web.http.request_parsing import cursor_after, read_cursor
from monitor.web.views.overview.grid_history import (
    ITEMS_OF_A_STRIP,
    MissedStart,
    MissedStarts,
    strips_of,
    success_ratio,
    usual_seconds,
)
from monitor.web.views.overview.overview import Overview
from monitor.web.views.overview.pipeline_state import (
    PipelineCondition,
    PipelineNow,
    PipelineRow,
    PipelineSort,
    RunCell,
    order_key,
)
from monitor.web.views.overview.recent_overview import RecentOverview, computed
from monitor.web.views.view import ViewSources, view

_MOST_SELECTED = 32  # answers to filters
_CELLS = 45
_SHORTEST_GAP = timedelta(minutes=1)  # a shorter one hides little
_WHY_UNKNOWN = {
    Reachability.UNREACHABLE: "the workspace did not answer",
    Reachability.UNKNOWN: "it was not watched",
}


class StateFilter(StrEnum):
    """The states of `PipelineCondition`, and those that run now."""

    FAILING = "failing"
    MISSED = "missed"
    WARNING = "warning"
    UNKNOWN = "unknown"
    RUNNING = "running"
    CANCELED = "canceled"
    HEALTHY = "healthy"
    NEW = "new"


class PipelinesQuery(Struct, frozen=True, kw_only=True):
    """Filters, order and page. ``q`` is a part of the name, ``open`` shows a flow's job groups."""

    workspace: str | None = None
    state: StateFilter | None = None
    kind: PipelineKind | None = None
    owner: str | None = None
    folder: str | None = None
    q: str | None = None
    sort: PipelineSort = PipelineSort.STATE
    open: str | None = None  # WORKSPACE/KIND/ID
    cells: Annotated[int, Meta(ge=0, le=60)] = _CELLS
    limit: Annotated[int, Meta(ge=1, le=200)] = 50
    cursor: str | None = None

    @property
    def filters(self) -> tuple[str | None, ...]:
        """What a row must fit; None fits any."""
        return self.workspace, self.state, self.kind, self.owner, self.folder, self.q

    @property
    def is_filtered(self) -> bool:
        """True where not all pipelines are asked for."""
        return any(value is not None for value in self.filters)


class PipelinePart(Struct, frozen=True, kw_only=True):
    """The job groups of one recipe of a flow."""

    recipe_id: str | None
    last_status: Status | None
    last_finished_at: datetime | None
    consecutive_failures: int
    runs: tuple[RunCell, ...]


class SightGap(Struct, frozen=True, kw_only=True):
    """A time in which the workspace's runs could not be observed (workspace time)."""

    since: datetime
    until: datetime | None  # None: it lasts
    why: str


class PipelineSummary(PipelineNow, frozen=True, kw_only=True):
    """One pipeline: its state, its last end, what is usual, and its newest runs, oldest first.

    ``last_run_id`` is the run that ended last: a flow run, or a job group that ran by itself or
    whose flow run has not been read. ``state`` is failing while a part is, whatever ended since.
    ``run_kind`` says what its runs are; job groups of flow runs from before following stand among
    ``runs`` too. ``unseen`` says why its present state cannot be seen.
    """

    last_status: Status | None
    last_run_id: str | None
    last_run_kind: RunKind | None
    last_started_at: datetime | None
    last_finished_at: datetime | None
    last_success_at: datetime | None
    last_duration_seconds: float | None
    consecutive_failures: int
    usual_seconds: float | None  # the median of the successes among ``runs``
    limit_seconds: float | None  # learned: a run that takes longer is overdue
    limit_runs: int  # that it was learned from
    success_ratio: float | None  # of ``runs``
    missed: tuple[MissedStart, ...]  # those still open, and those since the oldest of ``runs``
    gaps: tuple[SightGap, ...]  # since the oldest of ``runs``
    has_parts: bool  # a flow of several recipes
    runs: tuple[RunCell, ...]
    parts: tuple[PipelinePart, ...]  # only of the pipeline that ``open`` names


class PipelineList(Struct, frozen=True, kw_only=True):
    """A page of pipelines. ``total`` is of all that fit the filters, ``states`` without them."""

    data: tuple[PipelineSummary, ...]
    next: str | None
    total: int
    states: dict[str, int]
    workspaces: tuple[str, ...]
    owners: tuple[str, ...]  # the hundred with the most pipelines, as are the folders
    folders: tuple[str, ...]


@view("pipelines", "/api/v1/pipelines", "Pipelines with their state and their newest runs.")
async def pipelines_view(sources: ViewSources, query: PipelinesQuery) -> PipelineList:
    overview = await sources.shared(RecentOverview).get()
    sources.refuse_unknown(query.workspace)
    order = f"pipelines by {query.sort}"
    after = read_cursor(order, query.cursor, tuple[float, str, str, str, str])
    rows = await selected(overview, query)
    key = partial(order_key, query.sort)
    start = 0 if after is None else bisect_right(rows, after, key=key)
    shown = rows[start : start + query.limit]
    return PipelineList(
        data=await _summaries(sources, shown, query, overview),
        next=cursor_after(order, key(shown[-1])) if start + query.limit < len(rows) else None,
        total=len(rows),
        states=_states(overview),
        workspaces=tuple(sources.workspace_names),
        owners=overview.owners,
        folders=overview.folders,
    )


async def _summaries(
    sources: ViewSources, rows: Sequence[PipelineRow], query: PipelinesQuery, overview: Overview
) -> tuple[PipelineSummary, ...]:
    opened = [row for row in rows if query.open == "/".join(row.key)]
    wanted = {*(map(_runs_of, rows) if query.cells else ()), *map(_job_groups_of, opened)}
    strips = await strips_of(wanted, overview, stored=sources.runs)
    missed = await sources.shared(MissedStarts).get(rows)
    gaps = {name: sight_gaps(sources, name) for name in {row.workspace for row in rows}}

    def summaries() -> tuple[PipelineSummary, ...]:
        return tuple(
            [
                _summary(
                    row,
                    strips[_runs_of(row)][-query.cells :] if query.cells else (),
                    missed=missed[row.key],
                    gaps=gaps[row.workspace],
                    parts=_parts(row, strips[_job_groups_of(row)]) if row in opened else (),
                )
                for row in rows
            ]
        )

    return await computed(ITEMS_OF_A_STRIP * len(rows), summaries)


def sight_gaps(sources: ViewSources, workspace: str) -> tuple[SightGap, ...]:
    """Return the times of the last week in which a workspace could not be observed."""
    live, now = sources.live, sources.clock.now()
    status = live.workspace(workspace)
    if status is None:
        return ()
    skew = status.time_there(now) - now
    stretches = live.reachability_history(
        workspace, now=now, stale_after_seconds=sources.settings.stale_after_seconds
    )
    return tuple(
        SightGap(
            since=stretch.since + skew,
            until=stretch.until + skew if stretch.until < now else None,
            why=stretch.reason or _WHY_UNKNOWN[stretch.reachability],
        )
        for stretch in stretches
        if stretch.reachability in _WHY_UNKNOWN and stretch.until - stretch.since >= _SHORTEST_GAP
    )


def _summary(
    row: PipelineRow,
    cells: tuple[RunCell, ...],
    *,
    missed: Sequence[MissedStart],
    gaps: Sequence[SightGap],
    parts: tuple[PipelinePart, ...],
) -> PipelineSummary:
    health, last = row.health, row.health.last
    return filled(
        PipelineSummary,
        row,
        last_status=last.status if last is not None else None,
        last_run_id=last.run_id if last is not None else None,
        last_run_kind=health.last_kind,
        last_started_at=health.last_started_at,
        last_finished_at=last.at if last is not None else None,
        last_success_at=health.last_success_at,
        last_duration_seconds=last.duration_seconds if last is not None else None,
        consecutive_failures=health.consecutive_failures,
        usual_seconds=usual_seconds(cells),
        limit_seconds=row.limit.seconds if row.limit is not None else None,
        limit_runs=row.limit.runs if row.limit is not None else 0,
        success_ratio=success_ratio(cells),
        missed=tuple(
            [start for start in missed if start.until is None or _is_after(start.at, cells)]
        ),
        gaps=tuple([gap for gap in gaps if _is_after(gap.since, cells)]),
        has_parts=len(row.parts) > (row.run_kind is RunKind.JOB_GROUP),
        runs=cells,
        parts=parts,
    )


def _parts(row: PipelineRow, cells: Sequence[RunCell]) -> tuple[PipelinePart, ...]:
    return tuple(
        filled(
            PipelinePart,
            part,
            runs=tuple(cell for cell in cells if cell.recipe_id == part.recipe_id),
        )
        for part in row.parts
    )


def _states(overview: Overview) -> dict[str, int]:
    states = {str(state): overview.count(state) for state in PipelineCondition}
    return {**states, StateFilter.RUNNING: overview.running}


async def selected(overview: Overview, query: PipelinesQuery) -> list[PipelineRow]:
    """Return the rows that fit, in order; selected once for all who ask the same of them."""
    asked, kept = (query.sort, *query.filters), overview.selected
    if asked not in kept:
        if len(kept) >= _MOST_SELECTED:
            kept.clear()
        kept[asked] = await computed(len(overview.rows), _matching, overview, query)
    return kept[asked]


def _matching(overview: Overview, query: PipelinesQuery) -> list[PipelineRow]:
    """Return the rows that fit the filters, in the order that is asked for."""
    rows = (
        filter(_Filter(query), overview.rows.values())
        if query.is_filtered
        else overview.rows.values()
    )
    return sorted(rows, key=partial(order_key, query.sort))


class _Filter:
    """What a query asks for; texts are parts of a value, in any case."""

    def __init__(self, query: PipelinesQuery) -> None:
        self._query = query
        self._texts = tuple(
            None if text is None else text.casefold()
            for text in (query.q, query.owner, query.folder)
        )

    def __call__(self, row: PipelineRow) -> bool:
        query, (text, owner, folder) = self._query, self._texts
        if query.workspace not in (None, row.workspace) or query.kind not in (None, row.kind):
            return False
        if query.state is StateFilter.RUNNING:
            if not row.active:
                return False
        elif query.state is not None and query.state.value != row.state.value:
            return False
        return (
            (text is None or text in row.pipeline.casefold() or text == row.pipeline_id)
            and (owner is None or owner in (row.owner or "").casefold())
            and (folder is None or folder in (row.folder or "").casefold())
        )


def _is_after(at: datetime, cells: Sequence[RunCell]) -> bool:
    """True where an instant lies after the beginning of the oldest run."""
    return bool(cells) and cells[0].at is not None and at > cells[0].at


def _runs_of(row: PipelineRow) -> PipelineOfKind:
    return row.workspace, row.run_kind, row.pipeline_id


def _job_groups_of(row: PipelineRow) -> PipelineOfKind:
    return row.workspace, RunKind.JOB_GROUP, row.pipeline_id
