"""Every page and every view, in one list: pages, menu, JSON API and its document come from it."""

from __future__ import annotations

from collections.abc import Iterable

from monitor.web.views.events import events_view
from monitor.web.views.log_follower import LogFollower
from monitor.web.views.sources import ViewSources
from monitor.web.views.status import status_view
from monitor.web.views.view import View, WebPage


class AllViews:
    """The pages in the order of the menu, and what is served as JSON only."""

    def __init__(self, sources: ViewSources, follower: LogFollower) -> None:
        self.status: View = status_view(sources)
        self.pages: tuple[WebPage, ...] = (
            WebPage(path="/new", title="Overview", boxes=(), in_menu="Overview"),
        )
        self.followed = follower
        self.others: tuple[View, ...] = (events_view(sources),)

    def all(self) -> Iterable[View]:
        """Return each view once, by name."""
        views: dict[str, View] = {}
        for view in (self.status, *(box for page in self.pages for box in page.boxes)):
            views.setdefault(view.name, view)
        views.update((view.name, view) for view in self.others)
        return views.values()
