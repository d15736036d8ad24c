"""A server that is no daemon, or that answers as a daemon does in states which are hard to make."""

from __future__ import annotations

import contextlib
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

from aiohttp import web

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


@contextlib.asynccontextmanager
async def other_server(handler: Handler, tls: ssl.SSLContext | None = None) -> AsyncIterator[str]:
    """Yield the URL of a server that answers everything so."""
    app = web.Application()
    app.router.add_route("*", "/{path:.*}", handler)
    runner = web.AppRunner(app)
    await runner.setup()
    try:
        await web.TCPSite(runner, "127.0.0.1", 0, ssl_context=tls).start()
        scheme = "http" if tls is None else "https"
        yield f"{scheme}://127.0.0.1:{runner.addresses[0][1]}"
    finally:
        await runner.cleanup()


def always(document: Any) -> Handler:
    """Return the handler that answers everything with one document."""

    async def handle(_: web.Request) -> web.Response:
        return web.json_response(document)

    return handle


def in_pages(rows: list[dict[str, Any]], *, most: int, total: int | None) -> Handler:
    """Return the handler of a list that comes in pages of at most so many rows."""

    async def handle(request: web.Request) -> web.Response:
        limit = int(request.query["limit"])
        if limit > most:
            return web.json_response({"detail": f"limit: above {most}"}, status=400)
        begin = int(request.query.get("cursor", 0))
        end = begin + limit
        answer = {"data": rows[begin:end], "next": str(end) if end < len(rows) else None}
        return web.json_response(answer if total is None else {**answer, "total": total})

    return handle
