"""The live stream of events: server-sent events that a browser resumes by itself."""

from __future__ import annotations

import asyncio

import msgspec
import structlog
from aiohttp import web

from monitor.bus.contract import EventBus
from monitor.listening.http_listener import source_of
from monitor.model.errors import BusError
from monitor.model.slices import in_slices
from monitor.web.http.problems import ProblemDetails, number

log = structlog.get_logger()

FARTHEST = 2**63 - 1  # the largest position
_BATCH = 200
_IN_A_SLICE = 25  # events written in one step
_KEEPALIVE_SECONDS = 15.0
_SEND_SECONDS = 30.0
_STREAMS_AT_ONCE = 64
_STREAMS_OF_A_SOURCE = 32


class EventStreams:
    """Serves streams; a reader too slow for an event is disconnected and may reconnect."""

    def __init__(self, bus: EventBus) -> None:
        self._bus = bus
        self._open: dict[asyncio.Task[None], str] = {}  # each with its source

    async def serve(self, request: web.Request) -> web.StreamResponse:
        """Stream events behind ``Last-Event-ID``, or from now on."""
        if len(self._open) >= _STREAMS_AT_ONCE:
            raise ProblemDetails(503, f"{_STREAMS_AT_ONCE} streams are open already; close one")
        source = source_of(request)
        if list(self._open.values()).count(source) >= _STREAMS_OF_A_SOURCE:
            raise ProblemDetails(
                503, f"{source} has {_STREAMS_OF_A_SOURCE} streams open already; close one"
            )
        position = await self._begin(request)
        response = web.StreamResponse(
            headers={"Content-Type": "text/event-stream", "Cache-Control": "no-store"}
        )
        await response.prepare(request)
        task = asyncio.create_task(self._pump(response, position), name="event stream")
        self._open[task] = source
        try:
            await task
        except (ConnectionError, TimeoutError):
            task.cancel()
        except BusError as exc:
            # The headers are sent, so no problem can be returned; the reader reconnects by itself.
            log.warning("event stream ended", reason=str(exc))
        except asyncio.CancelledError:
            # Either the reader went away or the server stops; both end this stream.
            task.cancel()
            if (current := asyncio.current_task()) is not None and current.cancelling():
                raise
        finally:
            del self._open[task]
        return response

    def close(self) -> None:
        """End all streams, so that the server can stop."""
        for task in self._open:
            task.cancel()

    async def _begin(self, request: web.Request) -> int:
        text = request.headers.get("Last-Event-ID") or request.query.get("after")
        newest = (await self._bus.status()).newest_position
        if text is None:
            return newest
        # A position behind the newest belongs to a store that was replaced.
        return min(number("Last-Event-ID", text, most=FARTHEST), newest)

    async def _pump(self, response: web.StreamResponse, position: int) -> None:
        while True:
            recorded = await self._bus.events(after=position, limit=_BATCH)
            async for event in in_slices(recorded, size=_IN_A_SLICE):
                data = msgspec.json.encode(event.event).decode()
                await self._send(
                    response, f"id: {event.position}\nevent: {event.event.type}\ndata: {data}\n\n"
                )
                position = event.position
            if not recorded and not await self._bus.wait(
                position, timeout_seconds=_KEEPALIVE_SECONDS
            ):
                await self._send(response, ": still here\n\n")

    async def _send(self, response: web.StreamResponse, text: str) -> None:
        async with asyncio.timeout(_SEND_SECONDS):
            await response.write(text.encode())
