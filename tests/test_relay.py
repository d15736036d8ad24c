"""The relay that stands between clients and servers in tests."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import socket

import pytest

from tests.servers import Relay


@pytest.mark.parametrize("turns", range(5))
async def test_who_connects_as_a_relay_ends_is_not_left_open(turns: int) -> None:
    """However many turns of the loop lie between; a socket that is left would be a warning."""
    with socket.create_server(("127.0.0.1", 0)) as target:
        async with Relay(target.getsockname()[1]) as relay:
            client = socket.create_connection(("127.0.0.1", relay.port))
            for _ in range(turns):
                await asyncio.sleep(0)
        with client:
            client.settimeout(5)
            with contextlib.suppress(ConnectionResetError):
                assert client.recv(1) == b""
    gc.collect()


async def test_answers_are_late_from_when_they_shall_be() -> None:
    """Also on a connection that is open already, and in their order."""

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while word := await reader.read(1):
            writer.write(word)
        writer.close()

    server = await asyncio.start_server(answer, "127.0.0.1", 0)
    loop = asyncio.get_running_loop()
    async with server, Relay(server.sockets[0].getsockname()[1], late_seconds=0.0) as relay:
        reader, writer = await asyncio.open_connection("127.0.0.1", relay.port)
        writer.write(b"1")
        assert await reader.read(1) == b"1"
        relay.late_seconds = 0.05
        began = loop.time()
        for word in (b"2", b"3"):
            writer.write(word)
            await asyncio.sleep(0)
        assert await reader.readexactly(2) == b"23"
        assert loop.time() - began >= relay.late_seconds
        writer.close()
        await writer.wait_closed()
