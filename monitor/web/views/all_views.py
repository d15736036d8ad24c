"""Every page and every view, in one list: pages, menu, JSON API and its document come from it."""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial

from monitor.web.principals import Role
from monitor.web.views.alerts.alert_details import alert_explanation_view, alert_view
from monitor.web.views.alerts.alerts import alerts_view
from monitor.web.views.alerts.explain import explain_view
from monitor.web.views.alerts.runbooks import runbooks
from monitor.web.views.alerts.silences import silence_preview_view, silences_view
from monitor.web.views.daemon.audit import audit_view
from monitor.web.views.daemon.cluster import cluster_view
from monitor.web.views.daemon.daemon import monitor_view, store_view
from monitor.web.views.daemon.dead_letters import dead_letter_view, dead_letters_view
from monitor.web.views.daemon.outputs import outputs_view
from monitor.web.views.daemon.traffic import budgets_view, callbacks_view, polls_view
from monitor.web.views.daemon.workspaces import (
    reachability_view,
    workspace_details_view,
    workspaces_view,
)
from monitor.web.views.events import events_view, log_view
from monitor.web.views.outages.outage_details import outage_view
from monitor.web.views.outages.outage_list import outages_view
from monitor.web.views.overview.attention import attention_view, trouble_view
from monitor.web.views.overview.pipeline_list import pipelines_view
from monitor.web.views.overview.recent_overview import RecentOverview
from monitor.web.views.overview.running import running_view
from monitor.web.views.overview.status import status_view
from monitor.web.views.pipelines.pipeline_details import pipeline_title, pipeline_view
from monitor.web.views.pipelines.pipeline_lists import pipeline_alerts_view, pipeline_runs_view
from monitor.web.views.pipelines.pipeline_schedule import pipeline_schedule_view
from monitor.web.views.reports.report import report_view
from monitor.web.views.runs.run_details import (
    run_details_view,
    run_explanation_view,
    run_page_title,
)
from monitor.web.views.runs.run_list import failures_view, runs_view
from monitor.web.views.schedules.calendar import calendar_view
from monitor.web.views.schedules.schedule_list import schedules_view
from monitor.web.views.status_page import status_page_view
from monitor.web.views.timeline.timeline import timeline_view
from monitor.web.views.view import View, ViewSources, WebPage


class AllViews:
    """The pages in the order of the menu, and what is served as JSON only."""

    def __init__(self, sources: ViewSources) -> None:
        self.overview = sources.shared(RecentOverview)
        self.status: View = status_view(sources)
        self.pages: tuple[WebPage, ...] = (
            WebPage(
                path="/",
                title="Overview",
                boxes=(
                    trouble_view(sources),
                    attention_view(sources),
                    running_view(sources),
                    pipelines_view(sources),
                ),
                in_menu="Overview",
                styles=("overview.css",),
            ),
            *_pages_of_runs(sources),
            *_pages_of_alerts(sources),
            WebPage(
                path="/reports",
                title="Report",
                boxes=(report_view(sources),),
                in_menu="Reports",
                styles=("runs.css", "reports.css"),
                is_live=False,
            ),
            *_pages_of_the_daemon(sources),
            *_pages_of_workspaces(sources),
        )
        self.others: tuple[View, ...] = (
            silence_preview_view(sources),
            schedules_view(sources),
            events_view(sources),
            log_view(sources),
            dead_letters_view(sources),
            dead_letter_view(sources),
            status_page_view(sources),
        )

    def all(self) -> Iterable[View]:
        """Return each view once, by name."""
        views: dict[str, View] = {}
        for view in (self.status, *(box for page in self.pages for box in page.boxes)):
            views.setdefault(view.name, view)
        views.update((view.name, view) for view in self.others)
        return views.values()


