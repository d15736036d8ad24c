"""Logging in and out in a real browser, on one daemon and on another of the same store."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import msgspec
import pytest
import pytest_asyncio
from playwright.async_api import Browser

from tests.browser.screens import PHONE, TABLET, WIDE, Screen, screen
from tests.web.people import PEOPLE, token_of
from tests.web.serving import serving
from tests.web.site import Site

pytestmark = pytest.mark.asyncio(loop_scope="session")
SETTINGS = msgspec.structs.replace(PEOPLE, trusted_proxies=(), user_header=None, groups_header=None)


@pytest_asyncio.fixture(loop_scope="session")
async def guarded(tmp_path: Path) -> AsyncIterator[Site]:
    async with serving(tmp_path, SETTINGS) as site:
        yield site


async def log_in(shown: Screen, secret: str) -> None:
    await shown.page.get_by_label("Token or password").fill(secret)
    await shown.page.keyboard.press("Enter")


async def test_a_person_logs_in_and_out(guarded: Site, browser: Browser) -> None:
    """A link leads through the form to its page; after logging out it leads to the form again."""
    async with screen(browser) as shown:
        await shown.page.goto(f"{guarded.url}/runs")
        await log_in(shown, token_of("operate-user"))
        await shown.until_text("Runs")
        await shown.page.wait_for_url("**/runs")
        await shown.page.get_by_role("link", name="Account").click()
        await shown.until_text("operate-user")
        assert await shown.violations() == []
        await shown.page.get_by_role("button", name="Log out").click()
        await shown.page.wait_for_url("**/login")
        await shown.page.goto(f"{guarded.url}/runs")

        assert "/login?next=%2Fruns" in shown.page.url
        assert shown.console == []


async def test_a_wrong_token_leaves_the_form(guarded: Site, browser: Browser) -> None:
    """The sentence is read aloud, the name stays and the token does not."""
    async with screen(browser) as shown:
        await shown.page.goto(f"{guarded.url}/login")
        await shown.page.get_by_label("Your name").fill("ada")
        await log_in(shown, "a wrong one")
        await shown.until_text("is wrong")

        assert await shown.page.get_by_label("Your name").input_value() == "ada"
        assert await shown.page.get_by_label("Token or password").input_value() == ""
        assert await shown.page.get_by_role("alert").count() == 1


async def test_everybody_can_use_the_form(guarded: Site, browser: Browser) -> None:
    """Nothing sticks out and axe-core finds nothing, in light and dark, on phone and desk."""
    async with screen(browser, color_scheme="light") as shown:
        await shown.page.goto(f"{guarded.url}/login")
        assert await shown.violations() == []
        await shown.page.emulate_media(color_scheme="dark")
        assert await shown.violations("color-contrast") == []
        for width in (WIDE, TABLET, PHONE):
            await shown.resize(width)
            assert await shown.sticking_out() == []


async def test_a_session_that_ends_leads_to_the_form(guarded: Site, browser: Browser) -> None:
    """The next page after the end of the session is the form, and then that page."""
    async with screen(browser) as shown:
        await shown.page.goto(f"{guarded.url}/alerts")
        await log_in(shown, token_of("read-user"))
        await shown.page.wait_for_url("**/alerts")
        await guarded.clock.advance(SETTINGS.session_seconds + 1)
        await shown.page.goto(f"{guarded.url}/silences")
        await log_in(shown, token_of("read-user"))
        await shown.page.wait_for_url("**/silences")
