"""Logging in and out on the page; sessions that end."""

from __future__ import annotations

import asyncio
from collections import Counter
from pathlib import Path

import msgspec
import pytest
import structlog

from monitor.model.errors import BusUnavailableError
from monitor.web.principals import Role
from monitor.web.settings import ServerSettings
from tests.web.form_client import Browser
from tests.web.people import ENTRIES, PEOPLE, bearer, entry, log_in, token_of
from tests.web.serving import serving
from tests.web.site import Site

BROWSERS = {"Accept": "text/html"}

pytestmark = pytest.mark.parametrize("settings", [PEOPLE], ids=["people"])


async def test_a_person_is_led_to_the_form_and_back(site: Site, browser: Browser) -> None:
    """A page without a session leads to the form, and the form back to the page."""
    async with browser.session.get(
        f"{site.url}/runs?status=failed", headers=BROWSERS, allow_redirects=False
    ) as response:
        leads_to = response.headers["Location"]
    page = await browser.get(leads_to)
    shown = await log_in(browser, token_of("read-user"), leads_to="/runs?status=failed")

    assert leads_to == "/login?next=%2Fruns%3Fstatus%3Dfailed"
    assert 'value="/runs?status=failed"' in page.text
    assert shown == "/runs?status=failed"
    assert (await browser.get("/runs")).status == 200


@pytest.mark.parametrize(
    "elsewhere",
    ["https://evil.example/", "//evil.example/", "/\\evil.example", "javascript:alert(1)", "/a\nb"],
)
async def test_the_form_leads_to_no_other_site(browser: Browser, elsewhere: str) -> None:
    """Where to go after it is a path of this server, or the overview."""
    assert await log_in(browser, token_of("read-user"), leads_to=elsewhere) == "/"


async def test_a_session_is_kept_by_a_cookie_that_scripts_cannot_read(browser: Browser) -> None:
    """The cookie is HttpOnly and SameSite=Lax, and holds neither name nor token."""
    token = await browser.token("/login")
    fields = {"username": "", "secret": token_of("read-user"), "next": "/", "token": token}
    reply = await browser.send("/login", fields)
    (cookie,) = reply.headers.getall("Set-Cookie")

    assert "HttpOnly" in cookie
    assert "SameSite=Lax" in cookie
    assert "Max-Age=43200" in cookie
    assert "Secure" not in cookie
    assert "read-user" not in cookie


async def test_behind_tls_the_cookie_is_for_tls_only(browser: Browser) -> None:
    """A trusted proxy says that the browser speaks TLS: Secure, and a name that pins its host."""
    shown = await browser.get("/login", X_Forwarded_Proto="https")
    key = shown.headers["Set-Cookie"].partition(";")[0]
    fields = {"username": "", "secret": token_of("read-user"), "next": "/", "token": shown.token()}
    reply = await browser.send("/login", fields, X_Forwarded_Proto="https", Cookie=key)
    (cookie,) = reply.headers.getall("Set-Cookie")

    assert cookie.startswith("__Host-dataprep_monitor_session=")
    assert "Secure" in cookie


async def test_a_session_ends_by_the_clock(site: Site, browser: Browser) -> None:
    """After its time the store, not the browser, has ended it."""
    await log_in(browser, token_of("read-user"))
    before = (await browser.get("/runs")).status
    await site.clock.advance(PEOPLE.session_seconds + 1)

    assert before == 200
    assert (await browser.get("/runs")).status == 401


async def test_logging_out_ends_the_session_everywhere(site: Site, browser: Browser) -> None:
    """The cookie that was stolen before is worth nothing after it."""
    await log_in(browser, token_of("operate-user"))
    stolen = {each.key: each.value for each in browser.session.cookie_jar}
    account = await browser.get("/account")
    token = await browser.token("/account")
    reply = await browser.send("/logout", {"token": token})
    cookies = "; ".join(f"{name}={value}" for name, value in stolen.items())

    assert "operate-user" in account.text
    assert reply.leads_to == "/login"
    assert (await site.get("/runs", headers={"Cookie": cookies})).status == 401


async def test_a_session_goes_on_after_a_restart(tmp_path: Path, settings: ServerSettings) -> None:
    """It is in the store, where the next daemon finds it."""
    async with serving(tmp_path, settings) as before:
        browser = Browser(before)
        await log_in(browser, token_of("read-user"))
        cookies = "; ".join(f"{each.key}={each.value}" for each in browser.session.cookie_jar)
        await browser.close()
    async with serving(tmp_path, settings) as after:
        assert (await after.get("/runs", headers={"Cookie": cookies})).status == 200


async def test_a_token_that_is_gone_ends_its_sessions(site: Site, browser: Browser) -> None:
    """A reload without the token ends what it began; another role counts from then on."""
    await log_in(browser, token_of("operate-user"))
    demoted = msgspec.structs.replace(ENTRIES[2], role=Role.METRICS)
    site.server.reconfigure(msgspec.structs.replace(PEOPLE, access=(demoted,)))
    as_demoted = (await browser.get("/runs")).status
    renewed = entry("operate-user", Role.OPERATE)  # another hash of another salt
    site.server.reconfigure(msgspec.structs.replace(PEOPLE, access=(renewed,)))

    assert as_demoted == 403
    assert (await browser.get("/runs")).status == 401


async def test_a_wrong_token_is_said_in_the_form(browser: Browser) -> None:
    """The form comes again with the name, without the token, and no line of the log has it."""
    with structlog.testing.capture_logs() as lines:
        page = await log_in(browser, "a-wrong-secret", username="ada", status=401)

    assert "wrong" in page
    assert 'value="ada"' in page
    assert "a-wrong-secret" not in page
    assert "a-wrong-secret" not in str(lines)


