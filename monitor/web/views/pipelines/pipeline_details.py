"""One flow or plan: who owns it, how it has been doing, and how long it takes."""

from __future__ import annotations

from datetime import datetime, timedelta
from enum import StrEnum
from typing import Annotated

from msgspec import Meta, Struct

from monitor.model.alerts import AlertingSnapshot, LearnedLimit, PipelineDeadlines
from monitor.model.runs import RUN_KINDS, Pipeline, PipelineKind, RunKind, RunState, Status
from monitor.model.slices import in_slices
from monitor.web.http.problem_details import ProblemDetails
from monitor.web.http.request_parsing import SHOWN, one_line
from monitor.web.views.overview.pipeline_state import PipelineShape
from monitor.web.views.pipelines.pipeline_history import (
    HistoryFigures,
    RecipeHistory,
    figures_of,
    recipes_of,
)
from monitor.web.views.runs.run_views import RunView, begin_of, run_view, run_views, without_parts
from monitor.web.views.view import ViewSources, view

_HOURS = 24
_RANGE = "How far back."

_MOST_RUNS = 1_000  # of a kind; more are not drawn
_LAST = (Status.SUCCEEDED, Status.FAILED)


class HistoryRange(StrEnum):
    """How far back a history goes."""

    DAY = "24h"
    WEEK = "7d"
    MONTH = "30d"

    @property
    def length(self) -> timedelta:
        days = {HistoryRange.DAY: 1, HistoryRange.WEEK: 7, HistoryRange.MONTH: 30}
        return timedelta(hours=_HOURS * days[self])


class PipelineQuery(Struct, frozen=True, kw_only=True):
    """Which flow or plan, and how much of its past."""

    workspace: str
    kind: PipelineKind
    id: str
    range: Annotated[HistoryRange, Meta(description=_RANGE)] = HistoryRange.WEEK


class PipelineRunsQuery(PipelineQuery, frozen=True, kw_only=True):
    """Which of its runs."""

    cursor: str | None = None
    limit: Annotated[int, Meta(ge=1, le=200)] = 25


class PipelineDetails(PipelineShape, frozen=True, kw_only=True):
    """A flow or plan over a range of time.

    ``history`` are its runs, newest first, without those inside another one; ``is_complete`` is
    false where only the newest are there. ``last_success_at`` may lie before the range. All
    instants are the workspace's time.
    """

    id: str
    url: str | None  # of its newest job in the product
    range: HistoryRange
    since: datetime
    until: datetime
    is_complete: bool
    figures: HistoryFigures
    limit_seconds: float | None  # learned: a run that takes longer is overdue
    limit_runs: int
    deadlines: PipelineDeadlines | None  # of rules of the configuration
    last_success_at: datetime | None
    last_success: RunView | None
    last_failure: RunView | None
    active: tuple[RunView, ...]
    history: tuple[RunView, ...]
    recipes: tuple[RecipeHistory, ...]


