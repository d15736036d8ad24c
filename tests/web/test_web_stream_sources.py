"""The live streams of many clients."""

from __future__ import annotations

import asyncio
import contextlib
from collections import Counter
from http import HTTPStatus
from urllib.parse import urlsplit

import aiohttp
import pytest

from tests.web.site import Site

OF_A_SOURCE = 32
KEEPALIVE_SECONDS = 15


async def test_no_source_has_every_stream(site: Site) -> None:
    """A source with 32 streams gets no further one, another source does."""
    url = f"{site.url}/api/v1/events/stream"
    async with contextlib.AsyncExitStack() as streams:
        statuses: list[int] = []
        for _ in range(OF_A_SOURCE + 1):
            answer = await streams.enter_async_context(site.session.get(url))
            statuses.append(answer.status)
        other = await streams.enter_async_context(site.from_address("127.0.0.2"))
        timeout = aiohttp.ClientTimeout(total=10)
        answer = await streams.enter_async_context(other.get(url, timeout=timeout))

    assert statuses == [200] * OF_A_SOURCE + [503]
    assert answer.status == 200


async def test_streams_that_begin_at_once_are_counted_too(site: Site) -> None:
    """A hundred at once, which all have to read the store first, get 32 slots."""
    url = f"{site.url}/api/v1/events/stream?since=2026-01-01T00:00:00Z"
    answers = await asyncio.gather(*(site.session.get(url) for _ in range(100)))
    statuses = Counter(answer.status for answer in answers)
    for answer in answers:
        answer.close()

    assert statuses == {200: OF_A_SOURCE, 503: 100 - OF_A_SOURCE}


async def test_a_stream_whose_filter_fits_nothing_shows_that_it_lives(site: Site) -> None:
    """Under traffic that it leaves out, a stream is kept alive by the time since its last write."""
    url = f"{site.url}/api/v1/events/stream?pipeline=nosuch"
    async with site.session.get(url) as stream:
        for number in range(2):
            await site.clock.advance(KEEPALIVE_SECONDS)
            await site.observe(site.run(str(number)))
            assert await stream.content.readuntil(b"\n\n") == b": still here\n\n"


async def test_gone_readers_free_their_streams_under_traffic(site: Site) -> None:
    """Closed streams whose filter fits nothing count no longer once their keepalive is due."""
    url = f"{site.url}/api/v1/events/stream?pipeline=nosuch"
    async with contextlib.AsyncExitStack() as streams:
        for _ in range(OF_A_SOURCE):
            stream = await streams.enter_async_context(site.session.get(url))
            streams.callback(stream.close)

    statuses = [await _status(site, url)]
    await site.clock.advance(KEEPALIVE_SECONDS)
    await site.observe(site.run())
    for _ in range(100):
        statuses.append(await _status(site, url))
        if statuses[-1] == HTTPStatus.OK:
            break

    assert statuses[0] == HTTPStatus.SERVICE_UNAVAILABLE
    assert statuses[-1] == HTTPStatus.OK


@pytest.mark.parametrize("path", ["/live", "/api/v1/events/stream"])
async def test_head_of_a_stream_has_no_body_and_takes_no_place(site: Site, path: str) -> None:
    """A connection on which HEAD was sent answers the next request at once, however often."""
    address = urlsplit(site.url)
    reader, writer = await asyncio.open_connection(address.hostname, address.port)
    async with asyncio.timeout(10):
        for _ in range(OF_A_SOURCE * 5):
            for request in (f"HEAD {path}", "GET /healthz"):
                writer.write(f"{request} HTTP/1.1\r\nHost: {address.netloc}\r\n\r\n".encode())
            head = await reader.readuntil(b"\r\n\r\n")
            assert head.startswith(b"HTTP/1.1 200 ")
            assert b"text/event-stream" in head
            health = await reader.readuntil(b"\r\n\r\n")
            assert health.startswith(b"HTTP/1.1 200 ")
            body = await reader.readuntil(b"}")
            assert b"alive" in body
    writer.close()
    assert await _status(site, site.url + path) == HTTPStatus.OK


async def _status(site: Site, url: str) -> int:
    async with site.session.get(url) as answer:
        return answer.status
