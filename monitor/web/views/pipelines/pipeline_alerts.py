"""The alerts of one pipeline, open and past, and the rules that may fire for it."""

from __future__ import annotations

from msgspec import Struct

from monitor.model.alerts import AlertState, AppliedRule, PastQuery
from monitor.model.runs import Pipeline
from monitor.model.slices import in_slices
from monitor.web.views.alerts.alert_models import AlertView, alert_views
from monitor.web.views.alerts.alerts import worst_first
from monitor.web.views.pipelines.pipeline_query import PipelineQuery
from monitor.web.views.sources import ViewSources
from monitor.web.views.view import view

_PAST = 50


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
        async for alert in in_slices(snapshot.alerts)
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