@view(
    "pipeline",
    "/api/v1/pipelines/{workspace}/{kind}/{id}",
    "A flow or plan: its figures and history.",
)
async def pipeline_view(sources: ViewSources, query: PipelineQuery) -> PipelineDetails:
    until = _time_there(sources, query.workspace)
    since = until - query.range.length
    identities = [(query.workspace, kind, query.id) for kind in RUN_KINDS[query.kind]]
    found = await sources.runs.pipeline_runs(identities, limit=_MOST_RUNS, since=since)
    runs = [run for some in found.values() for run in some]
    last = {status: await _last(sources, query, status) for status in _LAST}
    pipeline = Pipeline(kind=query.kind, id=query.id)
    if not runs and not any(last.values()):
        refuse_unknown_pipeline(sources, query.workspace, pipeline)
    alone = await without_parts(sources.runs, runs)
    shown = await run_views(sources, sorted(alone, key=begin_of, reverse=True))
    parts = [run for run in runs if run.key.kind is RunKind.JOB_GROUP]
    folder, owner = sources.live.place(query.workspace, pipeline)
    success, failure = last[Status.SUCCEEDED], last[Status.FAILED]
    alerting = sources.alerting.snapshot()
    limit = await _limit(alerting, query)
    return PipelineDetails(
        workspace=query.workspace,
        kind=query.kind,
        id=query.id,
        pipeline=_name(sources, query),
        owner=owner or next((run.owner for run in shown if run.owner), None),
        folder=folder,
        url=next((run.url for run in runs if run.url), None),
        range=query.range,
        since=since,
        until=until,
        is_complete=all(len(some) < _MOST_RUNS for some in found.values()),
        figures=figures_of(shown),
        limit_seconds=None if limit is None else limit.seconds,
        limit_runs=0 if limit is None else limit.runs,
        deadlines=next(
            (alerting.deadlines[key] for key in identities if key in alerting.deadlines), None
        ),
        last_success_at=await _last_success_at(sources, query, success),
        last_success=None if success is None else run_view(sources, success),
        last_failure=None if failure is None else run_view(sources, failure),
        expected_start_at=_expected(sources, alerting, query),
        missed_starts=max(alerting.missed.get(identity, 0) for identity in identities),
        active=tuple(run for run in shown if not run.last_status.is_terminal),
        history=shown,
        recipes=recipes_of(await run_views(sources, parts)),
    )


def pipeline_title(sources: ViewSources, query: PipelineQuery) -> str:
    return f"{query.kind.capitalize()} {_name(sources, query)}"


def _name(sources: ViewSources, query: PipelineQuery) -> str:
    pipeline = Pipeline(kind=query.kind, id=query.id)
    return sources.live.label(query.workspace, pipeline)


async def _last(sources: ViewSources, query: PipelineQuery, status: Status) -> RunState | None:
    """Return the newest run that ended so; of runs inside others only where there are none."""
    newest: list[RunState] = []
    for kind in RUN_KINDS[query.kind]:
        newest += await sources.runs.recent_runs(
            pipelines=[(query.workspace, kind, query.id)], statuses=[status], limit=1
        )
    alone = await without_parts(sources.runs, newest)
    return max(alone or newest, key=begin_of, default=None)


async def _last_success_at(
    sources: ViewSources, query: PipelineQuery, success: RunState | None
) -> datetime | None:
    if success is not None:
        return success.finished_at or success.end_seen_at
    # Retention may have removed that run; what is known of it is kept.
    known = [
        health.last_success_at
        async for health in in_slices(sources.live.pipeline_health())  # ten thousand
        if (health.workspace, health.pipeline.kind, health.pipeline.id)
        == (query.workspace, query.kind, query.id)
    ]
    return max((at for at in known if at is not None), default=None)


def _time_there(sources: ViewSources, workspace: str) -> datetime:
    now, status = sources.clock.now(), sources.live.workspace(workspace)
    return now if status is None else status.time_there(now)


def _expected(
    sources: ViewSources, alerting: AlertingSnapshot, query: PipelineQuery
) -> datetime | None:
    now = _time_there(sources, query.workspace)
    starts = [
        alerting.expected_start((query.workspace, kind, query.id), now=now)
        for kind in RUN_KINDS[query.kind]
    ]
    return min((at for at in starts if at is not None), default=None)


async def _limit(alerting: AlertingSnapshot, query: PipelineQuery) -> LearnedLimit | None:
    """Return the limit that was learned for whole runs, else the one for their parts."""
    limits = {
        limit.kind: limit
        async for limit in in_slices(alerting.limits)  # one a pipeline
        if (limit.workspace, limit.pipeline.id) == (query.workspace, query.id)
    }
    return next((limits[kind] for kind in RUN_KINDS[query.kind] if kind in limits), None)


def refuse_unknown_pipeline(sources: ViewSources, workspace: str, pipeline: Pipeline) -> None:
    """Raise a problem for a pipeline without runs where nothing else is known of it."""
    if sources.live.knows(workspace, pipeline):
        return
    sources.refuse_unknown(workspace, status=404)
    shown = repr(one_line(pipeline.id[:SHOWN]))
    raise ProblemDetails(404, f"{pipeline.kind} {shown} of {workspace} is not known")
