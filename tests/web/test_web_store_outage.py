"""What the log says while the store answers no request."""

from __future__ import annotations

import aiohttp
import structlog
from aiohttp import web

from monitor.model.errors import BusUnavailableError
from monitor.web.http.problems import errors_as_problems


async def test_an_outage_is_two_lines_of_log() -> None:
    """Its beginning and its end, whatever is asked meanwhile and needs no store."""
    is_away = True

    async def stored(_: web.Request) -> web.Response:
        if is_away:
            raise BusUnavailableError("the database does not answer")
        return web.Response()

    async def live(_: web.Request) -> web.Response:
        return web.Response()

    app = web.Application(middlewares=[errors_as_problems()])
    app.router.add_get("/stored", stored)
    app.router.add_get("/live", live)
    runner = web.AppRunner(app)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    host, port = runner.addresses[0]
    with structlog.testing.capture_logs() as lines:
        async with aiohttp.ClientSession(f"http://{host}:{port}") as session:
            for path in ("/stored", "/live", "/stored", "/live"):
                async with session.get(path) as answer:
                    assert answer.status == (503 if path == "/stored" else 200)
            is_away = False
            for path in ("/live", "/stored", "/stored"):
                async with session.get(path) as answer:
                    assert answer.status == 200
    await runner.cleanup()
    assert lines == [
        {
            "event": "request cannot be served now",
            "log_level": "warning",
            "route": "/stored",
            "reason": "the database does not answer",
        },
        {"event": "requests can be served again", "log_level": "info", "refused": 2},
    ]
