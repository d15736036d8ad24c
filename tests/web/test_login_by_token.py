"""Logging in on the page where `[server]` has a token and nothing else."""

from __future__ import annotations

import msgspec
import pytest

from monitor.model.secrets import Secret
from monitor.web.settings import ServerSettings
from tests.web.form_client import Browser
from tests.web.people import log_in
from tests.web.site import Site

TOKEN = "a token of the server"
BY_TOKEN = ServerSettings(
    listen="127.0.0.1:0", token=Secret(TOKEN), wrong_credentials_delay_seconds=0
)
PAGE = {"Accept": "text/html"}

pytestmark = pytest.mark.parametrize("settings", [BY_TOKEN], ids=["by token"])


async def test_the_token_logs_in_as_an_admin(site: Site, browser: Browser) -> None:
    """A page leads to the form, which takes the token; its session may do everything."""
    async with browser.session.get(
        f"{site.url}/monitor/audit", headers=PAGE, allow_redirects=False
    ) as response:
        leads_to = response.headers["Location"]
    shown = await log_in(browser, TOKEN, leads_to="/monitor/audit")
    account = await browser.get("/account")

    assert leads_to == "/login?next=%2Fmonitor%2Faudit"
    assert shown == "/monitor/audit"
    assert (await browser.get("/monitor/audit")).status == 200
    assert "<td>admin</td>" in account.text
    assert 'href="/account"' in (await browser.get("/runs")).text


async def test_another_token_ends_the_session(site: Site, browser: Browser) -> None:
    """A reload that replaces the token withdraws what the former one began."""
    await log_in(browser, TOKEN)
    site.server.reconfigure(msgspec.structs.replace(BY_TOKEN, token=Secret("another token of it")))

    assert (await browser.get("/runs")).status == 401


async def test_a_wrong_token_is_told_in_the_form(browser: Browser) -> None:
    """The form comes again; nothing is opened."""
    page = await log_in(browser, "a wrong token", status=401)

    assert "wrong" in page
    assert (await browser.get("/runs")).status == 401


async def test_programs_are_told_to_send_the_token(site: Site) -> None:
    """They are led nowhere: the answer is 401 and names the scheme."""
    answer = await site.get("/api/v1/runs")

    assert answer.status == 401
    assert answer.headers["WWW-Authenticate"] == 'Bearer realm="dataprep-monitor"'
