"""Tokens that come while a daemon runs reach no log line, page, metric or event.

The peer speaks no HTTP where that hurts: what it was sent, or is about to give, stands in the error
texts of the libraries.
"""

from __future__ import annotations

import asyncio
import contextlib
import io
import json
import logging
import re
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from prometheus_client import CollectorRegistry

from monitor import logs
from monitor.app.daemon import Addresses, Daemon
from monitor.config import Configuration, WorkspaceConfiguration
from monitor.model.clock import SystemClock
from monitor.model.secrets import Secret
from monitor.workspace.settings import OauthSettings, WorkspaceSettings
from tests.app import fixture
from tests.app.daemon_http import Face
from tests.app.eventually import eventually
from tests.app.oauth_scenario import TokenFile

PAGES = ("/", "/metrics", "/workspaces", "/workspaces/acme", "/alerts", "/monitor",
         "/api/v1/workspaces/acme", "/api/v1/events", "/api/v1/alerts")  # fmt: skip
_LIFE_SECONDS = 6
_SENT = re.compile(rb"Authorization: Bearer (\S+)")


class Echo:
    """Token endpoint and workspace in one: refreshes well, and answers all else with the token.

    While ``spoils``, it gives the next pair in a body that is no HTTP.
    """

    def __init__(self) -> None:
        self.given: list[str] = []
        self.spoils = False

    async def answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(ConnectionError, asyncio.IncompleteReadError):
            head = await reader.readuntil(b"\r\n\r\n")
            if head.startswith(b"POST /as/token"):
                writer.write(self._pair())
            else:
                token = _SENT.search(head)
                writer.write((token[1] if token else b"nothing") + b" is no HTTP\r\n\r\n")
            await writer.drain()
        writer.close()

    def _pair(self) -> bytes:
        number = len(self.given) // 2
        tokens = {kind: f"{kind}-{number:04}-{number:032x}" for kind in ("access", "refresh")}
        self.given += tokens.values()
        body = json.dumps(
            {
                "access_token": tokens["access"],
                "refresh_token": tokens["refresh"],
                "expires_in": _LIFE_SECONDS,
            }
        ).encode()
        if self.spoils:
            return b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n" + body + b"\r\n"
        head = f"HTTP/1.1 200 OK\r\nContent-Length: {len(body)}\r\nConnection: close\r\n\r\n"
        return head.encode() + body


@pytest.fixture(name="echo")
async def _echo() -> AsyncIterator[tuple[Echo, str]]:
    echo = Echo()
    server = await asyncio.start_server(echo.answer, "127.0.0.1", 0)
    async with server:
        yield echo, f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"


def settings(folder: Path, url: str, file: TokenFile) -> Configuration:
    oauth = OauthSettings(
        token_url=f"{url}/as/token", client_id="monitor", refresh_token=file.secret()
    )
    workspace = WorkspaceSettings(
        name="acme", url=url, oauth=oauth, requests_per_minute=60_000, retries=0
    )
    return fixture.configuration(
        folder, WorkspaceConfiguration(workspace=workspace, poll=fixture.POLL)
    )


async def test_new_tokens_are_masked_wherever_they_stand(
    tmp_path: Path, echo: tuple[Echo, str]
) -> None:
    """Given, spoilt, read from the store, quoted by a library: no output shows one."""
    peer, url = echo
    stream, file = io.StringIO(), TokenFile("configured-0000-0000000000000000")
    redactor = logs.configure(
        level="debug", form="json", stream=stream, secrets=[Secret(file.text)]
    )
    shown: list[str] = []
    library = logging.getLogger("a.library")

    async def live(lives: int) -> None:
        daemon = Daemon(
            settings(tmp_path, url, file),
            clock=SystemClock(),
            registry=CollectorRegistry(),
            register=redactor.register,
        )
        stop, ports = asyncio.Event(), asyncio.get_running_loop().create_future()
        task = asyncio.create_task(daemon.run(stop, on_started=ports.set_result))
        addresses: Addresses = await ports
        face = Face(addresses.server_port)
        before = len(peer.given)
        await eventually(
            lambda: len(peer.given) >= before + 2 * lives,
            why=lambda: (peer.given, stream.getvalue()[-2_000:]),
        )

        async def quotes() -> bool:
            return "is no HTTP" in await face.text("/workspaces/acme")

        await eventually(quotes, why="the page does not show the library's error")
        shown.extend([await face.text(page) for page in PAGES])
        known = [file.text] if peer.spoils else [file.text, *peer.given[-4:]]
        for token in known:
            library.error("cannot use %r", f"x{token}x")
        stop.set()
        await task

    try:
        await live(2)
        await live(1)  # on what is stored
        peer.spoils = True
        await live(1)
    finally:
        logs.configure(level="warning")
    text = "\n".join([*shown, stream.getvalue()])
    assert len(peer.given) >= 8
    assert not [token for token in (*peer.given, file.text) if token in text]
    assert "cannot use" in text
