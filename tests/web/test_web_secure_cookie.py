"""The cookie of forms over TLS, which a trusted proxy speaks: for this very host and TLS only."""

from __future__ import annotations

import re

import aiohttp
import pytest

from monitor.web.http.form_bodies import COOKIE, SECURE_COOKIE
from monitor.web.settings import ServerSettings
from tests.web.site import Site
from tests.web.test_web_forms import FILLED, PATH

PROXIED = pytest.mark.parametrize(
    "settings",
    [ServerSettings(listen="127.0.0.1:0", trusted_proxies=("127.0.0.1",))],
    ids=["proxied"],
)
OVER_TLS = {"X-Forwarded-For": "192.0.2.7", "X-Forwarded-Proto": "https"}


async def opened(site: Site, headers: dict[str, str]) -> tuple[str, str]:
    """Open the form; return its Set-Cookie, and the token of its button."""
    answer = await site.get(PATH, headers=headers)
    found = re.search(r'name="token" value="([^"]+)"', answer.text)
    assert found is not None
    return answer.headers["Set-Cookie"], found[1]


async def sent(site: Site, headers: dict[str, str], cookie: str, token: str) -> int:
    """Send the form with that cookie alone."""
    jar = aiohttp.DummyCookieJar()
    async with (
        aiohttp.ClientSession(cookie_jar=jar) as session,
        session.post(
            site.url + PATH,
            data={**FILLED, "token": token},
            headers={**headers, "Cookie": cookie},
            allow_redirects=False,
        ) as response,
    ):
        return response.status


@PROXIED
async def test_behind_a_proxy_with_tls_the_cookie_is_secure(site: Site) -> None:
    """It has the prefix that keeps other hosts and pages without TLS from setting it, and works."""
    cookie, token = await opened(site, OVER_TLS)
    pair = cookie.partition(";")[0]

    assert cookie.startswith(f"{SECURE_COOKIE}=")
    assert {"Secure", "HttpOnly", "Path=/", "SameSite=Strict"} <= set(cookie.split("; "))
    assert "Domain" not in cookie
    assert await sent(site, OVER_TLS, pair, token) == 303


@PROXIED
async def test_over_tls_a_cookie_of_a_page_without_it_is_not_taken(site: Site) -> None:
    """An attacker on the way could set that one, and knows its key."""
    cookie, token = await opened(site, OVER_TLS)
    key = cookie.partition(";")[0].partition("=")[2]

    assert await sent(site, OVER_TLS, f"{COOKIE}={key}", token) == 403


@PROXIED
@pytest.mark.parametrize("scheme", ["http", "", "https, http", "ftp"])
async def test_without_tls_the_cookie_is_plain(site: Site, scheme: str) -> None:
    """The proxy that speaks with us has the last word; browsers would drop a secure cookie."""
    cookie, _ = await opened(site, {**OVER_TLS, "X-Forwarded-Proto": scheme})

    assert cookie.startswith(f"{COOKIE}=")
    assert "Secure" not in cookie


@pytest.mark.parametrize("settings", [ServerSettings(listen="127.0.0.1:0")], ids=["direct"])
async def test_the_word_of_a_stranger_makes_no_cookie_secure(site: Site) -> None:
    """The header is believed of trusted proxies only."""
    cookie, _ = await opened(site, OVER_TLS)

    assert cookie.startswith(f"{COOKIE}=")
