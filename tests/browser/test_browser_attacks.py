"""What web pages of others can do through a real browser."""

from __future__ import annotations

import contextlib
import json
from collections.abc import AsyncIterator, Mapping
from pathlib import Path

import pytest
import pytest_asyncio
from aiohttp import web
from playwright.async_api import Browser

from monitor.listening.settings import ConnectionLimits
from monitor.web.settings import ServerSettings
from tests.app.eventually import eventually
from tests.browser.screens import Screen, screen
from tests.web.serving import serving
from tests.web.site import Site

pytestmark = pytest.mark.asyncio(loop_scope="session")

_TRACK = json.dumps({"kind": "job_group", "id": "7"})
_DELETE = json.dumps({"action": "delete"})


@pytest_asyncio.fixture(loop_scope="session")
async def site(tmp_path: Path, settings: ServerSettings) -> AsyncIterator[Site]:
    async with serving(tmp_path, settings) as made:
        yield made


@pytest.fixture
def settings() -> ServerSettings:
    """Override in a test's parameters where it needs others."""
    return ServerSettings(listen="127.0.0.1:0")


@contextlib.asynccontextmanager
async def opened(browser: Browser, url: str) -> AsyncIterator[Screen]:
    """Yield a page that is there, whatever the answer was."""
    async with screen(browser) as shown:
        await shown.page.goto(url)
        yield shown


@contextlib.asynccontextmanager
async def foreign_page(
    text: str = "<!doctype html><title>prize</title><iframe name=hidden></iframe>",
    headers: Mapping[str, str] | None = None,
) -> AsyncIterator[int]:
    """Serve a page of another site, and yield its port."""

    async def page(_: web.Request) -> web.Response:
        return web.Response(text=text, content_type="text/html", headers=headers)

    app = web.Application()
    app.router.add_get("/", page)
    runner = web.AppRunner(app)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    try:
        yield runner.addresses[0][1]
    finally:
        await runner.cleanup()


def fetch(url: str, *, method: str = "POST", mode: str, content_type: str, body: str) -> str:
    options = {
        "method": method,
        "mode": mode,
        "credentials": "include",
        "headers": {"Content-Type": content_type},
        "body": body,
    }
    return f"fetch({json.dumps(url)}, {json.dumps(options)}).then((answer) => answer.status)"


async def test_a_browser_logs_what_a_policy_blocks(browser: Browser) -> None:
    """The console would not be silent about a blocked script, so its silence means something."""
    text = "<script>document.title = 'inline'</script>"
    policy = {"Content-Security-Policy": "default-src 'self'"}
    async with (
        foreign_page(text, policy) as port,
        opened(browser, f"http://evil.example:{port}") as shown,
    ):
        title = await shown.page.title()

    assert any("Content Security Policy" in line for line in shown.console)
    assert title != "inline"


async def test_a_rebound_name_reads_and_writes_nothing(site: Site, browser: Browser) -> None:
    """A page whose own name leads here is the browser's same origin, and gets 421 all the same."""
    rebound = site.url.replace("127.0.0.1", "rebound.example")
    async with opened(browser, rebound) as shown:
        text = await shown.page.evaluate("() => document.documentElement.innerText")
        read = await shown.told("fetch('/api/v1/runs').then((answer) => answer.status)")
        written = await shown.told(
            fetch("/api/v1/track", mode="cors", content_type="application/json", body=_TRACK),
        )

    assert "another name" in text
    assert (read, written) == ("421", "421")
    assert site.requested == []


async def test_another_site_writes_nothing(site: Site, browser: Browser) -> None:
    """Requests and forms that a browser sends for a foreign page without asking are refused."""
    async with (
        foreign_page() as port,
        opened(browser, f"http://evil.example:{port}") as shown,
    ):
        simple = await shown.told(
            fetch(
                f"{site.url}/api/v1/webhooks",
                mode="no-cors",
                content_type="text/plain",
                body=_DELETE,
            ),
        )
        await eventually(lambda: site.refused("foreign_origin") == 1, why="nothing was sent")
        asked = await shown.told(
            fetch(
                f"{site.url}/api/v1/webhooks",
                mode="cors",
                content_type="application/json",
                body=_DELETE,
            ),
        )
        await shown.page.evaluate(
            "() => { const form = document.createElement('form');"
            f"form.action = '{site.url}/api/v1/webhooks'; form.method = 'post';"
            "form.enctype = 'text/plain'; form.target = 'hidden';"
            "document.body.append(form); form.submit(); }"
        )
        await eventually(lambda: site.refused("foreign_origin") == 2, why="no form was sent")

    assert simple == "TypeError"  # it was sent, and its answer is kept from the page
    assert asked == "TypeError"  # the browser asked first, and was not allowed
    assert site.requested == []


FEW = ServerSettings(listen="127.0.0.1:0", connections=ConnectionLimits(total=60, per_source=30))


@pytest.mark.parametrize("settings", [FEW], ids=["few connections"])
async def test_a_page_that_opens_connections_takes_the_places_of_one_source(
    site: Site, browser: Browser
) -> None:
    """Under many loopback names a page passes the browser's own cap, and never ours."""
    port = site.url.rpartition(":")[2]
    requests = (
        "for (let name = 0; name < 90; name++)"
        f"fetch(`http://a${{name}}.localhost:{port}/static/page.js`, {{mode: 'no-cors'}})"
        ".catch(() => 0)"
    )
    async with (
        foreign_page() as evil_port,
        opened(browser, f"http://evil.example:{evil_port}") as shown,
    ):
        await shown.page.evaluate(f"() => {{ {requests} }}")
        await eventually(
            lambda: site.refused("too_many_connections") > 0, why="the cap is not reached"
        )
        async with (
            site.from_address("127.0.0.2") as session,
            session.get(f"{site.url}/api/v1/runs") as answer,
        ):
            status = answer.status

    assert status == 200


async def test_our_own_page_may_write(site: Site, browser: Browser) -> None:
    """A request that is refused to others is accepted from the server's own page."""
    async with opened(browser, f"{site.url}/") as shown:
        written = await shown.told(
            fetch("/api/v1/track", mode="cors", content_type="application/json", body=_TRACK),
        )
        assert shown.console == []

    assert written == "202"
    assert len(site.requested) == 1
