"""``/api/v1/events/stream``: events as they happen, which a browser resumes by itself."""

from __future__ import annotations

import asyncio
from datetime import datetime
from typing import Annotated

import structlog
from aiohttp import hdrs, web
from msgspec import Meta, Struct

from monitor.listening.http_listener import source_of
from monitor.model.errors import BusError
from monitor.model.events import EventType
from monitor.model.slices import in_slices
from monitor.outputs.cloudevents import CONTENT_TYPE
from monitor.web.api.route_types import RawRoute
from monitor.web.http.access import STILL_LET_IN
from monitor.web.http.request_parsing import parse_query
from monitor.web.http.stream_slots import STREAM_HEADERS, StreamSlots
from monitor.web.views.events import (
    ONE_OF_THE_SHAPES,
    EventCursor,
    EventReader,
    EventSelection,
    cloud_event,
)
from monitor.web.views.log_positions import LogPosition, farthest
from monitor.web.views.view import ViewSources

log = structlog.get_logger()

_BATCH = 200
_IN_A_SLICE = 25  # of a batch of events, which are encoded and written
_KEEPALIVE_SECONDS = 15.0
_SEND_SECONDS = 30.0
_STREAMS_AT_ONCE = 64
_STREAMS_OF_A_SOURCE = 32


class StreamQuery(EventSelection, frozen=True, kw_only=True):
    """Which events, and where to begin: now, or after what is named here."""

    after: Annotated[
        EventCursor | None,
        Meta(description="A position: first the events after it. `Last-Event-ID` goes before it."),
    ] = None
    since: (
        Annotated[
            datetime,
            Meta(tz=True, description="First those that were recorded at that instant or later."),
        ]
        | None
    ) = None


class StreamedEvent(Struct, frozen=True, kw_only=True):
    """The fields of one message of the stream; ``data`` is a CloudEvent as outputs send it."""

    id: EventCursor
    event: EventType
    data: Annotated[
        str,
        Meta(
            extra_json_schema={
                "contentMediaType": CONTENT_TYPE,
                "contentSchema": ONE_OF_THE_SHAPES,
            }
        ),
    ]


class EventStreams:
    """Serves streams; a reader too slow for an event is disconnected and may reconnect."""

    def __init__(self, sources: ViewSources) -> None:
        self._sources = sources
        self._log = sources.log
        self._clock = sources.clock
        self._reader = EventReader(sources)
        self._slots = StreamSlots(
            "streams", in_all=_STREAMS_AT_ONCE, of_a_source=_STREAMS_OF_A_SOURCE
        )
        self._open: set[asyncio.Task[None]] = set()

    async def serve(self, request: web.Request) -> web.StreamResponse:
        """Stream events after ``Last-Event-ID``, or from now on."""
        query = parse_query(StreamQuery, request.match_info, request.query.items())
        self._sources.refuse_unknown(query.workspace)
        with self._slots.slot(source_of(request)):
            return await self._serve(request, query)

    async def _serve(self, request: web.Request, query: StreamQuery) -> web.StreamResponse:
        position = await self._begin(request, query)
        response = web.StreamResponse(headers=STREAM_HEADERS)
        await response.prepare(request)
        if request.method == hdrs.METH_HEAD:
            return response
        pump = self._pump(request, response, query, position)
        task = asyncio.create_task(pump, name="event stream")
        self._open.add(task)
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
            self._open.discard(task)
        return response

    def close(self) -> None:
        """End all streams, so that the server can stop."""
        for task in self._open:
            task.cancel()

    async def _begin(self, request: web.Request, query: StreamQuery) -> LogPosition:
        positions = self._reader.positions
        if last_id := request.headers.get("Last-Event-ID"):
            return await positions.after("Last-Event-ID", last_id, is_resumed=True)
        begins: list[LogPosition] = []
        if query.after is not None:
            begins.append(await positions.after("after", query.after, is_resumed=True))
        if query.since is not None:
            begins.append(await positions.since(query.since))
        return farthest(begins) if begins else await positions.newest()

    async def _pump(
        self,
        request: web.Request,
        response: web.StreamResponse,
        query: StreamQuery,
        position: LogPosition,
    ) -> None:
        sent_at = self._clock.monotonic()
        while await request[STILL_LET_IN]():
            recorded = await self._log.events(position.by_shard, limit=_BATCH)
            async for entry in in_slices(recorded, size=_IN_A_SLICE):
                position.includes(entry)
                event = entry.event
                if not (self._sources.sees(event.workspace) and query.includes(event)):
                    continue
                data = bytes(cloud_event(entry)).decode()
                cursor = self._reader.positions.cursor(entry)
                await self._send(response, f"id: {cursor}\nevent: {event.type}\ndata: {data}\n\n")
                sent_at = self._clock.monotonic()
            # Events that the filter leaves out send nothing, and only a write notices a reader
            # that is gone; so its time counts from the last write, not from the last event.
            left_seconds = sent_at + _KEEPALIVE_SECONDS - self._clock.monotonic()
            if left_seconds <= 0:
                await self._send(response, ": still here\n\n")
                sent_at = self._clock.monotonic()
            elif not recorded:
                await self._log.wait(position.by_shard, timeout_seconds=left_seconds)

    async def _send(self, response: web.StreamResponse, text: str) -> None:
        async with asyncio.timeout(_SEND_SECONDS):
            await response.write(text.encode())


def stream_route(streams: EventStreams) -> RawRoute:
    return RawRoute(
        name="events_stream",
        summary="Events as they are recorded: CloudEvents, as server-sent events.",
        api="/api/v1/events/stream",
        query=StreamQuery,
        content_type="text/event-stream",
        answer=StreamedEvent,
        problems={503: "Too many streams are open already."},
        serve=streams.serve,
    )
