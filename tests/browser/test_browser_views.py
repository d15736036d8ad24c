"""Every page in a real browser: nothing is blocked, nothing sticks out, everybody can use it."""

from __future__ import annotations

from pathlib import Path

import pytest
from playwright.async_api import Browser

from monitor.web.settings import ServerSettings
from tests.browser.living_workspace import LivingWorkspace
from tests.browser.screens import PHONE, TABLET, WIDE, screen
from tests.web.serving import serving

pytestmark = pytest.mark.asyncio(loop_scope="session")

# By the path that is registered; what stands in braces comes from the living workspace.
VIEWS = {"/new": "/new"}


async def test_every_page_is_tested_here(tmp_path: Path) -> None:
    """A page that is registered and stands in no test of this file fails this one."""
    async with serving(tmp_path, ServerSettings(listen="127.0.0.1:0")) as site:
        assert {page.path for page in site.server._views.pages} == VIEWS.keys()


@pytest.mark.parametrize("path", VIEWS)
async def test_a_page_opens_without_complaint(
    living: LivingWorkspace, browser: Browser, path: str
) -> None:
    """The console is silent, no box fails, and axe-core finds nothing in light, dark and phone."""
    async with screen(browser, color_scheme="light") as shown:
        answer = await shown.page.goto(living.face.url + living.path(VIEWS[path]))
        await shown.until("document.getElementById('link').dataset.state === 'live'")
        assert answer is not None
        assert answer.status == 200
        assert await shown.page.locator(".failed-box").count() == 0
        assert await shown.page.locator("h1").count() == 1
        assert await shown.violations() == []
        for width in (TABLET, WIDE):
            await shown.resize(width)
            assert await shown.sticking_out() == []
        await shown.page.emulate_media(color_scheme="dark")
        assert await shown.violations("color-contrast") == []
        await shown.resize(PHONE)
        assert await shown.sticking_out() == []
        assert await shown.violations() == []
        assert shown.console == []
