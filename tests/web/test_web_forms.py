"""Forms of pages: the token against cross-site requests, limits, and what is typed wrongly."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator

import msgspec
import pytest
from structlog.testing import capture_logs

from monitor.model.alerts import AlertState
from monitor.web.http.form_bodies import COOKIE
from tests.web.form_client import Browser
from tests.web.site import Site

PATH = "/silences/new"
FILLED = {
    "matcher": "pipeline=orders",
    "lasts": "2h",
    "ends_at": "",
    "author": "anna",
    "comment": "the warehouse moves",
}


@pytest.fixture
async def browser(site: Site) -> AsyncIterator[Browser]:
    site.alerting.show(site.alerting.alert())
    browser = Browser(site)
    yield browser
    await browser.close()


async def filled(browser: Browser, **changed: str) -> dict[str, str]:
    return {**FILLED, "token": await browser.token(PATH), **changed}


async def test_a_form_makes_a_silence_and_leads_to_it(site: Site, browser: Browser) -> None:
    """A reload of the page that follows sends nothing again, and shows it at once."""
    before = await browser.get("/silences")  # a rendering from before is kept by its URL
    sent = await browser.send(PATH, await filled(browser))
    (silence,) = site.alerting.snapshot.silences
    after = await browser.get("/silences")

    assert (sent.status, sent.leads_to) == (303, f"/silences#silence-{silence.id}")
    assert (silence.author, silence.matchers) == ("anna", ("pipeline=orders",))
    assert (silence.ends_at - silence.starts_at).total_seconds() == 7_200
    assert "the warehouse moves" not in before.text
    assert f'id="silence-{silence.id}"' in after.text


async def test_a_form_that_is_sent_twice_makes_one_silence(site: Site, browser: Browser) -> None:
    """A double click is one wish; what was changed in between is another."""
    fields = await filled(browser)
    first, second = await browser.send(PATH, fields), await browser.send(PATH, fields)
    assert first.leads_to == second.leads_to
    assert len(site.alerting.snapshot.silences) == 1

    await browser.send(PATH, {**fields, "comment": "and the lake"})
    assert len(site.alerting.snapshot.silences) == 2


async def test_a_form_that_is_sent_again_revives_no_silence(site: Site, browser: Browser) -> None:
    """The page of a form is still there by Back when its silence has ended; that one stays so."""
    fields = await filled(browser)
    await browser.send(PATH, fields)
    (made,) = site.alerting.snapshot.silences
    ended = msgspec.structs.replace(made, ends_at=site.clock.now())
    site.alerting.show(silences=(ended,))

    again = await browser.send(PATH, fields)
    assert (again.status, site.alerting.snapshot.silences) == (409, (ended,))
    assert "has ended" in again.text


@pytest.mark.parametrize(
    "token", ["", "nonsense", "1-2-3", "0-aa-" + "0" * 64, "x-y-\N{SNOWMAN}", "-" * 200]
)
async def test_without_its_token_a_form_changes_nothing(
    site: Site, browser: Browser, token: str
) -> None:
    """The form comes again with what was typed and a token that is good."""
    await browser.token(PATH)
    sent = await browser.send(PATH, {**FILLED, "token": token})

    assert (sent.status, site.alerting.snapshot.silences) == (403, ())
    assert "This form was too old, and nothing was changed." in sent.text
    assert "the warehouse moves" in sent.text
    good = re.findall(r'name="token" value="([^"]+)"', sent.raw)
    assert (await browser.send(PATH, {**FILLED, "token": good[0]})).status == 303


async def test_a_token_is_good_for_its_own_browser_only(site: Site, browser: Browser) -> None:
    """A form that is opened elsewhere cannot lend its token to a page of another site."""
    other = Browser(site)
    try:
        foreign = await other.token(PATH)
    finally:
        await other.close()
    await browser.token(PATH)

    assert (await browser.send(PATH, {**FILLED, "token": foreign})).status == 403
    assert site.alerting.snapshot.silences == ()


async def test_without_the_cookie_a_form_changes_nothing(site: Site, browser: Browser) -> None:
    """The cookie is what another site cannot make a browser send; the page says so."""
    fields = await filled(browser)
    browser.session.cookie_jar.clear()
    sent = await browser.send(PATH, fields)

    assert (sent.status, site.alerting.snapshot.silences) == (403, ())
    assert "Your browser sent no cookie of this server" in sent.text


async def test_an_old_token_is_refused(site: Site, browser: Browser) -> None:
    """A form that lay open for half a day is shown again before it changes anything."""
    fields = await filled(browser)
    await site.clock.advance(12 * 3_600 + 1)
    sent = await browser.send(PATH, fields)

    assert (sent.status, site.alerting.snapshot.silences) == (403, ())
    assert "too old" in sent.text


async def test_a_page_of_another_origin_sends_no_form(site: Site, browser: Browser) -> None:
    """Also with cookie and token: the origin is checked before them."""
    fields = await filled(browser)
    for headers in ({"Origin": "https://evil.example"}, {"Sec_Fetch_Site": "cross-site"}):
        assert (await browser.send(PATH, fields, **headers)).status == 403
    assert site.alerting.snapshot.silences == ()


async def test_a_form_and_its_cookie_are_for_one_user(browser: Browser) -> None:
    """Not kept by a cache, not read by scripts, not sent by other sites; a token each."""
    shown = await browser.get(PATH)
    cookie = shown.headers["Set-Cookie"]

    assert cookie.startswith(f"{COOKIE}=")
    assert {"HttpOnly", "SameSite=Strict", "Path=/"} <= set(cookie.split("; "))
    assert shown.headers["Cache-Control"] == "no-store"
    assert "form-action 'self'" in shown.headers["Content-Security-Policy"]
    assert await browser.token(PATH) != await browser.token(PATH)


async def test_the_log_has_the_form_and_not_its_token(site: Site, browser: Browser) -> None:
    """A reader of the log sees who silenced what, and cannot send the form again."""
    fields = await filled(browser)
    with capture_logs() as lines:
        await browser.send(PATH, fields)
        await site.logged(lines)
    (line,) = [line for line in lines if line["event"] == "admin write"]

    assert (line["path"], line["status"]) == (PATH, 303)
    assert "the warehouse moves" in line["body"]
    assert fields["token"] not in str(lines)


@pytest.mark.parametrize(
    ("changed", "field", "problem"),
    [
        ({"matcher": ""}, "matcher", "name what is to be silent"),
        ({"matcher": "pipelin=x"}, "matcher", "did you mean pipeline?"),
        ({"matcher": "daily\nworkspace=acme"}, "matcher", "'daily' is no matcher"),
        ({"author": "  "}, "author", "is needed: who reads it later wants to know"),
        ({"comment": ""}, "comment", "is needed"),
        ({"comment": "x" * 1_001}, "comment", "is longer than 1,000 characters"),
        ({"lasts": "until"}, "ends_at", "'' is no time: write it in UTC as 2026-11-21 18:00"),
        ({"lasts": "until", "ends_at": "2026-11-20T10:00"}, "ends_at", "is over; give a time to"),
        ({"lasts": "always", "ends_at": "soon"}, "ends_at", "'soon' is no time"),
    ],
)
async def test_a_wrong_entry_is_shown_beside_its_field(
    site: Site, browser: Browser, changed: dict[str, str], field: str, problem: str
) -> None:
    """The form keeps what was typed, names the problem at the field, and puts the focus there."""
    fields = await filled(browser, **changed)
    sent = await browser.send(PATH, fields)
    beside = re.search(rf'id="{field}-problem">([^<]*)<', sent.text)
    tag = re.search(rf'<(?:input|textarea|select) id="{field}"[^>]*>', sent.text)

    assert (sent.status, site.alerting.snapshot.silences) == (400, ())
    assert beside is not None
    assert problem in beside[1]
    assert tag is not None
    assert {"autofocus", 'aria-invalid="true"', f'aria-describedby="{field}-problem"'} <= set(
        re.split(r"[ >]", tag[0])
    )
    kept = {**FILLED, **changed}["comment" if field != "comment" else "author"]
    assert f'value="{kept}"' in sent.text


async def test_several_problems_are_shown_at_once(site: Site, browser: Browser) -> None:
    """Each beside its own field."""
    empty = dict.fromkeys(FILLED, "")
    sent = await browser.send(PATH, await filled(browser, **empty))

    assert set(re.findall(r'id="(\w+)-problem"', sent.text)) == {
        "matcher",
        "ends_at",
        "author",
        "comment",
    }
    assert site.alerting.snapshot.silences == ()


@pytest.mark.parametrize(
    ("body", "content_type", "status"),
    [
        ("matcher=a", "text/plain", 415),
        ('{"matcher": "a"}', "application/json", 415),
        ("matcher=a&matcher=b", "application/x-www-form-urlencoded", 400),
        ("matcher=a&more=b", "application/x-www-form-urlencoded", 400),
        ("matcher=%ff%fe", "application/x-www-form-urlencoded", 400),
        ("&".join(f"f{number}=1" for number in range(100)), "application/x-www-form-urlencoded",
         400),
        ("matcher=" + "x" * 40_000, "application/x-www-form-urlencoded", 413),
        ("matcher=" + "x" * 90_000, "application/x-www-form-urlencoded", 413),
    ],
)  # fmt: skip
async def test_a_body_that_no_form_sends_is_refused(
    site: Site, browser: Browser, body: str, content_type: str, status: int
) -> None:
    """Another type, too much of it, unknown or repeated fields: a problem, and no change."""
    await browser.token(PATH)
    sent = await browser.session.post(
        site.url + PATH, data=body.encode(), headers={"Content-Type": content_type}
    )
    async with sent:
        assert sent.status == status
    assert site.alerting.snapshot.silences == ()


async def test_a_silence_is_ended_by_its_form(site: Site, browser: Browser) -> None:
    """Ending it twice, as by a double click, is no error; one of the file ends there."""
    site.alerting.show(
        silences=(site.alerting.silence(), site.alerting.silence("config-1", origin="config"))
    )
    path = "/silences/5d3c/expire"
    token = {"token": await browser.token(path)}
    assert (await browser.send(path, {})).status == 403
    assert len(site.alerting.snapshot.silences) == 2

    assert (await browser.send(path, token)).leads_to == "/silences#silence-5d3c"
    assert [silence.id for silence in site.alerting.snapshot.silences] == ["config-1"]
    configured = await browser.get("/silences/config-1/expire")
    assert configured.status == 409
    assert "part of the configuration; remove it there" in configured.text
    assert (await browser.get("/silences/none/expire")).status == 404


async def test_an_alert_is_acknowledged_by_its_form(browser: Browser) -> None:
    """Who knows of it stands at the alert from then on, and on its page."""
    path = "/alerts/9f86d081884c7d65/acknowledge"
    fields = {"author": "anna", "comment": "on it", "starts_at": await browser.start_shown(path)}
    sent = await browser.send(path, {**fields, "token": await browser.token(path)})

    assert (sent.status, sent.leads_to) == (303, "/alerts/9f86d081884c7d65")
    page = await browser.get("/alerts")
    assert re.search(r"acknowledged</span> by <bdi>anna</bdi> .*: <bdi>on it</bdi>", page.text)
    assert 'href="/alerts/9f86d081884c7d65/acknowledge"' not in page.text
    overview = await browser.get("/")
    assert "acknowledged</span> by <bdi>anna</bdi>" in overview.text
    assert 'href="/alerts/9f86d081884c7d65/acknowledge"' not in overview.text


async def test_an_alert_that_restarted_is_not_acknowledged(site: Site, browser: Browser) -> None:
    """The form was made for another instance: it says so, with a way back."""
    path = "/alerts/9f86d081884c7d65/acknowledge"
    fields = {"author": "anna", "comment": "", "token": await browser.token(path)}
    sent = await browser.send(path, {**fields, "starts_at": "2026-11-20T10:00:00Z"})
    assert sent.status == 409
    assert "has ended, or fired again" in sent.text
    assert '<a href="/">' in sent.text

    ended = site.alerting.alert(state=AlertState.RESOLVED, ends_at=site.clock.now())
    site.alerting.show(ended)
    assert (await browser.get(path)).status == 409
    assert (await browser.get("/alerts/unknown/acknowledge")).status == 404


async def test_an_acknowledgement_needs_a_name(site: Site, browser: Browser) -> None:
    """A comment is not needed; what was typed stays."""
    path = "/alerts/9f86d081884c7d65/acknowledge"
    fields = {"comment": "on it", "starts_at": await browser.start_shown(path)}
    sent = await browser.send(path, {**fields, "author": "", "token": await browser.token(path)})

    assert sent.status == 400
    assert 'id="author-problem"' in sent.text
    assert 'value="on it"' in sent.text
    assert site.alerting.snapshot.alerts[0].acknowledged is None
