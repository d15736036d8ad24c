"""Clients that send slowly: they wait at the proxy, and hold nothing of the daemon."""

from __future__ import annotations

import asyncio
from http import HTTPStatus

import pytest

from tests.deploy.proxies import NAME, READ_SECONDS, SECRET, Fronted
from tests.web.people import bearer, token_of

_SLOW = 40
_TRICKLED = 8  # bytes, each after a pause
_PAUSE_SECONDS = 0.2  # less than a proxy waits
ADMIN = bearer(token_of("admin-user"))
_HEAD = f"Host: {NAME}\r\nAuthorization: {ADMIN['Authorization']}\r\nX-Monitor-Secret: {SECRET}\r\n"
# What arrives of a request before its sender becomes slow.
BEGUN = {
    "head": f"POST {{path}} HTTP/1.1\r\n{_HEAD}",
    "body": f"POST {{path}} HTTP/1.1\r\n{_HEAD}Content-Type: application/json\r\n"
    'Content-Length: 100\r\n\r\n{{"workspace":"acme"',
    "chunks": f"POST {{path}} HTTP/1.1\r\n{_HEAD}Content-Type: application/json\r\n"
    'Transfer-Encoding: chunked\r\n\r\n13\r\n{{"workspace":"acme"',
}
PATHS = ("/api/v1/track", "/hooks/acme")


async def trickled(
    reader: asyncio.StreamReader, writer: asyncio.StreamWriter, begun: bytes
) -> None:
    """Send a beginning, then a byte from time to time, then nothing; the proxy hangs up."""
    try:
        writer.write(begun)
        for _ in range(_TRICKLED):
            writer.write(b" ")
            try:
                async with asyncio.timeout(_PAUSE_SECONDS):
                    if not await reader.read(1):
                        return
            except TimeoutError:
                continue
        async with asyncio.timeout(READ_SECONDS):
            await reader.read()
    except ConnectionError:
        return  # it hung up on what was sent since
    finally:
        writer.transport.abort()


@pytest.mark.parametrize("part", BEGUN)
async def test_who_sends_slowly_waits_at_the_proxy(fronted: Fronted, proxy: str, part: str) -> None:
    """Forty unfinished requests are none of the daemon's, and others are answered meanwhile."""
    connections = [relay.connections for relay in (fronted.to_server, fronted.to_callbacks)]
    begun = [BEGUN[part].format(path=path).encode() for path in PATHS]
    slow = []
    async with asyncio.TaskGroup() as group, fronted.session() as session:
        for number in range(_SLOW):
            reader, writer = await fronted.connect()
            slow.append(group.create_task(trickled(reader, writer, begun[number % 2])))
        while not all(task.done() for task in slow):
            url = f"{fronted.url}/api/v1/workspaces"
            async with session.get(url, headers=ADMIN) as answer:
                assert answer.status == HTTPStatus.OK
            await asyncio.wait(slow, timeout=_PAUSE_SECONDS)

    # Once the time is over, Caddy passes on what it has of a body without a length.
    if (proxy, part) != ("caddy", "chunks"):
        assert fronted.to_server.connections <= connections[0] + 1  # that of the others
        assert fronted.to_callbacks.connections == connections[1]
    assert fronted.callbacks("accepted") == 0
    assert fronted.site.requested == []
