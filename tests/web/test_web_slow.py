"""Slow clients of the server."""

from __future__ import annotations

import asyncio

import pytest

from monitor.web.settings import ServerSettings
from tests.web.site import Site


@pytest.mark.parametrize(
    "settings", [ServerSettings(listen="127.0.0.1:0", body_timeout_seconds=0.2)]
)
async def test_a_body_that_does_not_arrive_is_not_waited_for(site: Site) -> None:
    """A client that stops in the middle of a body is answered 408, and nothing is done."""
    port = int(site.url.rpartition(":")[2])
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(
        b"POST /api/v1/track HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
        b'Content-Length: 99\r\n\r\n{"kind":'
    )
    async with asyncio.timeout(20):
        answer = await reader.read()
    writer.close()

    assert answer.startswith(b"HTTP/1.1 408 ")
    assert b"did not arrive in time" in answer
    assert site.requested == []
