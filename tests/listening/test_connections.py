"""The connections of a listener: how many, from whom, and for how long."""

from __future__ import annotations

import asyncio
import contextlib
import resource
import socket
from collections.abc import Awaitable, Callable

import pytest
import structlog

from monitor.listening.settings import ConnectionLimits
from tests.app.eventually import eventually
from tests.listening.floods import REQUEST, Hall, hall

# No limit of time but those that a test is about.
LONG = 3_600.0


async def test_a_source_has_a_cap_and_others_are_served() -> None:
    """A source at its cap gets no further connection; another one is served at once."""
    async with hall(ConnectionLimits(total=60, per_source=20, head_seconds=LONG)) as front:
        held = await front.flood(20)
        refused = await front.flood(200)
        for client in refused:
            await client.ends()
        other = await front.client("127.0.0.2")

        assert await other.is_served()
        assert all([await client.is_served() for client in held])
        assert front.refused() == 200


async def test_a_source_has_a_third_by_default() -> None:
    """Where nothing else is set, two sources leave room for a third one."""
    async with hall(ConnectionLimits(total=60, head_seconds=LONG)) as front:
        held = await front.flood(20)
        await (await front.client()).ends()

        assert all([await client.is_served() for client in held])
        assert front.refused() == 1


async def test_a_place_that_is_left_is_free_again() -> None:
    """Connections that end make room for the next ones of their source."""
    async with hall(ConnectionLimits(total=60, per_source=20, head_seconds=LONG)) as front:
        for client in await front.flood(20):
            client.leave()

        async def is_served() -> bool:
            return await (await front.client()).is_served()

        await eventually(is_served, why="no place is free")


async def test_at_the_cap_accepting_pauses() -> None:
    """Past the cap in all a client waits, is not closed, and is served when another one leaves."""
    async with hall(ConnectionLimits(total=30, per_source=10, head_seconds=LONG)) as front:
        sources = [f"127.0.0.{number}" for number in range(2, 5)]
        held = [client for source in sources for client in await front.flood(10, source)]
        assert all([await client.is_served() for client in held])
        late = asyncio.create_task((await front.client()).is_served())
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(asyncio.shield(late), timeout=0.3)
        held[0].leave()

        assert await late
        assert front.refused() == 0


async def test_a_flood_is_logged_once_a_minute() -> None:
    """Thousands of attempts at both caps make two lines a minute, and no trace."""
    limits = ConnectionLimits(total=30, per_source=20, head_seconds=LONG)
    with structlog.testing.capture_logs() as lines:
        async with hall(limits) as front:
            for _ in range(5):
                held = await front.flood(20)
                for client in await front.flood(40):
                    await client.ends()
                held += await front.flood(15, "127.0.0.2")
                await eventually(lambda: len(lines) == 2, why=lambda: lines)
                for client in held:
                    client.leave()
            await front.clock.advance(60)
            await eventually(lambda: len(lines) == 3, why=lambda: lines)

    paused, refused, again = sorted(lines, key=lambda line: str(line.get("count", "")))
    assert paused["event"] == "listener paused accepting"
    assert paused["sources"] == {"127.0.0.1": 20, "127.0.0.2": 10}
    assert refused["event"] == again["event"] == "requests refused"
    assert refused["count"] + again["count"] == 200


async def test_without_handles_accepting_pauses_too() -> None:
    """Where the process has no handle left nothing is traced, and later clients are served."""
    taken: list[socket.socket] = []
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    with structlog.testing.capture_logs() as lines:
        async with hall(ConnectionLimits(head_seconds=LONG)) as front:
            late = await front.client()
            assert await late.is_served()
            waiting = socket.socket()
            waiting.setblocking(False)
            resource.setrlimit(resource.RLIMIT_NOFILE, (waiting.fileno() + 20, hard))
            try:
                with contextlib.suppress(OSError):
                    while True:
                        taken.append(socket.socket())
                await asyncio.get_running_loop().sock_connect(waiting, ("127.0.0.1", front.port))
                await eventually(lambda: bool(lines), why="nothing is logged")
            finally:
                for handle in taken:
                    handle.close()
                resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
            waiting.sendall(REQUEST)
            answer = await asyncio.get_running_loop().sock_recv(waiting, 100)
            waiting.close()

    assert answer.startswith(b"HTTP/1.1 200 ")
    assert [line["event"] for line in lines] == ["listener paused accepting"]
    assert "Too many open files" in lines[0]["reason"]


async def test_a_head_has_a_limit_of_time() -> None:
    """Who sends nothing, or a head byte by byte, is cut off; who has had an answer stays."""
    async with hall(ConnectionLimits(total=9, per_source=9, head_seconds=20)) as front:
        silent, slow, served = await front.flood(3)
        slow.writer.write(REQUEST[:9])
        assert await served.is_served()
        await front.clock.advance(19)
        slow.writer.write(REQUEST[9:10])
        await front.clock.advance(1)
        await silent.ends()
        await slow.ends()

        assert await served.is_served()


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        (b"A: b\r\n" * 50, b"200"),
        (b"A: b\r\n" * 100, b"400"),
        (b"A: " + b"b" * 8_000 + b"\r\n", b"200"),
        (b"A: " + b"b" * 9_000 + b"\r\n", b"400"),
    ],
)
async def test_a_head_has_a_limit_of_size(headers: bytes, status: bytes) -> None:
    """A head is bounded by the number and size of its fields; beyond that it is no request."""
    async with hall(ConnectionLimits(total=9)) as front:
        answer = await (await front.client()).get(headers=headers)

        assert answer.split(b" ")[1] == status


