"""The JSON API of pipelines."""

from __future__ import annotations

from aiohttp import web

from monitor.web.http.request_parsing import answer_rows, refuse_unknown
from monitor.web.views.overview import Overview


class Api:
    """The handlers of ``/api/v1``."""

    def __init__(self, *, overview: Overview) -> None:
        self._overview = overview

    def add_routes(self, router: web.UrlDispatcher) -> None:
        router.add_get("/api/v1/pipelines", self._pipelines)

    async def _pipelines(self, request: web.Request) -> web.Response:
        workspace = request.query.get("workspace")
        rows = await self._overview.pipelines(workspace)
        if not rows:
            refuse_unknown(workspace, self._overview.workspace_names())
        return await answer_rows(rows)
