"""Real local servers with scripted answers, and a clock whose sleeps take no time."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from random import Random
from typing import Any

import msgspec
from aiohttp import web
from prometheus_client import CollectorRegistry

from monitor.model.clock import Clock
from monitor.model.secrets import Secret
from monitor.workspace.client import WorkspaceClient
from monitor.workspace.settings import WorkspaceSettings

PAYLOADS = Path(__file__).parent / "payloads"
TOKEN = "made-up-token-3f9a"

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


class SkippingClock:
    """Sleeping moves its time at once. ``slept`` holds every wait, in order."""

    def __init__(self, start: datetime = datetime(2026, 11, 21, 10, tzinfo=UTC)) -> None:
        self._now = start
        self._monotonic = 100.0
        self.slept: list[float] = []

    def now(self) -> datetime:
        return self._now

    def monotonic(self) -> float:
        return self._monotonic

    async def sleep(self, seconds: float) -> None:
        self.slept.append(seconds)
        self.pass_by(seconds)
        await asyncio.sleep(0)

    def pass_by(self, seconds: float) -> None:
        """Advance the time without a sleep."""
        self._now += timedelta(seconds=seconds)
        self._monotonic += seconds


def recorded(name: str) -> Any:
    """Return a recorded payload, decoded."""
    return msgspec.json.decode((PAYLOADS / f"{name}.json").read_bytes())


def answer(
    body: Any = None, status: int = 200, headers: Mapping[str, str] | None = None
) -> Handler:
    """Return a handler that always answers this JSON."""

    async def handle(_: web.Request) -> web.Response:
        return web.Response(
            status=status,
            body=msgspec.json.encode(body),
            content_type="application/json",
            headers=headers,
        )

    return handle


def refusal(status: int, name: str, headers: Mapping[str, str] | None = None) -> Handler:
    """Return a handler that answers the API's error envelope."""
    envelope = {"exception": {"name": name, "message": "made up", "details": "made up too"}}
    return answer(envelope, status, headers)


class ScriptedWorkspace:
    """Answers each request by the next handler; the last one stays. Records every request."""

    def __init__(self, *handlers: Handler) -> None:
        self._handlers = list(handlers)
        self.requests: list[web.Request] = []
        self._has_come = asyncio.Event()
        self.bodies: list[bytes] = []
        self.url = ""

    async def until_requested(self) -> None:
        """Return when the first request has come."""
        await self._has_come.wait()

    async def handle(self, request: web.Request) -> web.StreamResponse:
        self.requests.append(request)
        self._has_come.set()
        self.bodies.append(await request.read())
        handler = self._handlers.pop(0) if len(self._handlers) > 1 else self._handlers[0]
        return await handler(request)


@asynccontextmanager
async def serving(*handlers: Handler) -> AsyncIterator[ScriptedWorkspace]:
    """Run a scripted workspace on a free port."""
    workspace = ScriptedWorkspace(*handlers)
    app = web.Application(client_max_size=2**24)
    app.router.add_route("*", "/{path:.*}", workspace.handle)
    runner = web.AppRunner(app, shutdown_timeout=0.01)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    workspace.url = f"http://127.0.0.1:{runner.addresses[0][1]}"
    try:
        yield workspace
    finally:
        await runner.cleanup()


@asynccontextmanager
async def sending_bytes(*answers: bytes) -> AsyncIterator[str]:
    """Run a server that answers one request with raw bytes and hangs up; yields its URL."""
    left = list(answers)

    async def handle(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(left.pop(0) if len(left) > 1 else left[0])
        await writer.drain()
        writer.close()
        await writer.wait_closed()

    server = await asyncio.start_server(handle, "127.0.0.1", 0)
    try:
        yield f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
    finally:
        server.close()
        await server.wait_closed()


def client_of(
    url: str,
    *,
    clock: Clock | None = None,
    registry: CollectorRegistry | None = None,
    **settings: Any,
) -> WorkspaceClient:
    """Return a client of the workspace ``north`` with a budget that does not matter."""
    chosen: dict[str, Any] = {
        "requests_per_minute": 100_000,
        "token": Secret(TOKEN),
        **settings,
    }
    return WorkspaceClient(
        WorkspaceSettings(name="north", url=url, **chosen),
        clock=clock or SkippingClock(),
        registry=registry or CollectorRegistry(),
        random=Random(1),  # noqa: S311 - the same jitter in every run
    )
