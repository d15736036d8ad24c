"""Serves every view as JSON, with the parameters and the entity tag that its page has."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from functools import partial

import msgspec
from aiohttp import web

from monitor.web.http.queries import parse_query
from monitor.web.views.view import View


def add_json_routes(router: web.UrlDispatcher, views: Iterable[View]) -> None:
    """Add one route for each view."""
    for view in views:
        router.add_get(view.api, partial(_serve, view))


async def _serve(view: View, request: web.Request) -> web.Response:
    query = parse_query(view.query, request.match_info, request.query.items())
    body = msgspec.json.encode(await view.read(query))
    tag = f'"{hashlib.sha256(body).hexdigest()[:32]}"'
    headers = {"ETag": tag, "Cache-Control": "no-cache, private"}
    if tag in request.headers.get("If-None-Match", ""):
        return web.Response(status=304, headers=headers)
    answer = web.Response(body=body, content_type="application/json", headers=headers)
    answer.enable_compression()
    return answer
