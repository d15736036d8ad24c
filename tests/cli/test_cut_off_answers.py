"""Answers that end before their end, and servers that are no daemon in the middle of one."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path

import pytest
from aiohttp import web

from monitor.cli.admin import AdminClient
from monitor.cli.daemon_address import DaemonAddress
from monitor.model.errors import DaemonUnreachableError
from tests.cli.canned_server import other_server
from tests.cli.command_process import CommandProcess

_STREAM = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n"
_JSON = b"HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Type: application/json\r\n"
_COMMENT = b": nothing new\n\n"
_TIMEOUT_SECONDS = 1.5

Talk = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]


@contextlib.asynccontextmanager
async def raw_server(talk: Talk) -> AsyncIterator[str]:
    """Yield the URL of a server that answers one request byte by byte as told, then hangs up."""
    ended: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        await talk(reader, writer)
        writer.close()
        with contextlib.suppress(ConnectionError):
            await writer.wait_closed()
        ended.set_result(None)

    async with await asyncio.start_server(serve, "127.0.0.1", 0) as server:
        yield f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
        await asyncio.wait_for(ended, 20)


def saying(answer: bytes) -> Talk:
    """Return what sends these bytes, and no more."""

    async def talk(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(answer)
        await writer.drain()

    return talk


def chunk(content: bytes) -> bytes:
    return b"%x\r\n%s\r\n" % (len(content), content)


def client_of(url: str) -> AdminClient:
    return AdminClient(DaemonAddress(url=url, authorization=None, named_by="--url"))


@pytest.mark.parametrize(
    ("body", "words"),
    [
        (chunk(_COMMENT), "ended the stream"),
        (chunk(_COMMENT) + b"0\r\n\r\n", "ended the stream"),
        (chunk(_COMMENT) + chunk(b'data: {"specver'), "ended the stream"),
        (b"5\r\nda", "was cut off"),
    ],
    ids=["between two messages", "by its last chunk", "within a message", "within a chunk"],
)
async def test_a_stream_that_ends_is_an_error(
    body: bytes, words: str, run_command: CommandProcess
) -> None:
    """A client that follows events learns that none come any more, wherever the daemon died."""
    answer = _STREAM + b"Transfer-Encoding: chunked\r\n\r\n" + body
    async with raw_server(saying(answer)) as url:
        done = await run_command("events", "--follow", "--url", url, config=None)
    assert (done.code, done.out) == (1, "")
    assert f"{url} {words}: was the daemon stopped?" in done.err


@pytest.mark.parametrize(
    ("media_type", "body"),
    [("text/html", "<h1>hello</h1>\n"), ("text/event-stream", "data: hello\n\n")],
)
async def test_a_stream_of_another_server_is_recognized(
    media_type: str, body: str, run_command: CommandProcess
) -> None:
    """A page, or events that are no JSON, are one line that doubts the URL."""

    async def stranger(_: web.Request) -> web.Response:
        return web.Response(text=body, content_type=media_type)

    async with other_server(stranger) as url:
        done = await run_command("events", "--follow", "--url", url, config=None)
    assert (done.code, done.out, len(done.err.splitlines())) == (1, "", 1)
    assert f"answers 200 with {media_type}, which no dataprep-monitor does" in done.err


@pytest.mark.parametrize(
    "answer",
    [
        b'Content-Length: 100\r\n\r\n{"data": []}',
        b"Transfer-Encoding: chunked\r\n\r\n" + chunk(b'{"data": []}'),
    ],
    ids=["by length", "by chunks"],
)
async def test_half_an_answer_is_called_so(answer: bytes, run_command: CommandProcess) -> None:
    """An answer that was cut off is not read as if it were whole."""
    async with raw_server(saying(_JSON + answer)) as url:
        done = await run_command("workspaces", "--url", url, config=None)
    assert (done.code, done.out, len(done.err.splitlines())) == (1, "", 1)
    assert f"the answer of {url} was cut off" in done.err


async def test_a_whole_answer_needs_no_hang_up() -> None:
    """A server that keeps the connection open all the same is not waited for."""

    async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await saying(_JSON + b'Content-Length: 12\r\n\r\n{"data": []}')(reader, writer)
        await reader.read()

    async with raw_server(talk) as url:
        assert await asyncio.to_thread(client_of(url).get, "/api/v1/workspaces") == {"data": []}


async def test_one_time_limit_is_that_of_the_whole_answer() -> None:
    """A server that sends the beginning late does not get the limit once more for the rest."""
    hung_up_after: list[float] = []

    async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readexactly(2)  # the body
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(reader.read(), 0.8 * _TIMEOUT_SECONDS)
        writer.write(_JSON + b"Content-Length: 100\r\n\r\n{")
        began = time.monotonic()
        with contextlib.suppress(ConnectionError):
            await reader.read()
        hung_up_after.append(time.monotonic() - began)

    async with raw_server(talk) as url:
        post = client_of(url).post
        with pytest.raises(DaemonUnreachableError, match="TimeoutError"):
            await asyncio.to_thread(post, "/a", {}, timeout_seconds=_TIMEOUT_SECONDS)
    assert hung_up_after[0] < 0.7 * _TIMEOUT_SECONDS


def test_an_address_of_version_6_needs_no_port() -> None:
    """The end of the address is not taken for a port, and the rest for a name."""
    with pytest.raises(DaemonUnreachableError) as raised:
        client_of("http://[::1]").get("/api/v1/workspaces")
    assert "gaierror" not in str(raised.value)


async def test_a_token_of_any_letters_is_sent(tmp_path: Path, run_command: CommandProcess) -> None:
    """It goes as UTF-8, as the daemon reads it."""
    received: list[str | None] = []

    async def greedy(request: web.Request) -> web.Response:
        received.append(request.headers.get("Authorization"))
        return web.json_response({"data": []})

    (tmp_path / "token").write_text("schlüssel-ключ-0123456789", encoding="utf-8")
    async with other_server(greedy) as url:
        words = ("--url", url, "--token-file", str(tmp_path / "token"))
        done = await run_command("workspaces", *words, config=None)
    assert (done.code, received) == (0, ["Bearer schlüssel-ключ-0123456789"])
