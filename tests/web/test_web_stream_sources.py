"""The live streams of many clients."""

from __future__ import annotations

import contextlib

import aiohttp

from tests.web.site import Site

OF_A_SOURCE = 32


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
