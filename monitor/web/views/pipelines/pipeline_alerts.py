"""The alerts of one pipeline that are open now."""

from __future__ import annotations

from msgspec import Struct

from monitor.model.alerts import AlertState
from monitor.model.slices import in_slices
from monitor.web.views.overview import worst_first
from monitor.web.views.pipelines.pipeline_query import PipelineQuery
from monitor.web.views.sources import ViewSources
from monitor.web.views.view import View
from monitor.web.views.view_models import AlertView, alert_view


class PipelineAlerts(Struct, frozen=True, kw_only=True):
    """The alerts of a pipeline: open ones, and those that ended lately."""

    open: tuple[AlertView, ...]
    past: tuple[AlertView, ...]


class PipelineAlertsReader:
    """Reads the snapshot of alerting."""

    def __init__(self, sources: ViewSources) -> None:
        self._sources = sources

    async def read(self, query: PipelineQuery) -> PipelineAlerts:
        alerts = [
            alert
            async for alert in in_slices(self._sources.alerting.snapshot().alerts)
            if alert.workspace == query.workspace
            and alert.pipeline is not None
            and (alert.pipeline.kind, alert.pipeline.id) == (query.kind, query.id)
        ]
        is_open = [alert for alert in alerts if alert.state is not AlertState.RESOLVED]
        past = [alert for alert in alerts if alert.state is AlertState.RESOLVED]
        return PipelineAlerts(
            open=tuple(
                alert_view(alert, unjudged=self._sources.live.why_unjudged(alert))
                for alert in await worst_first(is_open)
            ),
            past=tuple(map(alert_view, past)),
        )


def pipeline_alerts_view(sources: ViewSources) -> View:
    return View(
        name="pipeline_alerts",
        summary="The alerts of a flow or plan.",
        api="/api/v1/pipelines/{workspace}/{kind}/{id}/alerts",
        query=PipelineQuery,
        answer=PipelineAlerts,
        read=PipelineAlertsReader(sources).read,
    )
