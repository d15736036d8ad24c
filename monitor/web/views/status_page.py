"""The data of chosen pipelines, in words for those who wait for it."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import date, datetime
from enum import StrEnum
from types import MappingProxyType
from typing import Annotated, NamedTuple, Self
from zoneinfo import ZoneInfo

from msgspec import Meta, Struct

from monitor.model.alerts import AlertingSnapshot
from monitor.model.runs import RUN_KINDS, Status
from monitor.web.http.problem_details import ProblemDetails
from monitor.web.http.request_parsing import unknown
from monitor.web.status_pages.settings import ShownPipeline, StatusPageSettings
from monitor.web.views.overview.grid_history import strips_of
from monitor.web.views.overview.overview import Overview
from monitor.web.views.overview.pipeline_state import PipelineCondition, PipelineRow, RunCell
from monitor.web.views.overview.recent_overview import RecentOverview
from monitor.web.views.view import ViewSources, view


class DataState(StrEnum):
    """What a reader of data may rely on."""

    READY = "ready"
    DOUBTFUL = "doubtful"  # ready, and an alert says that something is odd about it
    LATE = "late"  # a deadline or a start was missed
    FAILED = "failed"
    CANCELED = "canceled"  # the last run was
    UNKNOWN = "unknown"  # it cannot be seen now, or no run has ended


_STATES = MappingProxyType(
    {
        PipelineCondition.FAILING: DataState.FAILED,
        PipelineCondition.MISSED: DataState.LATE,
        PipelineCondition.WARNING: DataState.DOUBTFUL,
        PipelineCondition.UNKNOWN: DataState.UNKNOWN,
        PipelineCondition.CANCELED: DataState.CANCELED,
        PipelineCondition.HEALTHY: DataState.READY,
        PipelineCondition.NEW: DataState.UNKNOWN,
    }
)


_WELL = (DataState.READY, DataState.DOUBTFUL)


class DataStatus(Struct, frozen=True, kw_only=True):
    """One pipeline under the name that readers know. Instants are the workspace's.

    ``well_since`` is the first of the successes that none but successes followed, as far as runs
    are stored. ``next_by`` is its next deadline, or, where it has none, its next expected start:
    ``is_deadline`` says which.
    """

    name: str
    state: DataState
    is_running: bool
    ready_at: datetime | None  # its last success
    is_ready_today: bool  # that was today, in the page's time zone
    well_since: datetime | None
    next_by: datetime | None
    is_deadline: bool


class StatusPageQuery(Struct, frozen=True, kw_only=True):
    """Which page."""

    name: Annotated[str, Meta(description="Its name in the configuration.")]


class StatusPage(Struct, frozen=True, kw_only=True):
    """What a status page shows, as of ``as_of`` (our clock)."""

    name: str
    title: str
    time_zone: str
    as_of: datetime
    data: tuple[DataStatus, ...]


@view("status_page", "/api/v1/status/{name}", "A status page: chosen pipelines for who waits.")
async def status_page_view(sources: ViewSources, query: StatusPageQuery) -> StatusPage:
    return await status_page(sources, query.name)


async def status_page(sources: ViewSources, page_name: str) -> StatusPage:
    """Return what the page of that name shows.

    Raises:
        ProblemDetails: there is none (404), or none of its workspaces is seen.
    """
    pages = {page.name: page for page in sources.settings.status_pages}
    page = pages.get(page_name)
    shown = {} if page is None else _shown_to(sources, page)
    if page is None or not shown:
        # As if there were none where who asks may see no workspace of it.
        others = [name for name, other in pages.items() if _shown_to(sources, other)]
        raise ProblemDetails(404, f"status page: {unknown(page_name, others)}")
    overview = await sources.shared(RecentOverview).get()
    rows = {name: overview.rows.get(pipeline) for name, pipeline in shown.items()}
    strips = await strips_of(
        [(row.workspace, row.run_kind, row.pipeline_id) for row in rows.values() if row],
        overview,
        stored=sources.runs,
    )
    alerting, zone = sources.alerting.snapshot(), ZoneInfo(page.time_zone)
    return StatusPage(
        name=page.name,
        title=page.title or page.name,
        time_zone=page.time_zone,
        as_of=overview.at,
        data=tuple(
            _unknown(name)
            if row is None
            else _status(
                name,
                row,
                strips.get((row.workspace, row.run_kind, row.pipeline_id), ()),
                alerting=alerting,
                day=_Day.of_workspace(sources, overview, row.workspace, zone),
            )
            for name, row in rows.items()
        ),
    )


class _Day(NamedTuple):
    """Today in a time zone, by the clock of a workspace."""

    day: date
    zone: ZoneInfo

    @classmethod
    def of_workspace(
        cls, sources: ViewSources, overview: Overview, workspace: str, zone: ZoneInfo
    ) -> Self:
        status = sources.live.workspace(workspace)
        now = overview.at if status is None else status.time_there(overview.at)
        return cls(now.astimezone(zone).date(), zone)

    def holds(self, at: datetime) -> bool:
        return at.astimezone(self.zone).date() == self.day


def _shown_to(sources: ViewSources, page: StatusPageSettings) -> dict[str, ShownPipeline]:
    return {name: of for name, of in page.pipelines.items() if sources.sees(of.workspace)}


def _unknown(name: str) -> DataStatus:
    """Return what is said of a pipeline that its workspace does not list."""
    return DataStatus(
        name=name,
        state=DataState.UNKNOWN,
        is_running=False,
        ready_at=None,
        is_ready_today=False,
        well_since=None,
        next_by=None,
        is_deadline=False,
    )


def _status(
    name: str, row: PipelineRow, cells: Sequence[RunCell], *, alerting: AlertingSnapshot, day: _Day
) -> DataStatus:
    kinds = RUN_KINDS[row.kind]
    deadlines = [
        known
        for kind in kinds
        if (known := alerting.deadlines.get((row.workspace, kind, row.pipeline_id))) is not None
    ]
    state = _STATES[row.state]
    is_missed = any(known.missed_at is not None for known in deadlines)
    if is_missed and state in (DataState.READY, DataState.DOUBTFUL, DataState.CANCELED):
        state = DataState.LATE
    due = min((known.next_at for known in deadlines if known.next_at is not None), default=None)
    ready_at = row.health.last_success_at
    return DataStatus(
        name=name,
        state=state,
        is_running=row.active > 0,
        ready_at=ready_at,
        is_ready_today=ready_at is not None and day.holds(ready_at),
        well_since=_well_since(cells) if state in _WELL else None,
        next_by=due or row.expected_start_at,
        is_deadline=due is not None,
    )


def _well_since(cells: Sequence[RunCell]) -> datetime | None:
    """Return the end of the first success that nothing but successes came after."""
    since = None
    for cell in reversed(cells):
        if cell.status is Status.SUCCEEDED:
            since = cell.finished_at or since
        elif cell.status.is_terminal:
            break
    return since
