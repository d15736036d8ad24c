"""An HTTP receiver that records the requests it receives and answers as the test configures."""

from __future__ import annotations

import asyncio
import json
import ssl
from collections import deque
from collections.abc import Callable
from types import TracebackType
from typing import Any, Self

from aiohttp import web
from msgspec import Struct

from tests.app.eventually import pause

LIMIT_SECONDS = 60.0
DEAF = 0  # in place of a status: no answer at all
BROKEN = -1  # the connection is cut instead of an answer


class ReceivedRequest(Struct, frozen=True):
    """A request as it arrived, and the status it was answered with."""

    path: str
    headers: dict[str, str]
    body: bytes
    status: int

    def json(self) -> Any:
        return json.loads(self.body)


class PostReceiver:
    """Listens on a free port; after a restart on the same port."""

    def __init__(self, *, tls: ssl.SSLContext | None = None) -> None:
        self._tls = tls
        self.port = 0
        self.requests: list[ReceivedRequest] = []
        self.answers: deque[int] = deque()  # statuses of the next answers; then 200
        self.status_for: Callable[[bytes], int] | None = None  # takes precedence
        self.headers: dict[str, str] = {}
        self.text = ""
        self.pause_seconds = 0.0  # before each answer
        self.most_at_once = 0
        self._at_once = 0
        self._runner: web.AppRunner | None = None
        self._has_more = asyncio.Condition()
        self._closing = asyncio.Event()

    @property
    def url(self) -> str:
        return f"http{'s' if self._tls else ''}://127.0.0.1:{self.port}"

    @property
    def accepted(self) -> list[ReceivedRequest]:
        """Return the requests that were answered with a success."""
        return [request for request in self.requests if 200 <= request.status < 300]

    async def start(self) -> None:
        self._closing.clear()
        app = web.Application()
        app.router.add_post("/{path:.*}", self._handle)
        self._runner = web.AppRunner(app, shutdown_timeout=1)
        await self._runner.setup()
        site = web.TCPSite(
            self._runner, "127.0.0.1", self.port, reuse_address=True, ssl_context=self._tls
        )
        await site.start()
        (address,) = self._runner.addresses
        self.port = int(address[1])

    async def stop(self) -> None:
        self._closing.set()
        runner, self._runner = self._runner, None
        if runner is not None:
            await runner.cleanup()

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self.stop()

    async def until(self, condition: Callable[[], bool]) -> None:
        """Wait until the received requests fulfil the condition."""
        async with asyncio.timeout(LIMIT_SECONDS), self._has_more:
            await self._has_more.wait_for(condition)

    async def _handle(self, request: web.Request) -> web.Response:
        self._at_once += 1
        self.most_at_once = max(self.most_at_once, self._at_once)
        try:
            body = await request.read()
            status = self._status(body)
            async with self._has_more:
                received = ReceivedRequest(request.path, dict(request.headers), body, status)
                self.requests.append(received)
                self._has_more.notify_all()
            await pause(self.pause_seconds)
            if status == DEAF:
                await self._closing.wait()
            if status == BROKEN and request.transport is not None:
                request.transport.abort()
            return web.Response(status=max(status, 200), headers=self.headers, text=self.text)
        finally:
            self._at_once -= 1

    def _status(self, body: bytes) -> int:
        if self.status_for is not None:
            return self.status_for(body)
        return self.answers.popleft() if self.answers else 200
