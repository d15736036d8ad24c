"""Any bytes on the listener's socket are answered or cut off, and never a 500."""

from __future__ import annotations

import asyncio
import gzip
from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from prometheus_client import CollectorRegistry

from monitor.bus.contract import Received, StoredCallback
from monitor.bus.sqlite.store import SqliteBus
from monitor.callbacks.listener import OUTCOMES, CallbackListener
from monitor.callbacks.settings import CallbackSettings, ListenerSettings
from monitor.model.secrets import Secret
from tests.callbacks.conftest import SECRET, ListenerScenario
from tests.clocks import ManualClock
from tests.examples import examples

BODY = b'{"job_id":"9","job_status":"Complete"}'
LIMIT = 1_000
HEAD = (
    f"POST /hooks/acme HTTP/1.1\r\nHost: x\r\nConnection: close\r\nX-Monitor-Secret: {SECRET}\r\n"
).encode()
MANY = settings(
    max_examples=examples(30),
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
STATUSES = {204, 400, 404, 408, 413, 415}

text = st.text(st.characters(codec="latin-1", exclude_characters="\r\n\0"), max_size=40)
token = st.text("abcdefghijklmnopqrstuvwxyz-", min_size=1, max_size=20)


@dataclass
class Socket:
    """Sends raw bytes and reads what comes back until the listener closes."""

    port: int
    registry: CollectorRegistry

    async def send(self, *parts: bytes, then_leaves: bool = False) -> bytes:
        reader, writer = await asyncio.open_connection("127.0.0.1", self.port)
        try:
            for part in parts:
                writer.write(part)
                await writer.drain()
            if then_leaves:
                writer.write_eof()
            async with asyncio.timeout(10):
                return await reader.read()
        except ConnectionResetError:
            return b""
        finally:
            writer.close()

    async def post(self, body: bytes, *headers: bytes) -> bytes:
        """Send a whole callback with the right secret, and request the connection's end."""
        lines = [*headers, b"Content-Length: %d" % len(body)]
        return await self.send(HEAD + b"\r\n".join(lines) + b"\r\n\r\n" + body)

    def counted(self) -> float:
        name = "dataprep_monitor_callback_requests_total"
        values = [
            self.registry.get_sample_value(name, {"outcome": outcome}) for outcome in OUTCOMES
        ]
        return sum(value for value in values if value is not None)


@pytest.fixture
async def socket(bus: SqliteBus, clock: ManualClock) -> AsyncIterator[Socket]:
    registry = CollectorRegistry()
    listener = CallbackListener(
        settings=ListenerSettings(
            listen="127.0.0.1:0",
            body_limit_bytes=LIMIT,
            body_timeout_seconds=0.2,
            wrong_secret_delay_seconds=0,
        ),
        workspaces={"acme": CallbackSettings(secret=Secret(SECRET))},
        receive=bus.receive,
        clock=clock,
        registry=registry,
    )
    yield Socket(port=await listener.start(), registry=registry)
    await listener.stop()


def status_of(answer: bytes) -> int | None:
    return int(answer.split(b" ", 2)[1]) if answer.startswith(b"HTTP/") else None


def body_of(answer: bytes) -> bytes:
    return answer.partition(b"\r\n\r\n")[2]


async def is_alive(socket: Socket) -> bool:
    return status_of(await socket.post(BODY)) == 204


@pytest.mark.parametrize("size", [LIMIT - 1, LIMIT, LIMIT + 1])
async def test_the_limit_is_the_last_size_that_is_accepted(socket: Socket, size: int) -> None:
    """A body of exactly the limit is read; one byte more is 413."""
    answer = await socket.post(BODY + b" " * (size - len(BODY)))

    assert status_of(answer) == (413 if size > LIMIT else 204)


async def test_a_chunked_body_is_bounded_too(socket: Socket) -> None:
    """Without a length the body is cut off where it passes the limit."""
    chunk = b"3e8\r\n" + b" " * 1_000 + b"\r\n"
    answer = await socket.send(
        HEAD + b"Transfer-Encoding: chunked\r\n\r\n", *[chunk] * 5, b"0\r\n\r\n"
    )

    assert status_of(answer) == 413
    assert body_of(answer) == b""


async def test_a_packed_body_is_bounded_as_what_it_unpacks_to(socket: Socket) -> None:
    """A small body that unpacks to a large one is 413, one that does not unpack is 400."""
    large = await socket.post(gzip.compress(b" " * 10_000_000), b"Content-Encoding: gzip")
    broken = await socket.post(b"\x1f\x8bnothing", b"Content-Encoding: gzip")
    good = await socket.post(gzip.compress(BODY), b"Content-Encoding: gzip")

    assert [status_of(answer) for answer in (large, broken, good)] == [413, 400, 204]


async def test_a_slow_body_is_waited_for_only_so_long(socket: Socket) -> None:
    """A sender that stops in the middle is answered 408 and stores nothing."""
    answer = await socket.send(HEAD + b"Content-Length: 100\r\n\r\n" + b"{")

    assert status_of(answer) == 408
    assert await is_alive(socket)


async def test_a_sender_that_leaves_is_no_failure(
    socket: Socket, bus: SqliteBus, caplog: pytest.LogCaptureFixture
) -> None:
    """Going away in the middle of a body is counted as unreadable and logs no trace."""
    before = socket.counted()
    reader, writer = await asyncio.open_connection("127.0.0.1", socket.port)
    writer.write(HEAD + b"Content-Length: 100\r\nExpect: 100-continue\r\n\r\n")
    await reader.readuntil(b"\r\n\r\n")
    writer.write(b"{")
    writer.transport.abort()
    async with asyncio.timeout(30):
        while socket.counted() == before:  # noqa: ASYNC110 - what is waited for has no event
            await asyncio.sleep(0)

    assert (await bus.inbox("acme", limit=10)).callbacks == ()
    assert caplog.records == []
    assert await is_alive(socket)


@pytest.mark.parametrize("method", ["GET", "PUT", "DELETE", "HEAD", "OPTIONS", "PATCH"])
@pytest.mark.parametrize("path", ["/hooks/acme", "/hooks/unknown", "/metrics"])
async def test_another_method_finds_nothing(socket: Socket, method: str, path: str) -> None:
    """Only POST exists: any other method is the same empty 404 as a wrong secret, on any path."""
    head = HEAD.replace(b"POST /hooks/acme", f"{method} {path}".encode())
    answer = await socket.send(head + b"Content-Length: 0\r\n\r\n")
    refused = await socket.send(
        b"POST /hooks/acme HTTP/1.1\r\nHost: x\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"
    )

    assert status_of(refused) == 404
    assert status_of(answer) == 404
    assert body_of(answer) == b""
    if method != "HEAD":  # whose answer has no length
        assert _without_date(answer) == _without_date(refused)


async def test_an_expectation_is_met_or_ignored(socket: Socket) -> None:
    """A sender with ``Expect`` before its body may continue, whatever it expects."""
    continued = await socket.post(BODY, b"Expect: 100-continue")
    ignored = await socket.post(BODY, b"Expect: miracles")

    assert continued.startswith(b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 204")
    assert status_of(ignored) == 204


@MANY
@given(
    body=st.binary(max_size=LIMIT + 50),
    content_type=text,
    encoding=st.sampled_from(["", "gzip", "deflate", "br", "zstd", "identity", "gzip, gzip"]),
)
async def test_no_body_is_a_failure(
    socket: Socket, body: bytes, content_type: str, encoding: str
) -> None:
    """Any bytes in any encoding are accepted or refused with a status of ours."""
    headers = [f"Content-Type: {content_type}".encode("latin-1")]
    if encoding:
        headers.append(f"Content-Encoding: {encoding}".encode())
    answer = await socket.post(body, *headers)

    assert status_of(answer) in STATUSES
    assert len(body) < 8 or body not in body_of(answer)


@MANY
@given(headers=st.lists(st.tuples(token, text), max_size=8), path=text)
async def test_no_header_is_a_failure(
    socket: Socket, headers: list[tuple[str, str]], path: str
) -> None:
    """Any headers and any path are answered, or the connection is closed."""
    lines = [f"{name}: {value}".encode("latin-1") for name, value in headers]
    first = f"POST /hooks/{path} HTTP/1.1".encode("latin-1")
    head = b"\r\n".join([first, b"Host: x", *lines, b"Connection: close"])
    on_path = await socket.send(head + b"\r\n\r\n")
    with_secret = await socket.post(BODY, *lines)

    assert status_of(on_path) in {*STATUSES, None}
    assert status_of(with_secret) in {*STATUSES, None}


@MANY
@given(garbage=st.binary(min_size=1, max_size=300))
async def test_no_garbage_is_a_failure(socket: Socket, garbage: bytes) -> None:
    """Bytes that are no HTTP at all are 400 or silence, and the next callback is accepted."""
    answer = await socket.send(garbage + b"\r\n\r\n", then_leaves=True)

    assert status_of(answer) in {*STATUSES, None}
    assert await is_alive(socket)


@MANY
@given(framing=st.binary(max_size=60))
async def test_no_framing_is_a_failure(socket: Socket, framing: bytes) -> None:
    """A chunked body with broken sizes is refused."""
    answer = await socket.send(
        HEAD + b"Transfer-Encoding: chunked\r\n\r\n" + framing, then_leaves=True
    )

    assert status_of(answer) in {*STATUSES, None}


async def test_an_unparsable_head_is_not_logged(
    socket: Socket, capsys: pytest.CaptureFixture[str], caplog: pytest.LogCaptureFixture
) -> None:
    """A head that is broken next to the secret leaves neither secret nor trace in the log."""
    answer = await socket.send(HEAD + b"Broken\x00Header: 1\r\nContent-Length: 0\r\n\r\n")
    shown = capsys.readouterr()

    assert status_of(answer) == 400
    assert caplog.records == []
    assert SECRET not in shown.out + shown.err
    assert "Traceback" not in shown.out + shown.err


async def test_a_number_of_thousands_of_digits_is_no_id(scenario: ListenerScenario) -> None:
    """A number that is too long to print is refused like any other invalid id."""
    assert (await scenario.post(b'{"job_id":' + b"9" * 6_000 + b"}")).status == 400


async def test_a_callback_in_work_is_answered_when_the_listener_stops(
    bus: SqliteBus, clock: ManualClock, registry: CollectorRegistry
) -> None:
    """A callback that is stored while the listener stops is acknowledged, and no later one is."""
    stopping: list[asyncio.Task[None]] = []

    async def receive_and_stop(callback: StoredCallback, **limits: Any) -> Received:
        received = await bus.receive(callback, **limits)
        stopping.append(asyncio.create_task(listener.stop()))
        return received

    listener = CallbackListener(
        settings=ListenerSettings(listen="127.0.0.1:0", wrong_secret_delay_seconds=0),
        workspaces={"acme": CallbackSettings(secret=Secret(SECRET))},
        receive=receive_and_stop,
        clock=clock,
        registry=registry,
    )
    socket = Socket(port=await listener.start(), registry=registry)
    answer = await socket.post(BODY)
    await stopping[0]
    with pytest.raises(ConnectionRefusedError):
        await socket.post(BODY)

    assert status_of(answer) == 204
    assert len((await bus.inbox("acme", limit=10)).callbacks) == 1


def _without_date(answer: bytes) -> list[bytes]:
    return [line for line in answer.split(b"\r\n") if not line.startswith(b"Date:")]
