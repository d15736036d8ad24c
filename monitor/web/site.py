"""Page, forms and JSON API over one set of sources: what their readers are shown, and may ask."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection

from monitor.web.access.routes import Routes
from monitor.web.api.event_stream import EventStreams
from monitor.web.api.json_api import json_api
from monitor.web.api.status_pages import StatusPages
from monitor.web.forms.alert_forms import AcknowledgeForm, ExpireForm, SilenceForm
from monitor.web.forms.form_page import FormPages
from monitor.web.http.form_bodies import FormTokens
from monitor.web.merged_requests import merged_requests
from monitor.web.page.live import LivePages
from monitor.web.page.shell import PageShell
from monitor.web.principals import Principal
from monitor.web.restricted.restricting import restricted_sources, seeing
from monitor.web.settings import ServerSettings
from monitor.web.views.all_views import AllViews
from monitor.web.views.view import ViewSources


class Site:
    """Everything that is made of the sources."""

    def __init__(
        self,
        sources: ViewSources,
        *,
        tokens: FormTokens,
        settings: Callable[[], ServerSettings],
        live: LivePages | None = None,
    ) -> None:
        """``live``: that of the whole, which says that something has changed, and not what."""
        clock = sources.clock
        self.views = views = AllViews(sources)
        self.live = live or LivePages(clock=clock, kept_seconds=views.overview.kept_seconds)
        self.page = PageShell(
            [page for page in views.pages if live is None or not page.is_whole],
            status=views.status,
            live=self.live,
            clock=clock,
            url=sources.settings.page_url,
            settings=settings,
        )
        self._streams = EventStreams(sources)
        requests = merged_requests(sources.shards)
        api = json_api(views, sources=sources, streams=self._streams, requests=requests)
        forms = FormPages(shell=self.page, tokens=tokens, live=self.live)
        self.routes = Routes()
        self.page.add_routes(self.routes)
        forms.add_routes(
            self.routes, (SilenceForm(sources), ExpireForm(sources), AcknowledgeForm(sources))
        )
        api.add_routes(self.routes)
        StatusPages(sources, self.page.templates).add_routes(self.routes)

    def close(self) -> None:
        """End the streams of events."""
        self._streams.close()


class Sites:
    """The site of each principal: the whole, or that of the workspaces which the user sees."""

    def __init__(
        self, sources: ViewSources, *, tokens: FormTokens, settings: Callable[[], ServerSettings]
    ) -> None:
        self._sources = sources
        self._tokens = tokens
        self._settings = settings
        self.whole = Site(sources, tokens=tokens, settings=settings)
        self._restricted: dict[tuple[str, ...], Site] = {}  # by globs; as many as entries have
        self._making = asyncio.Lock()

    async def of(self, principal: Principal | None) -> Site:
        """Return the site of a principal, made when it is first asked for."""
        async with self._making:
            found = self.known(principal)
            if found is None:
                assert principal is not None  # noqa: S101 - the whole is known
                # In a thread: its templates take longer than a step may.
                found = await asyncio.to_thread(self._made, principal.workspaces)
                self._restricted[principal.workspaces] = found
            return found

    def known(self, principal: Principal | None) -> Site | None:
        """Return the site of a principal; None where it was not asked for yet."""
        if principal is None or not principal.workspaces:
            return self.whole
        return self._restricted.get(principal.workspaces)

    def _made(self, globs: tuple[str, ...]) -> Site:
        return Site(
            restricted_sources(self._sources, seeing(globs)),
            tokens=self._tokens,
            settings=self._settings,
            live=self.whole.live,
        )

    def keep(self, globs: Collection[tuple[str, ...]]) -> None:
        """Forget the sites of globs that no entry has any more."""
        for gone in self._restricted.keys() - set(globs):
            self._restricted.pop(gone).close()

    def close(self) -> None:
        """End all live streams."""
        for site in (self.whole, *self._restricted.values()):
            site.close()
        self.whole.live.close()
