"""A gateway in front of a workspace: passes requests on, or answers a page of its own."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

import aiohttp
from aiohttp import web

_MARKUP = "<!DOCTYPE html><html><title>back soon</title></html>"

Page = Callable[[], web.Response]

PAGES: dict[str, Page] = {
    "html_200": lambda: web.Response(text=_MARKUP, content_type="text/html"),
    "html_404": lambda: web.Response(status=404, text=_MARKUP, content_type="text/html"),
    "html_503": lambda: web.Response(status=503, text=_MARKUP, content_type="text/html"),
    "cut_json": lambda: web.Response(
        text='{"data": [{"id": 1}, {"i', content_type="application/json"
    ),
    "empty_200": lambda: web.Response(text=""),
    "login": lambda: web.Response(status=302, headers={"Location": "/login"}),
}


class Gateway:
    """Answers ``page`` while there is one, else what the workspace behind it answers."""

    def __init__(self, behind: str) -> None:
        self.page: Page | None = None
        self.url = ""
        self.pages_left = 1_000_000  # then the workspace answers
        self.requests: list[str] = []  # paths that were answered with a page
        self.headers: dict[str, str] = {}  # added to what the workspace answers
        self.passed = 0
        self._behind = behind
        self._session: aiohttp.ClientSession | None = None

    async def answer(self, request: web.Request) -> web.Response:
        if self.page is not None and len(self.requests) < self.pages_left:
            self.requests.append(request.path)
            return self.page()
        assert self._session is not None
        headers = {
            key: request.headers[key] for key in ("Authorization",) if key in request.headers
        }
        async with self._session.request(
            request.method,
            self._behind + request.path_qs,
            headers=headers,
            data=await request.read(),
        ) as passed:
            names = {"Content-Type", "Date"} & passed.headers.keys()
            self.passed += 1
            return web.Response(
                status=passed.status,
                body=await passed.read(),
                headers={**{name: passed.headers[name] for name in names}, **self.headers},
            )

    async def start(self) -> web.AppRunner:
        app = web.Application()
        app.router.add_route("*", "/{path:.*}", self.answer)
        runner = web.AppRunner(app, access_log=None, shutdown_timeout=0.01)
        await runner.setup()
        await web.TCPSite(runner, "127.0.0.1", 0).start()
        host, port = runner.addresses[0]
        self.url = f"http://{host}:{port}"
        self._session = aiohttp.ClientSession()
        return runner

    async def stop(self, runner: web.AppRunner) -> None:
        assert self._session is not None
        await self._session.close()
        await runner.cleanup()


@asynccontextmanager
async def gateway_to(url: str) -> AsyncIterator[Gateway]:
    """Run a gateway to the workspace at that address."""
    gateway = Gateway(url)
    runner = await gateway.start()
    try:
        yield gateway
    finally:
        await gateway.stop(runner)