async def test_a_token_in_the_wrong_field_is_shown_nowhere(browser: Browser) -> None:
    """Who types it where the name belongs does not find it on the screen, nor in the log."""
    await browser.get("/login")
    with structlog.testing.capture_logs() as lines:
        page = await log_in(browser, "", username=token_of("read-user"), status=401)

    assert "wrong" in page
    assert token_of("read-user") not in page + str(lines)


async def test_who_is_locked_out_is_told_how_long(browser: Browser) -> None:
    """After some wrong tokens the form says how many seconds nothing is looked at."""
    pages = [await log_in(browser, f"wrong-{n}", status=401) for n in range(6)]
    locked = await log_in(browser, token_of("read-user"), status=429)

    assert len(pages) == 6
    assert "nothing is looked at for 2 s" in locked


async def test_a_name_and_its_token_log_in(browser: Browser) -> None:
    """With the user name the part of the token after its name is enough."""
    secret = token_of("read-user").partition(".")[2]

    assert await log_in(browser, secret, username="read-user") == "/"


async def test_a_form_of_another_browser_is_refused(site: Site, browser: Browser) -> None:
    """Another site cannot log a browser in as a user that it chose."""
    other = Browser(site)
    token = await other.token("/login")
    await other.close()
    await browser.get("/login")
    fields = {"username": "", "secret": token_of("read-user"), "next": "/", "token": token}

    assert (await browser.send("/login", fields)).status == 403


async def test_guesses_at_once_are_no_more_than_one_after_another(site: Site) -> None:
    """Of ninety tokens at once some six are compared: another user logs in beside them."""
    guesses = [site.get("/runs", headers=bearer(f"read-user.{n}")) for n in range(90)]
    statuses = Counter([answer.status for answer in await asyncio.gather(*guesses)])
    async with site.from_address("127.0.0.2") as elsewhere:
        right = await elsewhere.get(f"{site.url}/runs", headers=bearer(token_of("read-user")))

    assert 5 <= statuses[401] <= 8
    assert statuses[429] == 90 - statuses[401]
    assert right.status == 200


async def test_a_withdrawn_token_is_a_guess_like_any_other(site: Site) -> None:
    """That it was right once does not let its holder ask for comparisons without end."""
    headers = bearer(token_of("read-user"))
    before = (await site.get("/runs", headers=headers)).status
    site.server.reconfigure(msgspec.structs.replace(PEOPLE, access=ENTRIES[2:]))
    after = [(await site.get("/runs", headers=headers)).status for _ in range(8)]

    assert before == 200
    assert after == [401] * 6 + [429] * 2


async def test_a_token_in_the_field_of_the_name_is_not_logged(browser: Browser) -> None:
    """People mistake the fields: no line of the log has what they typed."""
    with structlog.testing.capture_logs() as lines:
        await log_in(browser, "", username=token_of("read-user"), status=401)

    assert [line["event"] for line in lines].count("admin write") == 1
    assert "secret-of" not in str(lines)


async def test_over_tls_a_session_is_in_the_secure_cookie_alone(
    site: Site, browser: Browser
) -> None:
    """Another host, or a page without TLS, could set the plain one to a session of its choice."""
    await log_in(browser, token_of("read-user"))
    (plain,) = (each for each in browser.session.cookie_jar if "session" in each.key)
    by_tls = {"X-Forwarded-Proto": "https"}
    answers = [
        (await site.get("/runs", headers={"Cookie": f"{prefix}{plain.key}={plain.value}", **more}))
        for prefix, more in (("", {}), ("", by_tls), ("__Host-", by_tls), ("__Host-", {}))
    ]

    assert [answer.status for answer in answers] == [200, 401, 200, 401]


async def test_sessions_that_cannot_be_read_are_a_problem_of_the_store(
    site: Site, browser: Browser, monkeypatch: pytest.MonkeyPatch
) -> None:
    """While the store is away the answer says so, in one line of the log without a trace."""
    await log_in(browser, token_of("read-user"))
    (kept,) = (each for each in browser.session.cookie_jar if "session" in each.key)
    cookie = {"Cookie": f"{kept.key}={kept.value}"}
    await site.clock.advance(6)  # it is not remembered any more

    async def away(topic: str, key: str) -> bytes | None:
        raise BusUnavailableError(f"the store does not return {topic} {key[:10]}")

    monkeypatch.setattr(site.bus.entries, "get", away)
    with structlog.testing.capture_logs() as lines:
        answers = [await site.get("/api/v1/runs", headers=cookie) for _ in range(3)]
        opened = await site.get("/login", headers=cookie)

    assert [answer.status for answer in answers] == [503] * 3
    assert "the store" in answers[0].document["detail"]
    assert opened.status == 200
    assert [line["event"] for line in lines] == ["request cannot be served now"]


async def test_guesses_from_many_addresses_lock_out_no_address_that_is_known(site: Site) -> None:
    """From where a user came before another may log in; a new address waits with the others."""
    async with site.from_address("127.0.0.2") as office:
        first = await office.get(f"{site.url}/runs", headers=bearer(token_of("read-user")))
        for number in range(10, 20):
            async with site.from_address(f"127.0.0.{number}") as many:
                for guess in range(5):
                    await many.get(f"{site.url}/runs", headers=bearer(f"read-user.{guess}"))
        known = await office.get(f"{site.url}/runs", headers=bearer(token_of("admin-user")))
    new = await site.get("/runs", headers=bearer(token_of("operate-user")))

    assert (first.status, known.status, new.status) == (200, 200, 429)
