"""The charts of a pipeline: drawn once, kept while the page changes, and there without scripts."""

from __future__ import annotations

import pytest
from playwright.async_api import Browser

from monitor.sandbox.running.engine import Outcome
from tests.browser.living_workspace import LivingWorkspace
from tests.browser.screens import screen
from tests.browser.views import LIVE

pytestmark = pytest.mark.asyncio(loop_scope="session")

PAGE = "/pipelines/{workspace}/flow/{flow}"
_CHART = "document.querySelector('#plot-durations.drawn canvas')"
_SERIES = "document.getElementById('plot-durations').dataset.series"


async def test_a_chart_outlives_the_changes_of_its_page(
    living: LivingWorkspace, browser: Browser
) -> None:
    """A new run comes into the page, another range into the chart: it is the same one before."""
    async with screen(browser) as shown:
        await shown.page.goto(living.url(PAGE))
        await shown.until(LIVE)
        await shown.until(_CHART)
        await shown.page.evaluate(f"() => {{ window.chart = {_CHART}; window.first = {_SERIES}; }}")
        run_id = living.start(Outcome.HANG)
        await shown.until(f"document.getElementById('pipeline-run-acme-job_group-{run_id}')")
        await shown.page.get_by_role("link", name="24 hours").click()
        await shown.until(f"{_SERIES} !== window.first && location.search === '?range=24h'")

        assert await shown.page.evaluate(f"() => window.chart === {_CHART}")
        assert await shown.page.locator("#plot-durations canvas").count() == 1
        assert shown.console == []


async def test_charts_are_there_without_scripts(living: LivingWorkspace, browser: Browser) -> None:
    """The server has drawn them, and links lead to other ranges."""
    async with screen(browser, java_script_enabled=False) as shown:
        await shown.page.goto(living.url(PAGE))
        assert await shown.page.locator("#plot-durations svg.dots").is_visible()
        await shown.page.get_by_role("link", name="30 days").click()
        assert shown.page.url.endswith("?range=30d")
        assert await shown.page.locator("#pipeline-history svg.timeline").is_visible()
