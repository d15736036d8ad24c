"""Streams end with the right to read them, whichever way that goes."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from datetime import timedelta

import aiohttp
import msgspec
import pytest

from monitor.web.principals import Role
from monitor.web.settings import AccessEntry
from tests.web.form_client import Browser
from tests.web.people import PEOPLE, entry, headers_of, log_in, token_of
from tests.web.site import Site

pytestmark = pytest.mark.parametrize("settings", [PEOPLE], ids=["people"])
STREAMS = pytest.mark.parametrize("path", ["/api/v1/events/stream", "/live"])
_NAME = "read-user"
_KEEPALIVE_SECONDS = 15
_LIMIT_SECONDS = 9.0  # of a machine that does something else


def _reload(site: Site, found: AccessEntry) -> None:
    site.server.reconfigure(msgspec.structs.replace(PEOPLE, access=(found,)))


def _changed(**changes: object) -> Callable[[Site], None]:
    (own,) = (each for each in PEOPLE.access if each.name == _NAME)
    return lambda site: _reload(site, msgspec.structs.replace(own, **changes))


def _expire(site: Site) -> None:
    _changed(expires_at=site.clock.now() + timedelta(hours=1))(site)
    site.clock.set_wall(site.clock.now() + timedelta(hours=2))


_WITHDRAWN: dict[str, Callable[[Site], None]] = {
    "another person": lambda site: _reload(site, entry("another", Role.ADMIN)),
    "another token": _changed(token_hash=entry("another", Role.READ).token_hash),
    "less of a role": _changed(role=Role.METRICS),
    "fewer workspaces": _changed(workspaces=("other",)),
    "expired": _expire,
}


async def _pass_time(site: Site) -> None:
    """Let each stream have something to write, now."""
    await site.clock.advance(_KEEPALIVE_SECONDS + 1)
    site.server.sites.whole.live.touch()
    await site.observe(site.run("77"))


async def _ends(stream: aiohttp.ClientResponse) -> bool:
    """Return whether a stream ends; False where it goes on without end."""
    try:
        async with asyncio.timeout(_LIMIT_SECONDS):
            return b"77" not in await stream.read()
    except TimeoutError:
        return False


@STREAMS
@pytest.mark.parametrize("withdraw", _WITHDRAWN.values(), ids=_WITHDRAWN)
@pytest.mark.parametrize("way", ["bearer", "session"])
async def test_a_stream_ends_with_the_right_to_read_it(
    site: Site, path: str, way: str, withdraw: Callable[[Site], None]
) -> None:
    """What happens after a reload, or after the end of an entry, is not sent any more."""
    headers = await headers_of(site, _NAME, way)
    async with site.session.get(site.url + path, headers=headers) as stream:
        withdraw(site)
        await _pass_time(site)
        assert await _ends(stream)


@STREAMS
async def test_logging_out_ends_the_streams_of_the_session(site: Site, path: str) -> None:
    """Also where another window, or a thief of the cookie, reads them."""
    browser = Browser(site)
    await log_in(browser, token_of(_NAME))
    async with browser.session.get(site.url + path) as stream:
        token = await browser.token("/account")
        await browser.send("/logout", {"token": token})
        await _pass_time(site)
        assert await _ends(stream)
    await browser.close()


@STREAMS
async def test_a_stream_goes_on_after_a_reload_that_changes_nothing_for_it(
    site: Site, path: str
) -> None:
    """Other people may come and go."""
    headers = await headers_of(site, _NAME, "bearer")
    async with site.session.get(site.url + path, headers=headers) as stream:
        site.server.reconfigure(msgspec.structs.replace(PEOPLE, access=PEOPLE.access[1:]))
        await _pass_time(site)
        async with asyncio.timeout(_LIMIT_SECONDS):
            assert b"data: " in await stream.content.readuntil(b"\n\n")
        assert not stream.content.at_eof()