def _pages_of_runs(sources: ViewSources) -> tuple[WebPage, ...]:
    styles = ("runs.css",)
    return (
        WebPage(
            path="/runs",
            title="Runs",
            boxes=(runs_view(sources), failures_view(sources)),
            in_menu="Runs",
            styles=styles,
        ),
        WebPage(
            path="/timeline",
            title="Time line",
            boxes=(timeline_view(sources),),
            in_menu="Time line",
            styles=("timeline.css",),
            scripts=("schedules.js",),
        ),
        WebPage(
            path="/runs/{workspace}/{kind}/{id}",
            title=run_page_title,
            boxes=(run_details_view(sources), run_explanation_view(sources)),
            styles=styles,
        ),
        WebPage(
            path="/pipelines/{workspace}/{kind}/{id}",
            title=partial(pipeline_title, sources),
            boxes=(
                pipeline_view(sources),
                pipeline_schedule_view(sources),
                pipeline_alerts_view(sources),
                pipeline_runs_view(sources),
            ),
            styles=("vendor/uPlot.min.css", *styles),
            scripts=("vendor/uPlot.iife.min.js", "charts.js"),
        ),
    )


def _pages_of_alerts(sources: ViewSources) -> tuple[WebPage, ...]:
    styles = ("alerts.css",)  # the forms that change something are `monitor.web.forms`
    return (
        WebPage(
            path="/alerts",
            title="Alerts",
            boxes=(alerts_view(sources),),
            in_menu="Alerts",
            styles=styles,
        ),
        WebPage(
            path="/alerts/{fingerprint}",
            title="Alert",
            boxes=(alert_view(sources), alert_explanation_view(sources)),
            styles=styles,
        ),
        WebPage(path="/silences", title="Silences", boxes=(silences_view(sources),), styles=styles),
        WebPage(
            path="/explain",
            title="Why was I notified, or not?",
            boxes=(explain_view(sources),),
            styles=styles,
        ),
        WebPage(path="/runbooks", title="Runbooks", boxes=(), styles=styles, document=runbooks),
    )


def _pages_of_the_daemon(sources: ViewSources) -> tuple[WebPage, ...]:
    styles = ("daemon.css",)
    traffic = (polls_view(sources), budgets_view(sources), callbacks_view(sources))
    return (
        WebPage(
            path="/schedules",
            title="Schedules",
            boxes=(calendar_view(sources),),
            in_menu="Schedules",
            styles=styles,
            scripts=("schedules.js",),
        ),
        WebPage(
            path="/monitor",
            title="Monitor",
            boxes=(
                monitor_view(sources),
                workspaces_view(sources),
                outputs_view(sources),
                *traffic,
                store_view(sources),
            ),
            in_menu="Monitor",
            is_whole=True,
            styles=styles,
        ),
        WebPage(
            path="/monitor/audit",
            title="Audit",
            boxes=(audit_view(sources),),
            styles=styles,
            role=Role.ADMIN,
            is_whole=True,
        ),
        WebPage(
            path="/cluster",
            title="Cluster",
            boxes=(cluster_view(sources),),
            in_menu="Cluster" if sources.is_shared else None,
            is_whole=True,
            styles=styles,
        ),
    )


def _pages_of_workspaces(sources: ViewSources) -> tuple[WebPage, ...]:
    styles = ("daemon.css",)
    traffic = (polls_view(sources), budgets_view(sources), callbacks_view(sources))
    return (
        WebPage(
            path="/workspaces",
            title="Workspaces",
            boxes=(workspaces_view(sources),),
            styles=styles,
        ),
        WebPage(path="/outages", title="Outages", boxes=(outages_view(sources),), styles=styles),
        WebPage(
            path="/outages/{workspace}/{at}",
            title="Outage of {workspace}",
            boxes=(outage_view(sources),),
            styles=("runs.css", *styles),
        ),
        WebPage(
            path="/workspaces/{workspace}",
            title="Workspace {workspace}",
            boxes=(workspace_details_view(sources), reachability_view(sources), *traffic),
            styles=styles,
        ),
    )
