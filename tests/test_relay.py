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
