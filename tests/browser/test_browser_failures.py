"""A part of a page that fails, in a real browser: the rest of the page stands."""

from __future__ import annotations

import pytest
from aiohttp import web
from jinja2 import ChoiceLoader, DictLoader
from msgspec import Struct
from playwright.async_api import Browser

from monitor.model.clock import SystemClock
from monitor.web.access.routes import Routes
from monitor.web.page.live import LivePages
from monitor.web.page.shell import PageShell
from monitor.web.views.view import View, WebPage
from tests.browser.screens import screen

pytestmark = pytest.mark.asyncio(loop_scope="session")


class Nothing(Struct, frozen=True):
    """No parameters, and nothing to show."""


def view(name: str, *, fails: bool) -> View:
    async def read(_: Nothing) -> Nothing:
        if fails:
            raise LookupError("what people must not see")
        return Nothing()

    return View(
        name=name,
        summary=f"What the part {name} shows.",
        api=f"/api/v1/{name}",
        query=Nothing,
        answer=Nothing,
        read=read,
    )


async def test_a_part_that_fails_leaves_the_rest(browser: Browser) -> None:
    """Its place shows its name and its error; the other parts, menu and way back stand."""
    clock = SystemClock()
    page = WebPage(
        path="/",
        title="Three parts",
        boxes=(view("first", fails=False), view("second", fails=True), view("third", fails=False)),
        in_menu="Three parts",
        is_live=False,
    )
    status = view("status", fails=True)
    shell = PageShell(
        [page], status=status, live=LivePages(clock=clock, kept_seconds=lambda: 0), clock=clock
    )
    boxes = {f"boxes/{box.name}.html": f"<p>{box.name} is well</p>" for box in page.boxes}
    assert shell.templates.loader is not None
    shell.templates.loader = ChoiceLoader([DictLoader(boxes), shell.templates.loader])
    app = web.Application()
    routes = Routes()
    shell.add_routes(routes)
    routes.register(app.router)
    runner = web.AppRunner(app)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    try:
        async with screen(browser) as shown:
            await shown.page.goto(f"http://127.0.0.1:{runner.addresses[0][1]}/")
            failed = await shown.page.locator(".failed-box").all_inner_texts()
            text = await shown.page.locator("body").inner_text()
            assert await shown.violations() == []
    finally:
        await runner.cleanup()
    assert len(failed) == 1
    assert "What the part second shows" in failed[0]
    assert "LookupError" in failed[0]
    assert "what people must not see" not in text
    assert "first is well" in text
    assert "third is well" in text
    assert "second is well" not in text
    assert "The state cannot be shown" in text
