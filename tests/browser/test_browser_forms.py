"""Forms in a real browser: what changes something is done by keys, and judged as pages are."""

from __future__ import annotations

import pytest
from playwright.async_api import Browser

from tests.browser.living_workspace import LivingWorkspace
from tests.browser.screens import PHONE, TABLET, WIDE, Screen, screen
from tests.browser.views import FORMS

pytestmark = pytest.mark.asyncio(loop_scope="session")


# What is pressed in the main part of a page, and is lower than a thumb needs.
_LOW = """() => [...document.querySelectorAll("main :is(a, button, input, select, textarea)")]
    .filter((element) => element.getClientRects().length)
    .filter((element) => element.getBoundingClientRect().height < 44)
    .map((element) => `${element.tagName} ${element.id} ${element.textContent.trim()}: `
      + element.getBoundingClientRect().height)"""


async def _follow(shown: Screen, name: str) -> None:
    """Follow the first link of that name as a key does."""
    await shown.page.locator("main").get_by_role("link", name=name).first.focus()
    async with shown.page.expect_navigation():
        await shown.page.keyboard.press("Enter")


async def _comments(living: LivingWorkspace) -> list[str]:
    """Return the comments of the silences that there are: other tests of the daemon add some."""
    silences = (await living.face.json("/api/v1/silences"))["data"]
    return sorted(silence["comment"] for silence in silences)


@pytest.mark.parametrize("path", FORMS)
async def test_everybody_can_use_a_form(
    living: LivingWorkspace, browser: Browser, path: str
) -> None:
    """With names that harm, nothing sticks out and axe-core finds nothing, in light and dark."""
    async with screen(browser, color_scheme="light") as shown:
        await shown.page.goto(living.url(path, living.hostile_ids))
        assert await shown.violations() == []
        await shown.page.emulate_media(color_scheme="dark")
        assert await shown.violations("color-contrast") == []
        for width in (WIDE, TABLET, PHONE):
            await shown.resize(width)
            assert await shown.sticking_out() == []
        assert await shown.violations() == []
        assert shown.console == []


@pytest.mark.parametrize("path", FORMS)
async def test_a_form_is_used_with_a_thumb(
    living: LivingWorkspace, browser: Browser, path: str
) -> None:
    """On a phone whatever is pressed in a form is 44 pixels high at least."""
    async with screen(browser, width=PHONE) as shown:
        await shown.page.goto(living.url(path))
        assert await shown.page.evaluate(_LOW) == []


async def test_a_link_of_a_mail_fills_the_form(living: LivingWorkspace, browser: Browser) -> None:
    """The time of a link stands in its field, and tomorrow is that of who reads it."""
    query = "matcher=workspace%3Dhostile&lasts=until&ends_at=2026-11-29+07%3A00"
    before = await _comments(living)
    async with screen(browser, width=PHONE, timezone_id="Asia/Tokyo", locale="de-DE") as shown:
        await shown.page.goto(living.url(f"/silences/new?{query}"))
        assert await shown.page.locator("#ends_at").input_value() == "2026-11-29T07:00"
        assert await shown.page.locator("#lasts").input_value() == "until"
        words = await shown.page.locator("#lasts option[value=tomorrow]").text_content()
        assert words == "until tomorrow 08:00"
        morning = await shown.page.locator("#morning").input_value()
        assert morning.endswith("T23:00:00.000Z")
        assert await _comments(living) == before


async def test_an_alert_is_acknowledged_by_keys(living: LivingWorkspace, browser: Browser) -> None:
    """From the overview: a link, a name, Enter. The alert says who, and the answer is no JSON."""
    async with screen(browser) as shown:
        await shown.page.goto(living.url("/?workspace={workspace}"))
        await _follow(shown, "Acknowledge")
        assert await shown.page.evaluate("() => document.activeElement.name") == "author"
        await shown.page.keyboard.type("Ada Lovelace")
        await shown.page.keyboard.press("Tab")
        await shown.page.keyboard.type("I look at it")
        await shown.page.keyboard.press("Enter")
        await shown.until_text("Ada Lovelace")
        await shown.until_text("I look at it")
        assert "/acknowledge" not in shown.page.url
        assert shown.console == []


async def test_a_silence_is_shown_before_it_is_saved(
    living: LivingWorkspace, browser: Browser
) -> None:
    """By keys: a matcher, a preview of the alerts that it mutes, then the silence in its list."""
    before = await _comments(living)
    async with screen(browser) as shown:
        await shown.page.goto(living.url("/silences/new"))
        assert await shown.page.evaluate("() => document.activeElement.name") == "matcher"
        await shown.page.keyboard.type("workspace=hostile")
        await shown.page.get_by_role("button", name="Preview").focus()
        await shown.page.keyboard.press("Enter")
        await shown.until_text("It will mute")
        assert await shown.page.locator("#preview tbody tr").count() > 0
        assert await _comments(living) == before

        await shown.page.get_by_label("Your name").fill("Ada Lovelace")
        await shown.page.get_by_label("Why").fill("the workspace moves")
        await shown.page.get_by_role("button", name="Silence").focus()
        await shown.page.keyboard.press("Enter")
        await shown.until_text("the workspace moves")
        assert await _comments(living) == sorted([*before, "the workspace moves"])
        assert shown.console == []
