"""Every page and every view, in one list: pages, menu, JSON API and its document come from it."""

from __future__ import annotations

from collections.abc import Iterable

from monitor.web.views.alert_pages import alert_pages
from monitor.web.views.alerts.silences import silence_preview_view
from monitor.web.views.daemon.cluster import cluster_view
from monitor.web.views.daemon.daemon import monitor_view
from monitor.web.views.daemon.outputs import outputs_view
from monitor.web.views.daemon.reachability import reachability_view
from monitor.web.views.daemon.store import store_view
from monitor.web.views.daemon.traffic import budgets_view, callbacks_view, polls_view
from monitor.web.views.daemon.workspaces import workspace_details_view, workspaces_view
from monitor.web.views.events import events_view, log_view
from monitor.web.views.overview.attention import attention_view
from monitor.web.views.overview.pipeline_list import pipelines_view
from monitor.web.views.overview.recent_overview import RecentOverview
from monitor.web.views.overview.running import running_view
from monitor.web.views.overview.status import status_view
from monitor.web.views.overview.trouble import trouble_view
from monitor.web.views.run_pages import run_pages
from monitor.web.views.schedules.calendar import calendar_view
from monitor.web.views.schedules.schedule_list import schedules_view
from monitor.web.views.sources import ViewSources
from monitor.web.views.view import View, WebPage


class AllViews:
    """The pages in the order of the menu, and what is served as JSON only."""

    def __init__(self, sources: ViewSources) -> None:
        self.overview = recent = RecentOverview(sources)
        self.status: View = status_view(sources, recent)
        self.pages: tuple[WebPage, ...] = (
            WebPage(
                path="/",
                title="Overview",
                boxes=(
                    trouble_view(sources, recent),
                    attention_view(sources, recent),
                    running_view(sources, recent),
                    pipelines_view(sources, recent),
                ),
                in_menu="Overview",
                styles=("overview.css",),
            ),
            *run_pages(sources),
            *alert_pages(sources),
            *_pages_of_the_daemon(sources),
        )
        self.others: tuple[View, ...] = (
            silence_preview_view(sources),
            schedules_view(sources),
            events_view(sources),
            log_view(sources),
        )

    def all(self) -> Iterable[View]:
        """Return each view once, by name."""
        views: dict[str, View] = {}
        for view in (self.status, *(box for page in self.pages for box in page.boxes)):
            views.setdefault(view.name, view)
        views.update((view.name, view) for view in self.others)
        return views.values()


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
            styles=styles,
        ),
        WebPage(
            path="/cluster",
            title="Cluster",
            boxes=(cluster_view(sources),),
            in_menu="Cluster" if sources.is_shared else None,
            styles=styles,
        ),
        WebPage(
            path="/workspaces",
            title="Workspaces",
            boxes=(workspaces_view(sources),),
            styles=styles,
        ),
        WebPage(
            path="/workspaces/{workspace}",
            title="Workspace {workspace}",
            boxes=(workspace_details_view(sources), reachability_view(sources), *traffic),
            styles=styles,
        ),
    )
