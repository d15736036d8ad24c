"""Prepares what is shown before somebody looks at it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from aiohttp import web
from aiohttp.typedefs import Handler, Middleware

# These answer by themselves; scrapers and load balancers call them all the time.
_NOT_SHOWN = ("/metrics", "/healthz", "/readyz", "/static/")


def prepared(*preparations: Callable[[], Awaitable[None]]) -> Middleware:
    """Return what makes the preparations before each request of the page and the JSON API."""

    @web.middleware
    async def middleware(request: web.Request, handler: Handler) -> web.StreamResponse:
        if not request.path.startswith(_NOT_SHOWN):
            for prepare in preparations:
                await prepare()
        return await handler(request)

    return middleware
