"""Serves every view as JSON, with the parameters that its page has."""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial

from aiohttp import web

from monitor.web.http.json_answers import answer_struct
from monitor.web.http.queries import parse_query
from monitor.web.views.view import View


def add_json_routes(router: web.UrlDispatcher, views: Iterable[View]) -> None:
    """Add one route for each view; it answers HEAD too."""
    for view in views:
        router.add_get(view.api, partial(_serve, view))


async def _serve(view: View, request: web.Request) -> web.Response:
    query = parse_query(view.query, request.match_info, request.query.items())
    return await answer_struct(request, await view.read(query))
