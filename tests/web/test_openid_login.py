"""Logging in at an OpenID provider on loopback."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import AsyncIterator, Iterator
from datetime import UTC, datetime, timedelta
from urllib.parse import parse_qs, urlsplit

import msgspec
import pytest
import structlog

from monitor.model.secrets import Secret
from monitor.web.settings import OidcSettings, ServerSettings
from tests.app.eventually import eventually
from tests.web.form_client import Browser, Reply
from tests.web.openid_provider import Provider
from tests.web.people import PEOPLE, bearer, token_of
from tests.web.site import Site

# The provider's own library warns of its future.
pytestmark = [
    pytest.mark.filterwarnings("ignore:.*:authlib.deprecate.AuthlibDeprecationWarning"),
    pytest.mark.filterwarnings("ignore:get_jwt_config:DeprecationWarning"),
]
# The browser of these tests reaches it at the address of the server.
URL = "https://monitor.example.com"


@pytest.fixture
def provider() -> Iterator[Provider]:
    made = Provider()
    yield made
    made.stop()


@pytest.fixture
def settings(provider: Provider) -> ServerSettings:
    oidc = OidcSettings(
        issuer=provider.issuer, client_id="dataprep-monitor", client_secret=Secret("any")
    )
    return msgspec.structs.replace(PEOPLE, oidc=oidc, public_url=URL)


@pytest.fixture
async def browser(site: Site) -> AsyncIterator[Browser]:
    site.clock.set_wall(datetime.now(UTC))  # that of the provider
    made = Browser(site)
    yield made
    await made.close()


async def consent(browser: Browser, user: str, *, leads_to: str = "/runs") -> str:
    """Return where the provider sends a user back to, on this server."""
    begun = await browser.get_without_following(f"/login/oidc?next={leads_to}")
    async with browser.session.post(
        begun.leads_to, data={"sub": user}, allow_redirects=False
    ) as response:
        back = response.headers["Location"]
    assert back.startswith(f"{URL}/login/oidc/callback?")
    return back.removeprefix(URL)


async def log_in(browser: Browser, user: str, **more: str) -> Reply:
    return await browser.get_without_following(await consent(browser, user, **more))


async def test_a_user_is_led_to_the_provider_and_back(browser: Browser) -> None:
    """The page that was wanted is shown after it, with the role that the user's entry has."""
    reply = await log_in(browser, "read-user")
    account = await browser.get("/account")

    assert (reply.status, reply.leads_to) == (303, "/runs")
    assert "read-user@example.com" in account.text
    assert "<td>read</td>" in account.text
    assert (await browser.get("/runs")).status == 200
    assert (await browser.get("/silences/new")).status == 403


async def test_a_group_gives_its_role(browser: Browser) -> None:
    """Whom no entry names has the role of the first group that one does."""
    await log_in(browser, "grace")

    assert (await browser.get("/silences/new")).status == 200


async def test_the_code_is_bound_to_the_browser(browser: Browser, provider: Provider) -> None:
    """PKCE: the provider gets a challenge first, and what it was made of only with the code."""
    begun = await browser.get_without_following("/login/oidc?next=/")
    asked = {name: value[0] for name, value in parse_qs(urlsplit(begun.leads_to).query).items()}
    async with browser.session.post(
        begun.leads_to, data={"sub": "read-user"}, allow_redirects=False
    ) as response:
        back = response.headers["Location"].removeprefix(URL)
    await browser.get_without_following(back)
    (exchanged,) = provider.exchanged
    digest = hashlib.sha256(exchanged["code_verifier"][0].encode()).digest()

    assert asked["code_challenge_method"] == "S256"
    assert asked["code_challenge"] == base64.urlsafe_b64encode(digest).decode().rstrip("=")
    assert exchanged["redirect_uri"] == [f"{URL}/login/oidc/callback"]


async def test_another_browser_cannot_finish_a_log_in(site: Site, browser: Browser) -> None:
    """A link that logs in as the attacker, or with a code that was seen, leads nowhere."""
    back = await consent(browser, "read-user")
    other = Browser(site)
    stolen = await other.get_without_following(back)
    await other.close()
    changed = await browser.get_without_following(f"{back}x")

    assert (stolen.status, changed.status) == (400, 400)
    assert "did not begin here" in stolen.text


@pytest.mark.parametrize(
    ("user", "status", "why"),
    [
        ("eve", 403, "eve@example.com has no entry"),
        ("unverified", 503, "has not verified this mail address"),
        ("as-text", 503, "has not verified this mail address"),
        ("another", 503, "Invalid claim: 'azp'"),
        ("member", 503, "names 1,001 groups of this user"),
        ("new\nline", 503, "holds control characters"),
    ],
)
async def test_a_user_without_an_entry_is_told(
    browser: Browser, user: str, status: int, why: str
) -> None:
    """The form says why, and other ways in are beside it."""
    reply = await log_in(browser, user)

    assert reply.status == status
    assert why in reply.text
    assert "Token or password" in reply.text
    assert (await browser.get("/runs")).status == 401


async def test_a_user_without_an_entry_is_counted_in_the_audit(
    site: Site, browser: Browser
) -> None:
    """By its source, as wrong tokens are."""
    await log_in(browser, "eve")
    await site.clock.advance(60)

    async def is_there() -> bool:
        lines = (await site.get("/api/v1/audit", headers=bearer(token_of("admin-user")))).document
        return [line["request"]["times"] for line in lines["data"]] == [1]

    await eventually(is_there, why="no line counts it", within_seconds=5)


