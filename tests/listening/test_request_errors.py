"""What a server's library reports of a request is logged as what it is."""

from __future__ import annotations

import asyncio
import socket

import pytest
import structlog
import uvloop

from monitor.listening.http_listener import RequestErrors


async def write_to_a_closed_socket() -> None:
    ours, theirs = socket.socketpair()
    with theirs:
        loop = asyncio.get_running_loop()
        transport, _ = await loop.create_connection(asyncio.Protocol, sock=ours)
        transport.abort()
        await asyncio.sleep(0)
        transport.write(b"an answer")


def test_an_answer_to_a_client_that_has_gone_is_no_bug() -> None:
    """The error of uvloop for a socket that is closed already fills no log with traces."""
    with (
        pytest.raises(RuntimeError) as raised,
        asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner,
    ):
        runner.run(write_to_a_closed_socket())

    with structlog.testing.capture_logs() as lines:
        RequestErrors(harmless=()).exception("Unhandled exception", exc_info=raised.value)

    assert [(line["log_level"], line["error"]) for line in lines] == [("debug", "RuntimeError")]


def test_any_other_runtime_error_is_a_bug() -> None:
    """An error of our own is logged with its trace."""
    with structlog.testing.capture_logs() as lines:
        RequestErrors(harmless=()).exception(
            "Unhandled exception", exc_info=RuntimeError("no rule")
        )

    assert [line["log_level"] for line in lines] == ["error"]