async def test_an_idle_connection_ends() -> None:
    """Between two requests a connection is kept for a limited time."""
    async with hall(ConnectionLimits(total=9, per_source=9, idle_seconds=0.2)) as front:
        client = await front.client()
        assert await client.is_served()
        await client.ends()


async def test_a_slow_head_is_no_sign_of_life() -> None:
    """Bytes of a next head, one by one, do not keep a connection beyond the idle time."""
    async with hall(ConnectionLimits(total=9, per_source=9, idle_seconds=0.3)) as front:
        client = await front.client()
        assert await client.is_served()
        ended = asyncio.create_task(client.ends())
        for byte in REQUEST * 300:
            if ended.done():
                break
            client.writer.write(bytes([byte]) if byte != ord("\n") else b"x")
            await asyncio.wait((ended,), timeout=0.05)

        assert ended.done()


async def test_who_reads_no_answer_is_cut_off() -> None:
    """A reader that stops in the middle of an answer holds its connection for a limited time."""
    async with hall(ConnectionLimits(total=9, per_source=1)) as front:
        reader = await front.client()
        reader.writer.write(REQUEST.replace(b"GET /", b"GET /large"))
        await reader.reader.readuntil(b"\r\n\r\n")
        refused = await front.client()
        await refused.ends()
        await front.clock.advance(75)

        async def is_served() -> bool:
            return await (await front.client()).is_served()

        await eventually(is_served, why="the place is still taken")


async def test_who_reads_no_answer_and_is_closed_is_cut_off() -> None:
    """Also where the connection closes with the answer, and only its rest waits for the reader."""
    async with hall(ConnectionLimits(total=9, per_source=1)) as front:
        with front.deaf_client() as deaf:
            deaf.sendall(REQUEST.replace(b"GET /", b"GET /tight"))

            async def is_served() -> bool:
                return await (await front.client()).is_served()

            await eventually(lambda: front.answered == ["/tight"], why="no answer was begun")
            assert not await is_served()
            # The time begins when the gate sees the connection close, which is soon.
            await eventually(lambda: _advanced(front, is_served), why="the place is still taken")


async def _advanced(front: Hall, is_served: Callable[[], Awaitable[bool]]) -> bool:
    await front.clock.advance(75)
    return await is_served()


@pytest.mark.parametrize(
    "garbage", [b"GARBAGE\r\n\r\n", b"GET / HTTP/9.9\r\n\r\n", b"\x16\x03\x01\r\n\r\n"]
)
async def test_every_answer_has_the_headers(garbage: bytes) -> None:
    """The library's own answers to what is no request carry them too, and no version."""
    async with hall(ConnectionLimits(total=9)) as front:
        for answer in (
            await (await front.client()).send(garbage),
            await (await front.client()).get(),
        ):
            lines = answer.split(b"\r\n")
            assert b"Server: dataprep-monitor" in lines
            assert b"X-Content-Type-Options: nosniff" in lines
            assert b"Referrer-Policy: same-origin" in lines
            assert b"Cross-Origin-Resource-Policy: same-origin" in lines
            assert b"aiohttp" not in answer
            assert b"Python" not in answer


UNFINISHED = b"POST / HTTP/1.1\r\nHost: localhost\r\nContent-Length: 9\r\n\r\n"
# Only 127.0.0.1 is local here, so that a test has strangers.
STRANGERS = ConnectionLimits(
    total=20, per_source=9, reserve=4, head_seconds=LONG, local=("127.0.0.1",)
)


async def test_at_the_cap_the_oldest_stranger_without_a_request_makes_room() -> None:
    """Silent connections from many addresses keep no stranger out, and the longest idle go."""
    async with hall(STRANGERS) as front:
        first, second = await front.flood(2, "127.0.0.2")
        held = [*await front.flood(7, "127.0.0.3"), *await front.flood(7, "127.0.0.4")]
        assert await first.is_served()
        late = await front.client("127.0.0.5")
        await second.ends()

        assert await late.is_served()
        assert all([await client.is_served() for client in (first, *held)])
        assert front.refused() == 1


async def test_strangers_never_take_the_reserve() -> None:
    """With requests in work everywhere they are refused, and this machine is served at once."""
    async with hall(STRANGERS) as front:
        busy = [await front.flood(8, source) for source in ("127.0.0.2", "127.0.0.3")]
        for client in (client for clients in busy for client in clients):
            client.writer.write(UNFINISHED)
        await eventually(lambda: len(front.answered) == 16, why="no request was begun")
        await (await front.client("127.0.0.4")).ends()
        local = await front.flood(4)

        assert all([await client.is_served() for client in local])


async def test_who_authenticated_lately_has_a_place() -> None:
    """Its further connections use the reserve, and no flood closes the one that it keeps."""
    async with hall(STRANGERS) as front:
        sender = await front.client("127.0.0.2")
        await sender.get(path=b"/right")
        for source in range(3, 9):
            await front.flood(9, f"127.0.0.{source}")
        further = await front.flood(4, "127.0.0.2")

        assert await sender.is_served()
        assert all([await client.is_served() for client in further])
        await front.clock.advance(3_601)
        await front.flood(9, "127.0.0.9")
        stranger = await front.flood(5, "127.0.0.2")
        await stranger[-1].ends()


async def test_a_stranger_holds_64_connections_and_a_known_source_a_third() -> None:
    """So that three addresses do not fill a listener, and a busy sender is not held up."""
    limits = ConnectionLimits(total=300, head_seconds=LONG, local=("127.0.0.1",))
    async with hall(limits) as front:
        await front.flood(64, "127.0.0.2")
        await (await front.client("127.0.0.2")).ends()
        known = await front.flood(100)
        await (await front.client()).ends()

        assert all([await client.is_served() for client in known])
        assert front.refused() == 2
