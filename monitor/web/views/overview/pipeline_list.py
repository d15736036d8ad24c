"""The list of pipelines: the grid of the overview, a row a pipeline with its newest runs."""

from __future__ import annotations

from bisect import bisect_right
from collections import Counter, OrderedDict
from collections.abc import Sequence
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Annotated

from msgspec import Meta, Struct

from monitor.model.alerts import LearnedLimit, PipelineOfKind
from monitor.model.live_state import Reachability
from monitor.model.runs import Pipeline, PipelineKind, RunKind, Status
from monitor.model.slices import in_slices
from monitor.web.http.cursors import cursor_behind, read_cursor
from monitor.web.http.request_parsing import refuse_unknown
from monitor.web.views.overview.missed_starts import MissedStart, MissedStarts
from monitor.web.views.overview.pipeline_index import PipelineIndex
from monitor.web.views.overview.pipeline_rows import (
    RUN_KINDS,
    OrderKey,
    PipelineRow,
    PipelineSort,
    pipeline_of,
)
from monitor.web.views.overview.pipeline_states import PipelineCondition
from monitor.web.views.overview.run_strips import RunCell, RunStrips, success_ratio, usual_seconds
from monitor.web.views.sources import ViewSources
from monitor.web.views.view import View

_FILTERED_AT_ONCE = 400  # rows
_MOST_CHOICES = 100
_MOST_KEPT = 32  # answers to filters
_CELLS = 45
_SHORTEST_GAP = timedelta(minutes=1)  # a shorter one hides little
_WHY_NOT_SEEN = {
    Reachability.UNREACHABLE: "the workspace did not answer",
    Reachability.UNKNOWN: "nobody watched",
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
    """A time in which nobody could see the workspace's runs (workspace time)."""

    since: datetime
    until: datetime | None  # None: it lasts
    why: str


class PipelineSummary(Struct, frozen=True, kw_only=True):
    """One pipeline: its state, its last end, what is usual, and its newest runs, oldest first.

    ``last_run_id`` is the run that ended last: a flow run, or a job group that ran by itself or
    whose flow run has not been read. ``state`` is failing while a part is, whatever ended since.
    ``run_kind`` says what its runs are; job groups of flow runs from before following stand among
    ``runs`` too. ``unseen`` says why nobody can see how it is now.
    """

    workspace: str
    kind: PipelineKind
    pipeline_id: str
    pipeline: str
    folder: str | None
    owner: str | None
    state: PipelineCondition
    unseen: str | None
    run_kind: RunKind
    active: int
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
    expected_start_at: datetime | None  # of a schedule that the token can see
    missed_starts: int
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


class PipelinesReader:
    """Reads the index, and from the store the runs of the rows of the present page only."""

    def __init__(self, sources: ViewSources, index: PipelineIndex, strips: RunStrips) -> None:
        self._sources = sources
        self._index = index
        self._strips = strips
        self._missed_starts = MissedStarts(sources, index)
        self._fits: OrderedDict[tuple[str | None, ...], tuple[int, list[OrderKey]]] = OrderedDict()

    async def read(self, query: PipelinesQuery) -> PipelineList:
        await self._index.refresh()
        names = tuple(status.workspace for status in self._sources.live.workspaces())
        if query.workspace is not None:
            refuse_unknown(query.workspace, names)
        order = f"pipelines by {query.sort}"
        behind = read_cursor(order, query.cursor, tuple[float, str, str, str, str])
        keys, total = await self._page(query, behind)
        shown = keys[: query.limit]
        rows = [row for key in shown if (row := self._index.get(pipeline_of(key))) is not None]
        return PipelineList(
            data=await self._summaries(rows, query),
            next=cursor_behind(order, shown[-1]) if len(keys) > query.limit else None,
            total=total,
            states=self._states(),
            workspaces=names,
            owners=_most_common(self._index.owners),
            folders=_most_common(self._index.folders),
        )

    async def _page(
        self, query: PipelinesQuery, behind: OrderKey | None
    ) -> tuple[list[OrderKey], int]:
        """Return the keys of the page and of one row more, and how many rows fit the filters."""
        keys = await self._index.sorted_keys(query.sort)
        if query.is_filtered:
            keys = await self._fitting(query, keys)
        start = 0 if behind is None else bisect_right(keys, behind)
        return keys[start : start + query.limit + 1], len(keys)

    async def _fitting(self, query: PipelinesQuery, keys: Sequence[OrderKey]) -> list[OrderKey]:
        """Return the keys of the rows that fit the filters; kept until any row changes."""
        asked, version = (query.sort, *query.filters), self._index.version
        kept = self._fits.get(asked)
        if kept is not None and kept[0] == version:
            self._fits.move_to_end(asked)
            return kept[1]
        fits, fitting = _Filter(query), list[OrderKey]()
        # A copy: the list changes while others run.
        async for key in in_slices(list(keys), size=_FILTERED_AT_ONCE):
            row = self._index.get(pipeline_of(key))
            if row is not None and fits(row):
                fitting.append(key)
        self._fits[asked] = version, fitting
        while len(self._fits) > _MOST_KEPT:
            self._fits.popitem(last=False)
        return fitting

    def _states(self) -> dict[str, int]:
        states = {str(state): self._index.count(state) for state in PipelineCondition}
        return {**states, StateFilter.RUNNING: self._index.running}

    async def _summaries(
        self, rows: Sequence[PipelineRow], query: PipelinesQuery
    ) -> tuple[PipelineSummary, ...]:
        strips = await self._strips.get(map(_runs_of, rows)) if query.cells else {}
        limits, summaries = self._index.limits, []
        missed = await self._missed_starts.get(row.key for row in rows)
        gaps = {name: self._gaps(name) for name in {row.key[0] for row in rows}}
        async for row in in_slices(rows, size=20):
            of = _runs_of(row)
            cells = strips.get(of, ())[-query.cells :] if query.cells else ()
            is_open = query.open == "/".join(row.key)
            summaries.append(
                self._summary(
                    row,
                    cells,
                    limit=limits.get(of),
                    missed=missed[row.key],
                    gaps=gaps[row.key[0]],
                    parts=await self._parts(row) if is_open else (),
                )
            )
        return tuple(summaries)

    def _summary(
        self,
        row: PipelineRow,
        cells: tuple[RunCell, ...],
        *,
        limit: LearnedLimit | None,
        missed: Sequence[MissedStart],
        gaps: Sequence[SightGap],
        parts: tuple[PipelinePart, ...],
    ) -> PipelineSummary:
        workspace, kind, pipeline_id = row.key
        health, last = row.health, row.health.last
        return PipelineSummary(
            workspace=workspace,
            kind=kind,
            pipeline_id=pipeline_id,
            pipeline=row.label,
            folder=row.folder,
            owner=row.owner,
            state=row.state,
            unseen=self._index.why_unseen(workspace, Pipeline(kind=kind, id=pipeline_id)),
            run_kind=row.run_kind,
            active=row.active,
            last_status=last.status if last is not None else None,
            last_run_id=last.run_id if last is not None else None,
            last_run_kind=health.last_kind,
            last_started_at=health.last_started_at,
            last_finished_at=last.at if last is not None else None,
            last_success_at=health.last_success_at,
            last_duration_seconds=last.duration_seconds if last is not None else None,
            consecutive_failures=health.consecutive_failures,
            usual_seconds=usual_seconds(cells),
            limit_seconds=limit.seconds if limit is not None else None,
            limit_runs=limit.runs if limit is not None else 0,
            success_ratio=success_ratio(cells),
            expected_start_at=self._expected_start(row),
            missed_starts=self._missed(row),
            missed=tuple(
                start for start in missed if start.until is None or _is_behind(start.at, cells)
            ),
            gaps=tuple(gap for gap in gaps if _is_behind(gap.since, cells)),
            has_parts=len(row.parts) > (row.run_kind is RunKind.JOB_GROUP),
            runs=cells,
            parts=parts,
        )

    def _gaps(self, workspace: str) -> tuple[SightGap, ...]:
        """Return the times of the last week in which nobody could see a workspace."""
        live, now = self._sources.live, self._sources.clock.now()
        status = live.workspace(workspace)
        if status is None:
            return ()
        skew = status.time_there(now) - now
        stretches = live.reachability_history(
            workspace, now=now, stale_after_seconds=self._sources.settings.stale_after_seconds
        )
        return tuple(
            SightGap(
                since=stretch.since + skew,
                until=stretch.until + skew if stretch.until < now else None,
                why=stretch.reason or _WHY_NOT_SEEN[stretch.reachability],
            )
            for stretch in stretches
            if stretch.reachability in _WHY_NOT_SEEN
            and stretch.until - stretch.since >= _SHORTEST_GAP
        )

    async def _parts(self, row: PipelineRow) -> tuple[PipelinePart, ...]:
        workspace, _, pipeline_id = row.key
        of = workspace, RunKind.JOB_GROUP, pipeline_id
        cells = (await self._strips.get([of]))[of]
        return tuple(
            PipelinePart(
                recipe_id=part.recipe_id,
                last_status=part.last_status,
                last_finished_at=part.last_finished_at,
                consecutive_failures=part.consecutive_failures,
                runs=tuple(cell for cell in cells if cell.recipe_id == part.recipe_id),
            )
            for part in sorted(row.parts, key=lambda part: part.recipe_id or "")
        )

    def _expected_start(self, row: PipelineRow) -> datetime | None:
        workspace, kind, pipeline_id = row.key
        status = self._sources.live.workspace(workspace)
        if row.next_start is None or status is None:
            return None
        now = status.time_there(self._sources.clock.now())
        snapshot = self._sources.alerting.snapshot()
        starts = (
            snapshot.expected_start((workspace, run_kind, pipeline_id), now=now)
            for run_kind in RUN_KINDS[kind]
        )
        return min((start for start in starts if start is not None), default=None)

    def _missed(self, row: PipelineRow) -> int:
        workspace, kind, pipeline_id = row.key
        missed = self._sources.alerting.snapshot().missed
        return max(
            missed.get((workspace, run_kind, pipeline_id), 0) for run_kind in RUN_KINDS[kind]
        )


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
        workspace, kind, pipeline_id = row.key
        if query.workspace not in (None, workspace) or query.kind not in (None, kind):
            return False
        if query.state is StateFilter.RUNNING:
            if not row.active:
                return False
        elif query.state is not None and query.state.value != row.state.value:
            return False
        return (
            (text is None or text in row.label.casefold() or text == pipeline_id)
            and (owner is None or owner in (row.owner or "").casefold())
            and (folder is None or folder in (row.folder or "").casefold())
        )


def _is_behind(at: datetime, cells: Sequence[RunCell]) -> bool:
    """True where an instant lies behind the beginning of the oldest run."""
    return bool(cells) and cells[0].at is not None and at > cells[0].at


def _runs_of(row: PipelineRow) -> PipelineOfKind:
    workspace, _, pipeline_id = row.key
    return workspace, row.run_kind, pipeline_id


def _most_common(counter: Counter[str]) -> tuple[str, ...]:
    return tuple(sorted(value for value, _ in counter.most_common(_MOST_CHOICES)))


def pipelines_view(sources: ViewSources, index: PipelineIndex, strips: RunStrips) -> View:
    return View(
        name="pipelines",
        summary="Pipelines with their state and their newest runs.",
        api="/api/v1/pipelines",
        query=PipelinesQuery,
        answer=PipelineList,
        read=PipelinesReader(sources, index, strips).read,
    )
