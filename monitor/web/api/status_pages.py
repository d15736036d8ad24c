"""Serves status pages as HTML without script, cached, and inside the pages that are named."""

from __future__ import annotations

import asyncio
from functools import partial

from aiohttp import web
from jinja2 import Environment

from monitor.web.access.routes import Routes
from monitor.web.http.response_writing import answer_bytes, answer_struct
from monitor.web.principals import Role
from monitor.web.status_pages.settings import StatusPageSettings
from monitor.web.views.status_page import DataState, StatusPage, status_page
from monitor.web.views.view import ViewSources, sees_everything

_KEPT_SECONDS = 15
_POLICY = (
    "default-src 'none'; style-src 'self'; img-src 'self'; base-uri 'none'; form-action 'none'"
)


class StatusPages:
    """Serves each configured page; the public ones to strangers too, as JSON beside it."""

    def __init__(self, sources: ViewSources, templates: Environment) -> None:
        self._sources = sources
        self._pages = sources.settings.status_pages
        self._templates = templates

    def add_routes(self, routes: Routes) -> None:
        for page in self._pages:
            role = None if page.public else Role.READ
            routes.add("GET", f"/status/{page.name}", partial(self._page, page), role)
            routes.add("GET", f"/status/{page.name}.json", partial(self._json, page), role)

    async def _page(self, page: StatusPageSettings, request: web.Request) -> web.Response:
        found = await status_page(self._sources, page.name)
        template = self._templates.get_template("status_page.html")
        body = await asyncio.to_thread(
            template.render, found=found, level=_level(found), kept_seconds=_KEPT_SECONDS
        )
        answer = await answer_bytes(request, body.encode(), content_type="text/html")
        answer.charset = "utf-8"
        ancestors = " ".join(page.embedded_in) or "'none'"
        answer.headers["Content-Security-Policy"] = f"{_POLICY}; frame-ancestors {ancestors}"
        return self._kept(page, answer)

    async def _json(self, page: StatusPageSettings, request: web.Request) -> web.Response:
        found = await status_page(self._sources, page.name)
        return self._kept(page, await answer_struct(request, found))

    def _kept(self, page: StatusPageSettings, answer: web.Response) -> web.Response:
        if page.public and self._sources.sees is sees_everything:
            # The same for all who see everything, strangers too: a cache in front may answer them.
            answer.headers["Cache-Control"] = f"public, max-age={_KEPT_SECONDS}"
        return answer


def _level(found: StatusPage) -> str:
    """Return the name of the icon: the worst of the states."""
    states = {row.state for row in found.data}
    if states & {DataState.FAILED, DataState.LATE}:
        return "critical"
    if states & {DataState.DOUBTFUL, DataState.CANCELED}:
        return "warning"
    return "unknown" if DataState.UNKNOWN in states else "ok"
