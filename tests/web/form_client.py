"""A browser's way through a form: it keeps the cookie, and sends the token of the button."""

from __future__ import annotations

import html
import re

import aiohttp

from tests.web.served_cluster import ServedCluster
from tests.web.site import Site

TOKEN_OF_FORM = re.compile(r'name="token" value="([^"]+)"')
_START = re.compile(r'name="starts_at" value="([^"]+)"')


class Reply:
    """What a form answers: status, page, and where it leads."""

    def __init__(self, response: aiohttp.ClientResponse, text: str) -> None:
        self.status = response.status
        self.text = html.unescape(text)
        self.raw = text
        self.headers = response.headers
        self.leads_to = response.headers.get("Location", "")

    def token(self) -> str:
        """Return the token of its button."""
        found = TOKEN_OF_FORM.search(self.raw)
        assert found is not None
        return found[1]


class Browser:
    """One browser with its own cookies; it follows no redirect by itself."""

    def __init__(self, site: Site | ServedCluster) -> None:
        self._site = site
        # An address has no name: aiohttp keeps its cookies only if told so.
        jar = aiohttp.CookieJar(unsafe=True)
        self.session = aiohttp.ClientSession(cookie_jar=jar)

    async def get(self, path: str, **more: str) -> Reply:
        """Open a page; ``more`` are headers, with ``_`` for ``-``."""
        headers = {name.replace("_", "-"): value for name, value in more.items()}
        async with self.session.get(self._site.url + path, headers=headers) as response:
            return Reply(response, await response.text())

    async def get_without_following(self, path: str, **more: str) -> Reply:
        """Return the answer itself, where it leads elsewhere too; ``more`` as in `get`."""
        headers = {name.replace("_", "-"): value for name, value in more.items()}
        async with self.session.get(
            self._site.url + path, headers=headers, allow_redirects=False
        ) as response:
            return Reply(response, await response.text())

    async def token(self, path: str) -> str:
        """Open a form and return the token of its button."""
        return (await self.get(path)).token()

    async def start_shown(self, path: str) -> str:
        """Return the start of the alert that a form is about."""
        found = _START.search((await self.get(path)).text)
        assert found is not None
        return found[1]

    async def send(self, path: str, fields: dict[str, str], **more: str) -> Reply:
        """Send a form; ``more`` are headers, with ``_`` for ``-``."""
        headers = {name.replace("_", "-"): value for name, value in more.items()}
        async with self.session.post(
            self._site.url + path, data=fields, headers=headers, allow_redirects=False
        ) as response:
            return Reply(response, await response.text())

    def turn_to(self, site: Site) -> None:
        """Send what follows to another daemon of the same name, as a balancer does."""
        self._site = site

    async def close(self) -> None:
        await self.session.close()
