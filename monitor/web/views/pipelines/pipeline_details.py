"""One flow or plan: who owns it, how it has been doing, and how long it takes."""

from __future__ import annotations

from datetime import datetime

from msgspec import Struct

from monitor.model.alerts import AlertingSnapshot, LearnedLimit
from monitor.model.runs import Pipeline, PipelineKind, RunKind, RunState, Status
from monitor.model.slices import in_slices
from monitor.web.http.problems import ProblemDetails
from monitor.web.http.request_parsing import SHOWN, one_line, refuse_unknown
from monitor.web.views.pipelines.pipeline_history import (
    HistoryFigures,
    RecipeHistory,
    figures_of,
    recipes_of,
)
from monitor.web.views.pipelines.pipeline_query import HistoryRange, PipelineQuery
from monitor.web.views.runs.run_rows import KINDS_OF, RunRows, begin_of, without_parts
from monitor.web.views.sources import ViewSources
from monitor.web.views.view import View
from monitor.web.views.view_models import RunView

_MOST_RUNS = 1_000  # of a kind; more are not drawn
_LAST = (Status.SUCCEEDED, Status.FAILED)


class PipelineDetails(Struct, frozen=True, kw_only=True):
    """A flow or plan over a range of time.

    ``history`` are its runs, newest first, without those inside another one; ``is_complete`` is
    false where only the newest are there. ``last_success_at`` may lie before the range. All
    instants are the workspace's time.
    """

    workspace: str
    kind: PipelineKind
    id: str
    pipeline: str
    owner: str | None
    folder: str | None
    url: str | None  # of its newest job in the product
    range: HistoryRange
    since: datetime
    until: datetime
    is_complete: bool
    figures: HistoryFigures
    limit_seconds: float | None  # learned: a run that takes longer is overdue
    limit_runs: int
    last_success_at: datetime | None
    last_success: RunView | None
    last_failure: RunView | None
    expected_start_at: datetime | None
    missed_starts: int
    active: tuple[RunView, ...]
    history: tuple[RunView, ...]
    recipes: tuple[RecipeHistory, ...]


class PipelineDetailsReader:
    """Reads what is known of one pipeline, its runs by index."""

    def __init__(self, sources: ViewSources) -> None:
        self._sources = sources
        self._stored = sources.runs
        self._rows = RunRows(sources)

    async def read(self, query: PipelineQuery) -> PipelineDetails:
        until = self._time_there(query.workspace)
        since = until - query.range.length
        identities = [(query.workspace, kind, query.id) for kind in KINDS_OF[query.kind]]
        found = await self._stored.pipeline_runs(identities, limit=_MOST_RUNS, since=since)
        runs = [run for some in found.values() for run in some]
        last = {status: await self._last(query, status) for status in _LAST}
        pipeline = Pipeline(kind=query.kind, id=query.id)
        if not runs and not any(last.values()):
            refuse_unknown_pipeline(self._sources, query.workspace, pipeline)
        alone = await without_parts(self._stored, runs)
        shown = await self._rows.rows(sorted(alone, key=begin_of, reverse=True))
        parts = [run for run in runs if run.key.kind is RunKind.JOB_GROUP]
        folder, owner = self._sources.live.place(query.workspace, pipeline)
        success, failure = last[Status.SUCCEEDED], last[Status.FAILED]
        alerting = self._sources.alerting.snapshot()
        limit = await _limit(alerting, query)
        return PipelineDetails(
            workspace=query.workspace,
            kind=query.kind,
            id=query.id,
            pipeline=self._name(query),
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
            last_success_at=await self._last_success_at(query, success),
            last_success=None if success is None else self._rows.row(success),
            last_failure=None if failure is None else self._rows.row(failure),
            expected_start_at=self._expected(alerting, query),
            missed_starts=max(alerting.missed.get(identity, 0) for identity in identities),
            active=tuple(run for run in shown if not run.last_status.is_terminal),
            history=shown,
            recipes=recipes_of(await self._rows.rows(parts)),
        )

    def title(self, query: PipelineQuery) -> str:
        return f"{query.kind.capitalize()} {self._name(query)}"

    def _name(self, query: PipelineQuery) -> str:
        pipeline = Pipeline(kind=query.kind, id=query.id)
        return self._sources.live.label(query.workspace, pipeline)

    async def _last(self, query: PipelineQuery, status: Status) -> RunState | None:
        """Return the newest run that ended so; of runs inside others only where there are none."""
        newest: list[RunState] = []
        for kind in KINDS_OF[query.kind]:
            newest += await self._stored.recent_runs(
                pipelines=[(query.workspace, kind, query.id)], statuses=[status], limit=1
            )
        alone = await without_parts(self._stored, newest)
        return max(alone or newest, key=begin_of, default=None)

    async def _last_success_at(
        self, query: PipelineQuery, success: RunState | None
    ) -> datetime | None:
        if success is not None:
            return success.finished_at or success.end_seen_at
        # Retention may have removed that run; what is known of it is kept.
        known = [
            health.last_success_at
            async for health in in_slices(self._sources.live.pipeline_health())
            if (health.workspace, health.pipeline.kind, health.pipeline.id)
            == (query.workspace, query.kind, query.id)
        ]
        return max((at for at in known if at is not None), default=None)

    def _time_there(self, workspace: str) -> datetime:
        now, status = self._sources.clock.now(), self._sources.live.workspace(workspace)
        return now if status is None else status.time_there(now)

    def _expected(self, alerting: AlertingSnapshot, query: PipelineQuery) -> datetime | None:
        now = self._time_there(query.workspace)
        starts = [
            alerting.expected_start((query.workspace, kind, query.id), now=now)
            for kind in KINDS_OF[query.kind]
        ]
        return min((at for at in starts if at is not None), default=None)


async def _limit(alerting: AlertingSnapshot, query: PipelineQuery) -> LearnedLimit | None:
    """Return the limit that was learned for whole runs, else the one for their parts."""
    limits = {
        limit.kind: limit
        async for limit in in_slices(alerting.limits)
        if (limit.workspace, limit.pipeline.id) == (query.workspace, query.id)
    }
    return next((limits[kind] for kind in KINDS_OF[query.kind] if kind in limits), None)


def refuse_unknown_pipeline(sources: ViewSources, workspace: str, pipeline: Pipeline) -> None:
    """Raise a problem where nothing is known of a pipeline, of which there are no runs."""
    if sources.live.knows(workspace, pipeline):
        return
    names = [status.workspace for status in sources.live.workspaces()]
    refuse_unknown(workspace, names, status=404)
    shown = repr(one_line(pipeline.id[:SHOWN]))
    raise ProblemDetails(404, f"{pipeline.kind} {shown} of {workspace} is not known")


def pipeline_view_of(reader: PipelineDetailsReader) -> View:
    return View(
        name="pipeline",
        summary="A flow or plan: its figures and history.",
        api="/api/v1/pipelines/{workspace}/{kind}/{id}",
        query=PipelineQuery,
        answer=PipelineDetails,
        read=reader.read,
    )
