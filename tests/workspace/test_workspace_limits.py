"""Time limits, size limits and broken connections: each is one clear error, and bounded."""

from __future__ import annotations

import asyncio
import gzip
import socket
from typing import Any

import pytest
from aiohttp import web

from monitor.model.errors import (
    ConfigurationError,
    TryLaterError,
    UnreadableAnswerError,
    WorkspaceUnreachableError,
)
from monitor.model.secrets import Secret
from monitor.workspace.client import Priority
from tests.workspace.scripted import TOKEN, answer, client_of, sending_bytes, serving

ROW = {"id": 7, "status": "Complete"}
GOOD = b'HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\n{"id": 10}'


async def never(_: web.Request) -> web.StreamResponse:
    """Do not answer at all."""
    await asyncio.Event().wait()
    raise AssertionError


async def stalling(request: web.Request) -> web.StreamResponse:
    """Begin an answer and fall silent."""
    response = web.StreamResponse(headers={"Content-Length": "100"})
    await response.prepare(request)
    await response.write(b'{"id":')
    return await never(request)


@pytest.mark.parametrize("handler", [never, stalling])
@pytest.mark.parametrize("limit", ["read_timeout_seconds", "total_timeout_seconds"])
async def test_silence_ends(handler: Any, limit: str) -> None:
    """Neither an answer that does not begin nor one that does not end holds a caller."""
    settings: dict[str, Any] = {"retries": 0, limit: 0.05}
    async with (
        serving(handler) as workspace,
        client_of(workspace.url, **settings) as client,
    ):
        with pytest.raises(WorkspaceUnreachableError) as caught:
            await client.runs.job_group("7", priority=Priority.RECONCILIATION)
    assert caught.value.operation_id == "getJobGroup"


async def test_a_slow_answer_is_requested_again() -> None:
    """A time limit counts as a network fault: the next try may be answered."""
    async with (
        serving(never, answer(ROW)) as workspace,
        client_of(workspace.url, read_timeout_seconds=0.05) as client,
    ):
        row = await client.runs.job_group("7", priority=Priority.RECONCILIATION)
    assert row.id == "7"


async def test_a_closed_port_is_unreachable() -> None:
    """A port without a listener is an error that may pass; even a creation is tried again there."""
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{one.getsockname()[1]}"
    async with client_of(url, retries=1) as client:
        with pytest.raises(TryLaterError) as caught:
            await client.requester.request("runFlow", 1, body={}, priority=Priority.RECONCILIATION)
    assert "no connection: connection refused: " in str(caught.value)


@pytest.mark.parametrize(
    "broken",
    [
        b"",
        b"HTTP/1.1 200 OK\r\nContent-Length: 50\r\n\r\n{",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nff\r\n{",
        b"HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\nContent-Length: 2\r\n\r\n{}",
        b"NONSENSE\r\n\r\n",
    ],
    ids=["hang-up", "short body", "short chunk", "not gzip", "not HTTP"],
)
async def test_a_broken_answer_is_requested_again(broken: bytes) -> None:
    """A connection that breaks before the whole answer came is a network fault."""
    async with sending_bytes(broken, GOOD) as url, client_of(url) as client:
        row = await client.runs.job_group("10", priority=Priority.RECONCILIATION)
    assert row.id == "10"


@pytest.mark.parametrize("broken", [b"", b"NONSENSE\r\n\r\n"])
async def test_a_broken_connection_does_not_show_the_token(broken: bytes) -> None:
    """The error, and what caused it, are free of the request's headers."""
    async with sending_bytes(broken) as url, client_of(url, retries=0) as client:
        with pytest.raises(WorkspaceUnreachableError) as caught:
            await client.runs.job_group("7", priority=Priority.RECONCILIATION)
    assert TOKEN not in repr(caught.value) + repr(caught.value.__cause__)


async def test_truncated_json_is_unreadable() -> None:
    """A whole HTTP answer with half a JSON text is an error of reading, not of the network."""

    async def half(_: web.Request) -> web.Response:
        return web.Response(body=b'{"data":[{"id":1},', content_type="application/json")

    served = answer({"data": []})
    async with serving(served, half) as workspace, client_of(workspace.url) as client:
        await client.requester.request("listJobLibrary", priority=Priority.CHANGES)
        with pytest.raises(UnreadableAnswerError):
            async for _ in client.runs.job_library(priority=Priority.CHANGES):
                pass
    assert len(workspace.requests) == 2


def large(*, announced: bool, compressed: bool = False) -> Any:
    """Return a handler with a body that seems endless; a compressed one is small on the wire."""

    async def handle(request: web.Request) -> web.StreamResponse:
        block = b" " * 100_000
        if compressed:
            body = gzip.compress(block * 20)
            return web.Response(body=body, headers={"Content-Encoding": "gzip"})
        response = web.StreamResponse()
        if announced:
            response.content_length = 20 * len(block)
        await response.prepare(request)
        for _ in range(20):
            await response.write(block)
        return response

    return handle


@pytest.mark.parametrize(
    "handler",
    [large(announced=True), large(announced=False), large(announced=True, compressed=True)],
    ids=["announced", "unannounced", "compressed"],
)
async def test_a_huge_answer_is_cut_off(handler: Any) -> None:
    """A body above the limit is dropped, whatever its headers say, and not requested again."""
    async with (
        serving(handler) as workspace,
        client_of(workspace.url, body_limit_bytes=300_000) as client,
    ):
        with pytest.raises(UnreadableAnswerError) as caught:
            await client.runs.job_group("7", priority=Priority.RECONCILIATION)
        assert caught.value.operation_id == "getJobGroup"
        assert len(workspace.requests) == 1


async def test_a_closed_client_sends_nothing() -> None:
    """After closing, requests fail as unreachable."""
    async with serving(answer(ROW)) as workspace:
        client = client_of(workspace.url, retries=0)
        await client.close()
        with pytest.raises(WorkspaceUnreachableError):
            await client.runs.job_group("7", priority=Priority.RECONCILIATION)
    assert workspace.requests == []


@pytest.mark.parametrize(
    "settings",
    [
        {"url": "http://127.0.0.1:99999999"},
        {"url": "https://127.0.0.1", "ca_file": "/nonexistent.pem"},
        {"url": "http://127.0.0.1", "token": Secret("hush\nhush")},
    ],
    ids=["url", "ca_file", "token"],
)
def test_impossible_settings_are_raised_at_once(settings: dict[str, Any]) -> None:
    """Settings that can never work are a problem, reported before the first request."""
    with pytest.raises(ConfigurationError) as caught:
        client_of(**settings)
    assert "north" in str(caught.value)
    assert "hush" not in str(caught.value)
