"""What web pages of others can do through a real browser."""

from __future__ import annotations

import contextlib
import json
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from aiohttp import web

from monitor.listening.settings import ConnectionLimits
from monitor.web.settings import ServerSettings
from tests.app.eventually import eventually
from tests.web.browser import Browser, browser
from tests.web.site import Site

# Names of the attacker's own, which its DNS leads to this machine.
_DNS = "--host-resolver-rules=MAP *.example 127.0.0.1"
_TRACK = json.dumps({"kind": "job_group", "id": "7"})
_DELETE = json.dumps({"action": "delete"})


@contextlib.asynccontextmanager
async def opened(url: str, folder: Path) -> AsyncIterator[Browser]:
    """Yield a browser in which the page is there, whatever the answer was."""
    async with browser(url, folder / "profile", _DNS) as page:

        async def is_there() -> bool:
            state = await page.evaluate("`${document.readyState} ${location.origin}`")
            return state == f"complete {url}"

        await eventually(is_there, why=lambda: f"no page: {page.console}")
        yield page


async def told(page: Browser, expression: str) -> str:
    """Return what a promise of the page comes to, or the name of its error."""
    await page.evaluate(
        f"(window.told = '', {expression}.then(String, (error) => error.name)"
        ".then((text) => { window.told = text; }), 0)"
    )
    answers: list[str] = []

    async def is_told() -> bool:
        answers.append(await page.evaluate("window.told"))
        return bool(answers[-1])

    await eventually(is_told, why=lambda: f"no answer: {page.console}")
    return answers[-1]


@contextlib.asynccontextmanager
async def a_page_of_somebody() -> AsyncIterator[int]:
    """Serve an empty page of another site, and yield its port."""

    async def page(_: web.Request) -> web.Response:
        text = "<!doctype html><title>prize</title><iframe name=hidden></iframe>"
        return web.Response(text=text, content_type="text/html")

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


async def test_a_rebound_name_reads_and_writes_nothing(site: Site, tmp_path: Path) -> None:
    """A page whose own name leads here is the browser's same origin, and gets 421 all the same."""
    rebound = site.url.replace("127.0.0.1", "rebound.example")
    async with opened(rebound, tmp_path) as page:
        shown = await page.evaluate("document.documentElement.innerText")
        read = await told(page, "fetch('/api/v1/runs').then((answer) => answer.status)")
        written = await told(
            page,
            fetch("/api/v1/track", mode="cors", content_type="application/json", body=_TRACK),
        )

    assert "another name" in shown
    assert (read, written) == ("421", "421")
    assert site.requested == []


async def test_another_site_writes_nothing(site: Site, tmp_path: Path) -> None:
    """Requests and forms that a browser sends for a foreign page without asking are refused."""
    async with (
        a_page_of_somebody() as port,
        opened(f"http://evil.example:{port}", tmp_path) as page,
    ):
        simple = await told(
            page,
            fetch(
                f"{site.url}/api/v1/webhooks",
                mode="no-cors",
                content_type="text/plain",
                body=_DELETE,
            ),
        )
        await eventually(lambda: site.refused("foreign_origin") == 1, why="nothing was sent")
        asked = await told(
            page,
            fetch(
                f"{site.url}/api/v1/webhooks",
                mode="cors",
                content_type="application/json",
                body=_DELETE,
            ),
        )
        await page.evaluate(
            "(() => { const form = document.createElement('form');"
            f"form.action = '{site.url}/api/v1/webhooks'; form.method = 'post';"
            "form.enctype = 'text/plain'; form.target = 'hidden';"
            "document.body.append(form); form.submit(); })()"
        )
        await eventually(lambda: site.refused("foreign_origin") == 2, why="no form was sent")

    assert simple == "0"  # an answer that the page may not read
    assert asked == "TypeError"  # the browser asked first, and nobody allowed it
    assert site.requested == []


FEW = ServerSettings(listen="127.0.0.1:0", connections=ConnectionLimits(total=60, per_source=30))


@pytest.mark.parametrize("settings", [FEW], ids=["few connections"])
async def test_a_page_that_opens_connections_takes_the_places_of_one_source(
    site: Site, tmp_path: Path
) -> None:
    """Under many loopback names a page passes the browser's own cap, and never ours."""
    port = site.url.rpartition(":")[2]
    requests = (
        "for (let name = 0; name < 90; name++)"
        f"fetch(`http://a${{name}}.localhost:{port}/static/page.js`, {{mode: 'no-cors'}})"
        ".catch(() => 0)"
    )
    async with (
        a_page_of_somebody() as evil_port,
        opened(f"http://evil.example:{evil_port}", tmp_path) as page,
    ):
        await page.evaluate(f"(() => {{ {requests} }})()")
        await eventually(
            lambda: site.refused("too_many_connections") > 0, why="the cap is not reached"
        )
        async with (
            site.from_address("127.0.0.2") as session,
            session.get(f"{site.url}/api/v1/runs") as answer,
        ):
            status = answer.status

    assert status == 200


async def test_our_own_page_may_write(site: Site, tmp_path: Path) -> None:
    """What is refused to others is accepted from the server's own page, in the same browser."""
    async with opened(site.url, tmp_path) as page:
        written = await told(
            page,
            fetch("/api/v1/track", mode="cors", content_type="application/json", body=_TRACK),
        )
        assert page.console == []

    assert written == "202"
    assert len(site.requested) == 1
