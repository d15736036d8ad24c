"""Page, forms and JSON API over one set of sources: what their readers are shown, and may ask."""

from __future__ import annotations

from collections.abc import Callable, Coroutine

from monitor.web.access.routes import Routes
from monitor.web.api.event_stream import EventStreams
from monitor.web.api.json_api import json_api
from monitor.web.forms.alert_forms import AcknowledgeForm, ExpireForm, SilenceForm
from monitor.web.forms.form_page import FormPages
from monitor.web.http.form_bodies import FormTokens
from monitor.web.page.live import LivePages
from monitor.web.page.shell import PageShell
from monitor.web.requests import Requests
from monitor.web.views.all_views import AllViews
from monitor.web.views.log_follower import LogFollower
from monitor.web.views.view import ViewSources


class Site:
    """Everything that is made of the sources."""

    def __init__(
        self, sources: ViewSources, *, requests: Requests, has_login: Callable[[], bool]
    ) -> None:
        clock = sources.clock
        self._streams = EventStreams(sources)
        self.views = views = AllViews(sources)
        self.live = LivePages(clock=clock, kept_seconds=views.overview.kept_seconds)
        self.follower = LogFollower(sources.log, self.live.on_events, clock=clock)
        self.request = self.follower.request
        self._json = json_api(views, sources=sources, streams=self._streams, requests=requests)
        self.page = PageShell(
            views.pages,
            status=views.status,
            live=self.live,
            clock=clock,
            url=sources.settings.page_url,
            has_login=has_login,
        )
        self.tokens = FormTokens(clock=clock)
        self._form_pages = FormPages(shell=self.page, tokens=self.tokens, live=self.live)
        self._forms = (SilenceForm(sources), ExpireForm(sources), AcknowledgeForm(sources))

    def add_routes(self, routes: Routes) -> None:
        self.page.add_routes(routes)
        self._form_pages.add_routes(routes, self._forms)
        self._json.add_routes(routes)

    def tasks(self) -> dict[str, Callable[[], Coroutine[None, None, None]]]:
        """Return what runs beside the listener, by name."""
        return {"log follower": self.follower.run, "live pages": self.live.run}

    def close(self) -> None:
        """End the live streams."""
        self._streams.close()
        self.live.close()
