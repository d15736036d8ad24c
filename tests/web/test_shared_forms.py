"""Forms over a store that several daemons share, and over restarts."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from monitor.model.errors import BusUnavailableError
from monitor.web.settings import ServerSettings
from tests.web.form_client import Browser
from tests.web.people import PEOPLE, token_of
from tests.web.serving import serving
from tests.web.site import Site
from tests.web.test_web_forms import FILLED, PATH

PERSON = {"username": "", "secret": token_of("operate-user"), "next": "/"}
pytestmark = pytest.mark.parametrize("settings", [PEOPLE], ids=["people"])


@pytest.fixture
async def other(site: Site, tmp_path: Path, settings: ServerSettings) -> AsyncIterator[Site]:
    """Another daemon over the store of ``site``."""
    async with serving(tmp_path, settings, store=site.bus) as made:
        yield made


async def test_every_form_may_be_sent_to_another_daemon(
    site: Site, other: Site, browser: Browser
) -> None:
    """A balancer that changes daemons between form and button costs no second attempt."""
    token = await browser.token("/login")
    browser.turn_to(other)
    entered = await browser.send("/login", {**PERSON, "token": token})
    token = await browser.token(PATH)
    browser.turn_to(site)
    silenced = await browser.send(PATH, {**FILLED, "token": token})
    token = await browser.token("/account")
    browser.turn_to(other)
    left = await browser.send("/logout", {"token": token})

    assert (entered.status, entered.leads_to) == (303, "/")
    assert (silenced.status, len(site.alerting.snapshot.silences)) == (303, 1)
    assert (left.status, left.leads_to) == (303, "/login")


async def test_a_form_may_be_sent_after_a_restart(tmp_path: Path, settings: ServerSettings) -> None:
    """The key that signed it is in the store, as the session is."""
    async with serving(tmp_path, settings) as before:
        browser = Browser(before)
        token = await browser.token("/login")
    async with serving(tmp_path, settings) as after:
        browser.turn_to(after)
        assert (await browser.send("/login", {**PERSON, "token": token})).status == 303
    await browser.close()


async def test_a_token_of_another_store_is_refused(
    tmp_path: Path, settings: ServerSettings
) -> None:
    """Its daemons know only the keys of their own."""
    (tmp_path / "one").mkdir()
    (tmp_path / "two").mkdir()
    async with (
        serving(tmp_path / "one", settings) as one,
        serving(tmp_path / "two", settings) as two,
    ):
        browser = Browser(one)
        token = await browser.token("/login")
        browser.turn_to(two)
        reply = await browser.send("/login", {**PERSON, "token": token})
        await browser.close()
    assert reply.status == 403
    assert "too old" in reply.text


async def test_a_token_of_before_a_new_key_is_good_for_its_time(
    site: Site, browser: Browser
) -> None:
    """Keys change twice a day, and former ones are removed once no token of theirs is good."""
    await browser.token("/login")
    await site.clock.advance(12 * 3_600 - 1)
    late = await browser.token("/login")
    await site.clock.advance(11 * 3_600)
    await browser.get("/login")
    both = await site.bus.entries.newest("form", limit=9)
    entered = await browser.send("/login", {**PERSON, "token": late})
    await site.clock.advance(4 * 86_400)
    await browser.get("/login")
    kept = await site.bus.entries.newest("form", limit=9)

    assert (len(both), entered.status) == (2, 303)
    assert len(kept) == 1
    assert kept[0] not in both


async def test_a_changed_token_is_refused(browser: Browser) -> None:
    """A later time, and the name of another key, do not fit the signature."""
    token = await browser.token("/login")
    issued, key, number, signature = re.fullmatch(r"(.+)-(.+)-(.+)-(.+)", token).groups()  # type: ignore[union-attr]
    for changed in (
        f"{int(issued) + 1}-{key}-{number}-{signature}",
        f"{issued}-{key[:-1]}x-{number}-{signature}",
        f"{issued}-0000000000.0000000000000000-{number}-{signature}",
        f"{issued}-{key}-{'0' * 16}-{signature}",
    ):
        reply = await browser.send("/login", {**PERSON, "token": changed})
        assert reply.status == 403


async def test_without_its_store_no_form_is_shown(
    site: Site, browser: Browser, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It could not be sent; the answer says so, and the form comes once the store is there."""

    async def refuse(*_: Any, **__: Any) -> None:
        raise BusUnavailableError("the disk is full")

    with monkeypatch.context() as patched:
        patched.setattr(site.bus.entries, "put", refuse)
        away = await browser.get("/login")
    assert away.status == 503
    assert (await browser.get("/login")).status == 200
