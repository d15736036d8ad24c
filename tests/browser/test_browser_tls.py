"""The page over our own TLS in a real browser: logged in, live, and with cookies for TLS alone."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest
from playwright.async_api import Browser

from tests.browser.screens import screen
from tests.browser.test_browser_login import SETTINGS, log_in
from tests.certificates import Certificates
from tests.web.people import token_of
from tests.web.serving import serving

pytestmark = pytest.mark.asyncio(loop_scope="session")


async def test_a_person_logs_in_over_tls(tmp_path: Path, browser: Browser) -> None:
    """Every cookie is kept for TLS, and the page reports no error."""
    certificates = Certificates(tmp_path)
    tls = certificates.settings(certificates.server)
    async with (
        serving(tmp_path, msgspec.structs.replace(SETTINGS, tls=tls)) as site,
        screen(browser, ignore_https_errors=True) as shown,
    ):
        await shown.page.goto(f"{site.url}/runs")
        await log_in(shown, token_of("operate-user"))
        await shown.page.wait_for_url("**/runs")
        await shown.until_text("Runs")
        cookies = await shown.page.context.cookies()

        assert site.url.startswith("https://")
        assert [cookie for cookie in cookies if not cookie.get("secure")] == []
        assert "__Host-dataprep_monitor_session" in [cookie.get("name") for cookie in cookies]
        assert shown.console == []
