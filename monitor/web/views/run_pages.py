"""The pages about runs: their list, one run, and one pipeline."""

from __future__ import annotations

from monitor.web.views.pipelines.pipeline_alerts import pipeline_alerts_view
from monitor.web.views.pipelines.pipeline_details import PipelineDetailsReader, pipeline_view_of
from monitor.web.views.pipelines.pipeline_run_list import pipeline_runs_view
from monitor.web.views.pipelines.pipeline_schedule import pipeline_schedule_view
from monitor.web.views.runs.failures import failures_view
from monitor.web.views.runs.run_details import (
    RunDetailsReader,
    run_details_view,
    run_explanation_view,
    run_page_title,
)
from monitor.web.views.runs.run_list import runs_view
from monitor.web.views.sources import ViewSources
from monitor.web.views.view import WebPage

_STYLES = ("runs.css",)


def run_pages(sources: ViewSources) -> tuple[WebPage, ...]:
    run, pipeline = RunDetailsReader(sources), PipelineDetailsReader(sources)
    return (
        WebPage(
            path="/runs",
            title="Runs",
            boxes=(runs_view(sources), failures_view(sources)),
            in_menu="Runs",
            styles=_STYLES,
        ),
        WebPage(
            path="/runs/{workspace}/{kind}/{id}",
            title=run_page_title,
            boxes=(run_details_view(run), run_explanation_view(run)),
            styles=_STYLES,
        ),
        WebPage(
            path="/pipelines/{workspace}/{kind}/{id}",
            title=pipeline.title,
            boxes=(
                pipeline_view_of(pipeline),
                pipeline_schedule_view(sources),
                pipeline_alerts_view(sources),
                pipeline_runs_view(sources),
            ),
            styles=("vendor/uPlot.min.css", *_STYLES),
            scripts=("vendor/uPlot.iife.min.js", "charts.js"),
        ),
    )