@pytest.mark.parametrize("off_by", [timedelta(hours=2), timedelta(hours=-2)])
async def test_clocks_that_differ_are_named(
    site: Site, browser: Browser, off_by: timedelta
) -> None:
    """An ID token of another time is refused, and the sentence says where to look."""
    site.clock.set_wall(datetime.now(UTC) + off_by)
    reply = await log_in(browser, "read-user")

    assert reply.status == 503
    assert "clocks of both machines" in reply.text


async def test_clocks_may_differ_a_little(site: Site, browser: Browser) -> None:
    """Half a minute is forgiven."""
    site.clock.set_wall(datetime.now(UTC) - timedelta(seconds=30))

    assert (await log_in(browser, "read-user")).status == 303


async def test_a_provider_that_is_away_takes_no_other_way_in(
    browser: Browser, provider: Provider
) -> None:
    """The form says that it cannot be reached, and a token still logs in."""
    provider.stop()
    reply = await browser.get_without_following("/login/oidc?next=/")

    assert reply.status == 503
    assert f"{provider.issuer} cannot be reached" in reply.text
    assert "Token or password" in reply.text


async def test_what_a_provider_denies_is_said(browser: Browser) -> None:
    """Its words are shown as text, whatever they hold."""
    begun = await browser.get_without_following("/login/oidc?next=/")
    async with browser.session.post(
        begun.leads_to, data={"action": "deny"}, allow_redirects=False
    ) as response:
        back = response.headers["Location"].removeprefix(URL)
    state = parse_qs(urlsplit(begun.leads_to).query)["state"][0]
    path = f"/login/oidc/callback?state={state}&error=x&error_description=%3Cb%3E%0Ano"
    hostile = await browser.get_without_following(path)

    assert "error=access_denied" in back
    assert hostile.status == 503
    assert "<b>" not in hostile.raw


async def test_a_user_whose_entry_is_gone_is_out(
    site: Site, browser: Browser, settings: ServerSettings
) -> None:
    """A reload ends sessions of users whom the provider vouched for, too."""
    await log_in(browser, "read-user")
    site.server.reconfigure(msgspec.structs.replace(settings, access=PEOPLE.access[2:]))

    assert (await browser.get("/runs")).status == 401


async def test_what_a_provider_quotes_is_shown_nowhere(
    browser: Browser, provider: Provider
) -> None:
    """A refusal says its code; its words may hold what the provider was sent."""
    provider.is_quoting = True
    with structlog.testing.capture_logs() as lines:
        reply = await log_in(browser, "read-user")
    (exchanged,) = provider.exchanged
    shown = reply.text + str(lines)

    assert reply.status == 503
    assert "refused: invalid_client" in reply.text
    assert exchanged["code"][0] not in shown
    assert exchanged["code_verifier"][0] not in shown
    assert "not with" not in shown


async def test_no_line_of_the_log_has_a_code(browser: Browser, provider: Provider) -> None:
    """Neither the code nor what it is exchanged for is logged."""
    with structlog.testing.capture_logs() as lines:
        await log_in(browser, "read-user")
        await log_in(browser, "eve")

    assert lines
    for exchanged in provider.exchanged:
        assert exchanged["code"][0] not in str(lines)
        assert exchanged["code_verifier"][0] not in str(lines)


async def test_another_page_cannot_begin_a_log_in_over_tls(browser: Browser) -> None:
    """What is kept until the way back is in a cookie that no other host can set, and works."""
    begun = await browser.get_without_following("/login/oidc?next=/", X_Forwarded_Proto="https")
    cookie = begun.headers["Set-Cookie"]
    async with browser.session.post(
        begun.leads_to, data={"sub": "read-user"}, allow_redirects=False
    ) as response:
        back = response.headers["Location"].removeprefix(URL)
    name, _, value = cookie.partition(";")[0].partition("=")
    plain = f"{name.removeprefix('__Host-')}={value}"
    forged = await browser.get_without_following(back, X_Forwarded_Proto="https", Cookie=plain)
    own = f"{name}={value}"
    reply = await browser.get_without_following(back, X_Forwarded_Proto="https", Cookie=own)

    assert name.startswith("__Host-")
    assert {"Secure", "HttpOnly", "Path=/", "SameSite=Lax"} <= set(cookie.split("; "))
    assert forged.status == 400
    assert reply.status == 303


@pytest.mark.parametrize("issuer", [None, "https://other.example.com"])
async def test_a_provider_that_is_trusted_no_more_ends_its_sessions(
    site: Site, browser: Browser, settings: ServerSettings, issuer: str | None
) -> None:
    """A reload without it, or with another, is the way to shut out whom it let in."""
    await log_in(browser, "read-user")
    before = (await browser.get("/runs")).status
    assert settings.oidc is not None
    other = None if issuer is None else msgspec.structs.replace(settings.oidc, issuer=issuer)
    site.server.reconfigure(msgspec.structs.replace(settings, oidc=other))

    assert before == 200
    assert (await browser.get("/runs")).status == 401


async def test_failed_log_ins_are_one_line_a_minute(site: Site, browser: Browser) -> None:
    """Strangers who call the way back without end do not fill the log."""
    with structlog.testing.capture_logs() as lines:
        for _ in range(5):
            await browser.get_without_following("/login/oidc/callback?code=x&state=y")
        await site.clock.advance(61)
        await browser.get_without_following("/login/oidc/callback?code=x&state=y")

    failed = [line for line in lines if line["event"] == "openid log-in failed"]
    assert [line["failures"] for line in failed] == [1, 5]


async def test_the_audit_names_the_entry_beside_the_user(site: Site, browser: Browser) -> None:
    """A provider, or its users, may choose the name of another entry as that of a user."""
    await log_in(browser, "admin")
    answer = await site.get("/api/v1/audit", headers=bearer(token_of("admin-user")))
    (line,) = answer.document["data"]

    assert (line["what"], line["person"], line["entry"]) == ("log_in", "admin-user", "read-user")
