"""The page and the live stream behind it."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import aiohttp
import pytest

from monitor.model.runs import Status
from tests.web.site import Site


async def test_nothing_foreign_and_nothing_inline_runs_on_the_page(site: Site) -> None:
    """The policy allows the page's own files alone, and the page needs no more."""
    site.alerting.show(site.alerting.alert())
    await site.observe(site.run("1"), site.run("2", Status.FAILED))
    answer = await site.get("/")
    policy = answer.headers["Content-Security-Policy"]
    assert "default-src 'none'; script-src 'self'; style-src 'self'" in policy
    assert "unsafe" not in policy
    assert "frame-ancestors 'none'" in policy
    for tag in re.findall(r"<(?:script|link|img|iframe)[^>]*>", answer.text):
        assert re.search(r'(?:src|href)="/', tag), tag
    assert not re.search(r"<script(?![^>]*src=)|\son\w+=|\sstyle=|<style", answer.text)
    for path in re.findall(r'(?:src|href)="(/static[^"]*)"', answer.text):
        assert (await site.get(path)).status == 200, path


class Stream:
    """One open stream of server-sent events."""

    def __init__(self, response: aiohttp.ClientResponse) -> None:
        self._response = response

    async def next(self) -> tuple[str, str, Any]:
        """Return id, type and data of the next event."""
        fields: dict[str, str] = {}
        async with asyncio.timeout(30):
            async for line in self._response.content:
                name, _, value = line.decode().rstrip("\n").partition(": ")
                if name == "" and "data" in fields:
                    return fields["id"], fields["event"], json.loads(fields["data"])
                fields[name] = value
        pytest.fail("the stream has ended")

    async def has_ended(self) -> bool:
        async with asyncio.timeout(30):
            return await self._response.content.read() == b""


@asynccontextmanager
async def stream(site: Site, query: str = "", **headers: str) -> AsyncIterator[Stream]:
    async with site.session.get(
        f"{site.url}/api/v1/events/stream{query}", headers=headers
    ) as response:
        assert response.status == 200
        assert response.content_type == "text/event-stream"
        yield Stream(response)


async def test_a_stream_sends_events_from_now_on(site: Site) -> None:
    """Without a position the past is left out; each event comes with its position and type."""
    await site.observe(site.run("1"))
    async with stream(site) as live:
        await site.observe(site.run("2"), site.run("3", Status.FAILED))
        position, kind, data = await live.next()
        assert (position, kind, data["data"]["run"]["id"]) == ("2", "run.started", "2")
        assert (await live.next())[1] == "run.failed"


async def test_a_stream_goes_on_where_it_was_cut(site: Site) -> None:
    """A browser that reconnects with the last id gets every event once."""
    await site.observe(*[site.run(str(number)) for number in range(1, 4)])
    async with stream(site, **{"Last-Event-ID": "1"}) as live:
        assert [(await live.next())[0] for _ in range(2)] == ["2", "3"]
    async with stream(site, "?after=2") as live:
        assert (await live.next())[0] == "3"


async def test_a_position_of_another_store_means_now(site: Site) -> None:
    """After the store was made again a browser holds a position that is far ahead."""
    await site.observe(site.run("1"))
    async with stream(site, **{"Last-Event-ID": "5000"}) as live:
        await site.observe(site.run("2"))
        assert (await live.next())[0] == "2"


@pytest.mark.parametrize("position", ["newest", "-1", "1.5", "9" * 19])
async def test_a_position_that_is_none_is_refused(site: Site, position: str) -> None:
    """A text that is no position is named in a problem, before any stream begins."""
    answer = await site.get("/api/v1/events/stream", headers={"Last-Event-ID": position})
    assert answer.status == 400
    assert answer.document["detail"].startswith(f"Last-Event-ID: {position!r} is not a number")


async def test_the_server_stops_although_a_client_listens(site: Site) -> None:
    """Streams are ended by the stop, which does not wait for their readers."""
    async with stream(site) as live:
        async with asyncio.timeout(3):
            await site.server.stop()
        assert await live.has_ended()
