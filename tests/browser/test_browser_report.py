"""The report on paper and without a script: who prints it or reads it in a mail has all of it."""

from __future__ import annotations

import pytest
from playwright.async_api import Browser

from tests.browser.living_workspace import LivingWorkspace
from tests.browser.screens import DESKTOP, PHONE, screen

pytestmark = pytest.mark.asyncio(loop_scope="session")


async def test_a_report_needs_no_script(living: LivingWorkspace, browser: Browser) -> None:
    """All of it, with the links to the other stretches."""
    async with screen(browser, java_script_enabled=False) as shown:
        await shown.page.goto(living.url("/reports?since=24h"))
        assert await shown.page.locator(".verdict").inner_text()
        await shown.page.get_by_role("link", name="7 days", exact=True).click()
        assert await shown.page.get_by_role("heading", name="Compared").count() == 1


@pytest.mark.parametrize("width", [PHONE, DESKTOP])
@pytest.mark.parametrize("scheme", ["light", "dark"])
async def test_keys_lead_to_other_stretches(
    living: LivingWorkspace, browser: Browser, width: int, scheme: str
) -> None:
    """To last week, the one before and back: each page marks what it shows, and fits the window."""
    async with screen(browser, width=width, color_scheme=scheme) as shown:
        page = shown.page
        await page.goto(living.url("/reports?workspace=acme"))
        for name, marked in (
            ("Last week", ["Last week"]),
            ("Previous week", []),
            ("Next week", ["Last week"]),
            ("Next week", ["This week"]),
            ("Previous week", ["Last week"]),
            ("Yesterday", ["Yesterday"]),
            ("Next day", []),
            ("Previous day", ["Yesterday"]),
            ("Last night", ["Last night"]),
        ):
            await page.get_by_role("link", name=name, exact=True).focus()
            async with page.expect_navigation():
                await page.keyboard.press("Enter")
            assert "workspace=acme" in page.url
            assert await page.locator(".report [aria-current]").all_inner_texts() == marked
        assert await shown.violations() == []
        assert await shown.sticking_out() == []
        assert shown.console == []


async def test_a_printed_report_has_no_menu(living: LivingWorkspace, browser: Browser) -> None:
    """Nothing that can only be clicked; the sentence and the lists stay."""
    async with screen(browser) as shown:
        await shown.page.goto(living.url("/reports?since=24h"))
        await shown.page.emulate_media(media="print")
        visible = shown.page.locator("nav:visible, footer:visible, .report .actions:visible")
        assert await visible.count() == 0
        assert await shown.page.locator(".verdict:visible").count() == 1
        assert await shown.page.locator(".report h3:visible").count() > 0
