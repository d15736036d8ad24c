"""Acknowledgements that end: by the JSON API and by the form, and the ends that forms offer."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from monitor.model.alerts import Acknowledgement
from monitor.web.forms.durations import as_typed, end_of
from tests.web.form_client import Browser
from tests.web.site import Answer, Site

RUN_FAILED = "9f86d081884c7d65"
FORM = f"/alerts/{RUN_FAILED}/acknowledge"
NIGHT = datetime(2026, 11, 28, 1, 30, tzinfo=UTC)


@pytest.fixture
async def browser(site: Site) -> AsyncIterator[Browser]:
    site.alerting.show(site.alerting.alert())
    browser = Browser(site)
    yield browser
    await browser.close()


def known(site: Site) -> Acknowledgement | None:
    return site.alerting.snapshot.alerts[0].acknowledged


async def posted(site: Site, **more: Any) -> Answer:
    alert = site.alerting.alert()
    site.alerting.show(alert)
    body = {"fingerprint": alert.fingerprint, "starts_at": alert.starts_at.isoformat()}
    return await site.post("/api/v1/acknowledgements", json={**body, "author": "anna", **more})


async def test_an_acknowledgement_may_end_by_itself(site: Site) -> None:
    """By its length or its end; the JSON of the alert says until when, and null for no end."""
    for more, until in (
        ({"for_seconds": 14_400.0}, site.clock.now() + timedelta(hours=4)),
        ({"ends_at": "2030-01-01T00:00:00+01:00"}, datetime(2029, 12, 31, 23, tzinfo=UTC)),
        ({}, None),
    ):
        assert (await posted(site, **more)).status == 201
        by = known(site)
        assert by is not None
        assert by.until == until
    shown = (await site.get(f"/api/v1/alerts/{RUN_FAILED}")).document["alert"]["acknowledged"]
    assert (shown["author"], shown["until"]) == ("anna", None)


@pytest.mark.parametrize(
    ("more", "detail"),
    [
        ({"for_seconds": 0}, "for_seconds: is not above 0 and at most ten years"),
        ({"for_seconds": 60, "ends_at": "2099-01-01T00:00:00Z"}, "ends_at is given too"),
        ({"ends_at": "2020-01-01T00:00:00Z"}, "ends_at: is over; give a time to come"),
        ({"ends_at": "9999-12-31T23:59:59Z"}, "ends_at: is more than ten years ahead"),
        ({"ends_at": "soon"}, "ends_at: 'soon' is no time"),
        ({"ends_at": "2099-01-01T00:00:00"}, "has no time zone"),
    ],
)
async def test_an_end_that_cannot_be_is_refused(
    site: Site, more: dict[str, Any], detail: str
) -> None:
    """One sentence names the key, and the alert stays as it was."""
    answer = await posted(site, **more)
    assert (answer.status, known(site)) == (400, None)
    assert detail in answer.document["detail"]


@pytest.mark.parametrize(
    ("chosen", "lasts"),
    [
        ({"lasts": ""}, None),
        ({"lasts": "4h"}, timedelta(hours=4)),
        ({"lasts": "until", "ends_at": "2030-01-01T07:00"}, datetime(2030, 1, 1, 7, tzinfo=UTC)),
    ],
)
async def test_the_form_takes_an_end(
    site: Site, browser: Browser, chosen: dict[str, str], lasts: timedelta | datetime | None
) -> None:
    """As long as it fires, for some time, or until a time; its page says until when."""
    fields = {"author": "anna", "starts_at": await browser.start_shown(FORM), **chosen}
    now = site.clock.now()
    sent = await browser.send(FORM, {**fields, "token": await browser.token(FORM)})
    by = known(site)
    assert (sent.status, by is not None) == (303, True)
    assert by is not None
    assert by.until == (now + lasts if isinstance(lasts, timedelta) else lasts)
    page = (await browser.get(f"/alerts/{RUN_FAILED}")).text
    assert ("anna</bdi> <time" in page, " until <time" in page) == (True, lasts is not None)
    # What ends may be prolonged.
    assert (f'href="{FORM}"' in page) == (lasts is not None)


async def test_the_form_refuses_an_end_that_is_over(site: Site, browser: Browser) -> None:
    """The problem stands at the field, and what was typed stays."""
    fields = {"author": "anna", "starts_at": await browser.start_shown(FORM)}
    over = {"lasts": "until", "ends_at": "2020-01-01T07:00", "token": await browser.token(FORM)}
    sent = await browser.send(FORM, {**fields, **over})
    assert (sent.status, known(site)) == (400, None)
    assert 'id="ends_at-problem">is over; give a time to come<' in sent.text
    assert 'value="2020-01-01T07:00"' in sent.text


async def test_a_link_fills_the_forms_and_changes_nothing(site: Site, browser: Browser) -> None:
    """What a mail's link names is chosen; a browser takes the time in its one notation only."""
    before = site.alerting.snapshot
    query = "matcher=workspace%3Dacme&lasts=until&ends_at=2026-11-29+07%3A00&author=anna&comment=x"
    silence = (await browser.get(f"/silences/new?{query}")).text
    known = (await browser.get(f"{FORM}?lasts=4h&author=anna&comment=x")).text
    assert re.search(r'id="ends_at"[^>]* value="2026-11-29T07:00"', silence)
    assert '<option value="until" selected>' in silence
    assert '<option value="4h" selected>' in known
    for text in (silence, known):
        assert re.search(r'id="author"[^>]* value="anna" autocomplete="name"', text)
        assert re.search(r'id="comment"[^>]* value="x"', text)
    assert site.alerting.snapshot == before


async def test_a_user_acknowledges_in_his_own_name(site: Site, browser: Browser) -> None:
    """The form of an alert that is acknowledged keeps what was said, and asks who says it now."""
    by = Acknowledgement(author="anna", comment="on it", at=site.clock.now())
    site.alerting.show(site.alerting.alert(acknowledged=by))
    text = (await browser.get(FORM)).text
    assert re.search(r'id="author"[^>]* value=""', text)
    assert re.search(r'id="comment"[^>]* value="on it"', text)


def test_tomorrow_is_where_the_browser_is() -> None:
    """Its morning counts; where no script names one, or a wrong one, it is that of UTC."""
    chosen = {"lasts": "tomorrow"}
    usual = datetime(2026, 11, 29, 8, tzinfo=UTC)
    assert end_of(chosen, NIGHT) == usual
    for morning in ("", "soon", "2026-11-27T08:00:00Z", "2026-12-24T08:00:00Z"):
        assert end_of({**chosen, "morning": morning}, NIGHT) == usual
    there = "2026-11-29T07:00:00.000Z"
    assert end_of({**chosen, "morning": there}, NIGHT) == datetime(2026, 11, 29, 7, tzinfo=UTC)


@pytest.mark.parametrize(
    ("text", "typed"),
    [
        ("2026-11-29 07:00", "2026-11-29T07:00"),
        ("2026-11-29T07:00:00Z", "2026-11-29T07:00"),
        ("2026-11-29T08:00+01:00", "2026-11-29T07:00"),
        ("soon", "soon"),
        ("", ""),
    ],
)
def test_a_time_is_written_as_its_field_takes_it(text: str, typed: str) -> None:
    """In UTC, whatever zone it names; what is none stays, and is refused when it is sent."""
    assert as_typed(text) == typed
