"""Reports to open pages that something has changed; each then requests itself again."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Sequence

from aiohttp import hdrs, web

from monitor.listening.http_listener import source_of
from monitor.model.clock import Clock
from monitor.model.events import Event
from monitor.web.http.access import STILL_LET_IN
from monitor.web.http.stream_slots import STREAM_HEADERS, StreamSlots

_SHORTEST_SECONDS = 2.0  # between two changes, so that a flood of events costs little
_SECONDS_OF_A_PAGE = 0.06  # more for each open page: all of them ask again
_LONGEST_SECONDS = 10.0  # progress and reachability change without an event
_SEND_SECONDS = 10.0
_PAGES_AT_ONCE = 256
_PAGES_OF_A_SOURCE = 128


class LivePages:
    """Counts changes, and reports them to the open pages.

    At most one every two seconds, and the fewer the more pages are open: what they cost together
    must not slow down what they show.
    """

    def __init__(self, *, clock: Clock, kept_seconds: Callable[[], float]) -> None:
        """``kept_seconds``: how long pages still get what was computed before a change."""
        self._clock = clock
        self._kept_seconds = kept_seconds
        self._has_news = asyncio.Event()
        self._changed = asyncio.Event()
        self._slots = StreamSlots("pages", in_all=_PAGES_AT_ONCE, of_a_source=_PAGES_OF_A_SOURCE)
        self._open: set[asyncio.Task[None]] = set()
        self.version = 0

    def on_events(self, events: Sequence[Event]) -> None:
        """Report a change soon."""
        if events:
            self._has_news.set()

    async def run(self) -> None:
        """Report changes until cancelled."""
        while True:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(_LONGEST_SECONDS):
                    await self._has_news.wait()
                # A request sent sooner would see the state before the change.
                await self._clock.sleep(self._kept_seconds())
            self._has_news.clear()
            self.touch()
            wait = _SHORTEST_SECONDS + _SECONDS_OF_A_PAGE * len(self._open)
            await self._clock.sleep(min(wait, _LONGEST_SECONDS))

    def touch(self) -> None:
        """Let every open page request itself again, now."""
        self.version += 1
        self._changed.set()
        self._changed = asyncio.Event()

    async def serve(self, request: web.Request) -> web.StreamResponse:
        """Report changes as server-sent events until the reader goes away."""
        with self._slots.slot(source_of(request)):
            return await self._serve(request)

    async def _serve(self, request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse(headers=STREAM_HEADERS)
        await response.prepare(request)
        if request.method == hdrs.METH_HEAD:
            return response
        task = asyncio.create_task(self._report(request, response), name="live page")
        self._open.add(task)
        try:
            await task
        except (ConnectionError, TimeoutError):
            task.cancel()
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

    async def _report(self, request: web.Request, response: web.StreamResponse) -> None:
        while await request[STILL_LET_IN]():
            changed = self._changed
            async with asyncio.timeout(_SEND_SECONDS):
                await response.write(f"event: changed\ndata: {self.version}\n\n".encode())
            await changed.wait()
