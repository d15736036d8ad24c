"""Between a daemon and the sandbox's token endpoint: the test decides how far a refresh gets."""

from __future__ import annotations

import asyncio
from enum import StrEnum
from types import TracebackType
from typing import Self
from urllib.parse import parse_qs

import aiohttp
from aiohttp import web

from monitor.sandbox.api.oauth.token_endpoint import TOKEN_PATH
from monitor.sandbox.sandbox import Sandbox

_PATIENCE_SECONDS = 60.0


class Step(StrEnum):
    """How far a refresh gets before the test goes on."""

    SENT = "sent, and not handled yet"
    HANDLED = "handled, and its answer held back"
    BROKEN = "handled, and the connection broken in place of an answer"
    UNAVAILABLE = "answered 503, and not handled"


class TokenGate:
    """Hands refreshes on to the endpoint, and stops one of them where the test says.

    ``replayed`` are the refresh tokens that came although a refresh had replaced them before.
    """

    def __init__(self, workspace: Sandbox) -> None:
        self._workspace = workspace
        self._stops_at: Step | None = None
        self._reached, self._released = asyncio.Event(), asyncio.Event()
        self._answered = asyncio.Event()
        self._runner: web.AppRunner | None = None
        self._session: aiohttp.ClientSession | None = None
        self.url = ""
        self.replayed: list[str] = []

    async def __aenter__(self) -> Self:
        app = web.Application()
        app.router.add_post(TOKEN_PATH, self._refresh)
        self._session = aiohttp.ClientSession()
        self._runner = web.AppRunner(app, access_log=None, shutdown_timeout=1)
        await self._runner.setup()
        await web.TCPSite(self._runner, "127.0.0.1", 0).start()
        (address,) = self._runner.addresses
        self.url = f"http://127.0.0.1:{address[1]}{TOKEN_PATH}"
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.release()
        if self._runner is not None:
            await self._runner.cleanup()
        if self._session is not None:
            await self._session.close()

    async def until(self, step: Step) -> None:
        """Return when the next refresh has come so far; where it is held, `release` ends that."""
        self._reached, self._released = asyncio.Event(), asyncio.Event()
        self._answered = asyncio.Event()
        self._stops_at = step
        async with asyncio.timeout(_PATIENCE_SECONDS):
            await self._reached.wait()

    def release(self) -> None:
        """Let an answer go that is held back; a refresh that was not handled never is."""
        self._released.set()

    async def answer(self) -> None:
        """Let it go, and return once it has been written to the daemon's connection."""
        self.release()
        async with asyncio.timeout(_PATIENCE_SECONDS):
            await self._answered.wait()

    async def _refresh(self, request: web.Request) -> web.StreamResponse:
        form = await request.read()
        self._note(form)
        step, self._stops_at = self._stops_at, None
        if step is Step.SENT:
            await self._hold()
            return _broken(request)
        answer = web.Response(status=503)
        if step is not Step.UNAVAILABLE:
            answer = await self._handled(form, request.content_type)
        if step is Step.HANDLED:
            await self._hold()
        if step is Step.BROKEN:
            answer = _broken(request)
        elif request.transport is not None:  # the daemon still lives
            await answer.prepare(request)
            await answer.write_eof()
            self._answered.set()
        if step is not None:
            self._reached.set()
        return answer

    def _note(self, form: bytes) -> None:
        (token,) = parse_qs(form.decode())["refresh_token"]
        assert self._workspace.pair is not None
        if token in self._workspace.pair.used_tokens:
            self.replayed.append(token)

    async def _hold(self) -> None:
        self._reached.set()
        await self._released.wait()

    async def _handled(self, form: bytes, content_type: str) -> web.Response:
        assert self._session is not None
        assert self._workspace.token_url is not None
        headers = {"Content-Type": content_type}
        async with self._session.post(
            self._workspace.token_url, data=form, headers=headers
        ) as answer:
            body = await answer.read()
            return web.Response(status=answer.status, body=body, content_type=answer.content_type)


def _broken(request: web.Request) -> web.Response:
    if request.transport is not None:
        request.transport.abort()  # what is written to it afterwards goes nowhere
    return web.Response()
