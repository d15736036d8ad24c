"""A bare listener for floods, and the connections that flood it."""

from __future__ import annotations

import asyncio
import contextlib
import socket
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from datetime import datetime

from aiohttp import web
from prometheus_client import CollectorRegistry, Counter

from monitor.listening.http_listener import (
    STOP_SECONDS,
    HttpListener,
    remember_authenticated,
    source_of,
)
from monitor.listening.refusals import RefusalReason, Refusals
from monitor.listening.settings import AddressSettings, ConnectionLimits, TlsSettings
from tests.clocks import ManualClock

_WAIT_SECONDS = 60.0  # for what happens at once on an idle machine
REQUEST = b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n"
_TIGHT = 4_096  # bytes of a buffer of the system
LARGE = 32 * 1024 * 1024  # more than the system's buffers take


class Client:
    """One connection as its sender sees it."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader = reader
        self.writer = writer

    async def get(self, *, headers: bytes = b"", path: bytes = b"/") -> bytes:
        """Send a request and return the answer's head and body; empty if the connection ends."""
        return await self.send(b"GET " + path + b" HTTP/1.1\r\nHost: x\r\n" + headers + b"\r\n")

    async def send(self, data: bytes) -> bytes:
        try:
            self.writer.write(data)
            await self.writer.drain()
            async with asyncio.timeout(_WAIT_SECONDS):
                head = await self.reader.readuntil(b"\r\n\r\n")
                length = head.lower().partition(b"content-length: ")[2].partition(b"\r\n")[0]
                return head + await self.reader.readexactly(int(length or 0))
        except (ConnectionError, asyncio.IncompleteReadError):
            return b""

    async def is_served(self) -> bool:
        return (await self.get()).startswith(b"HTTP/1.1 200 ")

    async def ends(self) -> None:
        """Return when the listener has ended the connection; fail if it does not."""
        with contextlib.suppress(ConnectionError):
            async with asyncio.timeout(_WAIT_SECONDS):
                while await self.reader.read(1024):
                    pass

    def leave(self) -> None:
        self.writer.transport.abort()


@dataclass
class Hall:
    """A listener that answers every request with its source, and the clients before it."""

    listener: HttpListener
    port: int
    clock: ManualClock
    registry: CollectorRegistry
    clients: list[Client] = field(default_factory=list)
    answered: list[str] = field(default_factory=list)  # the paths of requests
    expiries: list[datetime] = field(default_factory=list)  # of certificates, as they were loaded

    async def client(self, address: str = "127.0.0.1") -> Client:
        reader, writer = await asyncio.open_connection(
            "127.0.0.1", self.port, local_addr=(address, 0)
        )
        self.clients.append(Client(reader, writer))
        return self.clients[-1]

    async def flood(self, number: int, address: str = "127.0.0.1") -> list[Client]:
        """Open connections on which nothing is sent."""
        return [await self.client(address) for _ in range(number)]

    def deaf_client(self) -> socket.socket:
        """Return a connection that takes little of an answer and reads nothing of it."""
        deaf = socket.socket()
        deaf.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, _TIGHT)
        deaf.connect(("127.0.0.1", self.port))
        return deaf

    def refused(self, reason: str = "too_many_connections") -> float:
        value = self.registry.get_sample_value("refusals_total", {"reason": reason})
        assert value is not None
        return value


@contextlib.asynccontextmanager
async def hall(
    limits: ConnectionLimits,
    *,
    trusted_proxies: tuple[str, ...] = (),
    tls: TlsSettings | None = None,
    hsts_seconds: int = 0,
) -> AsyncIterator[Hall]:
    """Yield a listener with these limits; ``/large`` is an answer that no buffer takes whole."""
    clock, registry = ManualClock(), CollectorRegistry()
    expiries: list[datetime] = []
    refused = Counter("refusals", "What was refused.", ["reason"], registry=registry)
    refusals = Refusals("server", refused, reasons=list(RefusalReason), clock=clock)
    listener = HttpListener(
        "server",
        settings=AddressSettings(
            listen="127.0.0.1:0", connections=limits, trusted_proxies=trusted_proxies, tls=tls
        ),
        refusals=refusals,
        clock=clock,
        on_certificate=lambda _, expires_at: expiries.append(expires_at),
        hsts_seconds=hsts_seconds,
    )

    answered: list[str] = []

    async def answer(request: web.BaseRequest) -> web.Response:
        answered.append(request.path)
        if request.path == "/tight" and request.transport is not None:
            sending = request.transport.get_extra_info("socket")
            sending.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, _TIGHT)
            # It fits into the buffer of the loop, so that the connection closes after it.
            tight = web.Response(body=bytes(60_000))
            tight.force_close()
            return tight
        if request.path == "/right":
            remember_authenticated(request)
        if request.path == "/large":
            return web.Response(body=bytes(LARGE))
        await request.read()
        return web.Response(text=source_of(request))

    server = web.Server(answer, **listener.options())
    port = await listener.start(web.ServerRunner(server, shutdown_timeout=STOP_SECONDS))
    front = Hall(listener, port, clock, registry, answered=answered, expiries=expiries)
    beside = [asyncio.create_task(run()) for run in listener.tasks().values()]
    try:
        yield front
    finally:
        for task in beside:
            task.cancel()
        for client in front.clients:
            client.leave()
        await listener.stop()
