"""The alerts and the runs of one pipeline, each as a list."""

from __future__ import annotations

from msgspec import Struct

from monitor.model.alerts import AlertState, AppliedRule, PastQuery
from monitor.model.runs import RUN_KINDS, Pipeline, RunKey, RunState
from monitor.model.slices import in_slices
from monitor.web.views.alerts.alert_models import AlertView, alert_views
from monitor.web.views.alerts.alerts import worst_first
from monitor.web.views.pipelines.pipeline_details import (
    PipelineQuery,
    PipelineRunsQuery,
    refuse_unknown_pipeline,
)
from monitor.web.views.runs.run_list import cursor_of, place_of
from monitor.web.views.runs.run_views import RunView, run_views, without_parts
from monitor.web.views.view import ViewSources, view

_PAST = 50

_LIST = "runs of a pipeline by creation"
_READS = 10  # of a page whose runs have many parts


class PipelineAlerts(Struct, frozen=True, kw_only=True):
    """The alerts of a pipeline: open ones, and those that ended in the range, newest end first.

    ``rules`` are all that are at work; those that apply stand first.
    """

    open: tuple[AlertView, ...]
    past: tuple[AlertView, ...]
    is_complete: bool  # false where there are more past ones than these
    rules: tuple[AppliedRule, ...]


@view(
    "pipeline_alerts",
    "/api/v1/pipelines/{workspace}/{kind}/{id}/alerts",
    "The alerts of a flow or plan.",
)
async def pipeline_alerts_view(sources: ViewSources, query: PipelineQuery) -> PipelineAlerts:
    alerting = sources.alerting
    snapshot = alerting.snapshot()
    is_open = [
        alert
        async for alert in in_slices(snapshot.alerts)  # thousands in an outage
        if alert.state is not AlertState.RESOLVED
        and alert.workspace == query.workspace
        and alert.pipeline is not None
        and (alert.pipeline.kind, alert.pipeline.id) == (query.kind, query.id)
    ]
    past = await alerting.past(
        PastQuery(
            workspace=query.workspace,
            pipeline=(query.kind, query.id),
            since=sources.clock.now() - query.range.length,
            limit=_PAST + 1,
        )
    )
    views = await alert_views(sources, [*await worst_first(is_open), *past[:_PAST]])
    rules = alerting.rules_for(query.workspace, Pipeline(kind=query.kind, id=query.id))
    return PipelineAlerts(
        open=views[: len(is_open)],
        past=views[len(is_open) :],
        is_complete=len(past) <= _PAST,
        rules=tuple(sorted(rules, key=lambda rule: (not rule.applies, rule.name))),
    )


class PipelineRuns(Struct, frozen=True, kw_only=True):
    """Runs of a pipeline, newest creation first, without those inside another one."""

    data: tuple[RunView, ...]
    next: str | None


@view(
    "pipeline_runs",
    "/api/v1/pipelines/{workspace}/{kind}/{id}/runs",
    "The runs of a flow or plan, newest first.",
)
async def pipeline_runs_view(sources: ViewSources, query: PipelineRunsQuery) -> PipelineRuns:
    before = await place_of(sources, _LIST, query.cursor)
    shown, last = await _page(sources, query, before)
    if not shown and query.cursor is None:
        pipeline = Pipeline(kind=query.kind, id=query.id)
        if not await _has_runs(sources, query):
            refuse_unknown_pipeline(sources, query.workspace, pipeline)
    return PipelineRuns(
        data=await run_views(sources, shown),
        next=None if last is None else cursor_of(_LIST, last),
    )


async def _page(
    sources: ViewSources, query: PipelineRunsQuery, before: RunKey | None
) -> tuple[list[RunState], RunState | None]:
    """Return the runs of a page, and the run after which another one goes on if it does."""
    shown: list[RunState] = []
    since = sources.clock.now() - query.range.length
    size = 2 * query.limit
    for _ in range(_READS):
        runs = await sources.runs.recent_runs(
            pipelines=[(query.workspace, kind, query.id) for kind in RUN_KINDS[query.kind]],
            since=since,
            before=before,
            limit=size,
        )
        for run in await without_parts(sources.runs, runs):
            if len(shown) == query.limit:
                return shown, shown[-1]
            shown.append(run)
        if len(runs) < size:
            return shown, None
        before = runs[-1].key
    return shown, runs[-1]


async def _has_runs(sources: ViewSources, query: PipelineRunsQuery) -> bool:
    identities = [(query.workspace, kind, query.id) for kind in RUN_KINDS[query.kind]]
    return bool(await sources.runs.recent_runs(pipelines=identities, limit=1))
