"""What the log says while the store answers no request."""

from __future__ import annotations

from pathlib import Path

import aiohttp
import structlog
from aiohttp import web

from monitor.model.errors import BusUnavailableError
from monitor.web.http.problem_details import StoreOutage, errors_as_problems
from monitor.web.settings import ServerSettings
from tests.clocks import ManualClock
from tests.web.form_client import Browser
from tests.web.people import PEOPLE, log_in, token_of
from tests.web.served_cluster import served_cluster


async def test_an_outage_is_two_lines_of_log() -> None:
    """Its beginning and its end, whatever is asked meanwhile and needs no store."""
    is_away = True

    async def stored(_: web.Request) -> web.Response:
        if is_away:
            raise BusUnavailableError("the database does not answer")
        return web.Response()

    async def live(_: web.Request) -> web.Response:
        return web.Response()

    app = web.Application(middlewares=[errors_as_problems(StoreOutage(ManualClock()))])
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


async def test_another_outage_begins_with_a_line_of_its_own() -> None:
    """Also where no client has asked again for what was refused in the one before."""
    clock = ManualClock()
    outage, away = StoreOutage(clock), BusUnavailableError("the database does not answer")
    with structlog.testing.capture_logs() as lines:
        outage.refuse("/alerts/{fingerprint}", away)
        outage.serve("/status")
        await clock.advance(61)
        outage.refuse("/status", away)
        outage.serve("/status")
    assert [line["log_level"] for line in lines] == ["warning", "warning", "info"]


async def test_an_outage_is_one_for_pages_and_data(tmp_path: Path) -> None:
    """Each box of each page would have a line of its own; it says in its place what is wrong."""
    settings = ServerSettings(listen="127.0.0.1:0")
    async with served_cluster(tmp_path, settings, "acme") as cluster:
        await cluster.shards["acme"].bus.close()
        with structlog.testing.capture_logs() as lines:
            pages = [(await cluster.get(path)).text for path in ("/", "/runs", "/workspaces/acme")]
            assert (await cluster.get("/api/v1/runs")).status == 503
    assert any("the store does not answer" in page.lower() for page in pages)
    events = [line["event"] for line in lines]
    assert events.count("request cannot be served now") == 1
    assert {*events} <= {"request cannot be served now", "task waits for the store"}


async def test_a_session_that_cannot_be_read_is_an_outage(tmp_path: Path) -> None:
    """Who is logged in gets 503 with the reason, and what is open to strangers; no trace is logged.

    A token works as before, and the log has one line.
    """
    async with served_cluster(tmp_path, PEOPLE, "acme") as cluster:
        browser = Browser(cluster)
        await log_in(browser, token_of("read-user"))
        await cluster.shards["acme"].bus.close()
        with structlog.testing.capture_logs() as lines:
            paths = ("/runs", "/api/v1/runs", "/account", "/none", "/metrics")
            refused = [await browser.get(path, Accept="text/html") for path in paths]
            open_ones = [await browser.get(path) for path in ("/healthz", "/readyz", "/login")]
            authorization = f"Bearer {token_of('read-user')}"
            metrics = await browser.get("/metrics", Authorization=authorization)
        await browser.close()
    assert [reply.status for reply in refused] == [503] * len(paths)
    assert all("the store is closed" in reply.text.lower() for reply in refused)
    assert [reply.status for reply in (*open_ones, metrics)] == [200] * 4
    events = [line["event"] for line in lines]
    assert events.count("request cannot be served now") == 1
    assert "request failed" not in events
