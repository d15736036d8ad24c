"""Spoils answers and lists, as the world's options say."""

from __future__ import annotations

import math
import random
from collections.abc import Awaitable, Callable, Iterable, Iterator
from datetime import timedelta
from typing import TypeVar

import msgspec
from aiohttp import web

from monitor.catalogue.operations import Edition, Operation
from monitor.sandbox.api.errors import ApiError, Json
from monitor.sandbox.api.request.listing import ListQuery
from monitor.sandbox.world.faults import WorldOptions
from monitor.sandbox.world.records.objects import Record
from monitor.sandbox.world.records.runs import JobGroup, PlanSnapshotRun
from monitor.sandbox.world.shelves import World

Serve = Callable[[web.Request], Awaitable[web.Response]]

# Of a request: when its answer was made, where that is not the moment of sending.
DATE = web.RequestKey("date", str)
_LIMIT = 100  # that the headers of a made-up quota show
_PAGE = """<!DOCTYPE html>
<html><head><title>{title}</title></head>
<body><center><h1>{title}</h1></center><hr><center>gateway</center></body></html>
"""
T = TypeVar("T", bound=Record)
# An id below those that job groups have; by it nothing is found.
POISON_ID = 39_999
_POISON: dict[str, Json] = {
    "types": {
        "id": POISON_ID,
        "status": 7,
        "ranfor": ["recipe"],
        "createdAt": {"seconds": 1},
        "updatedAt": "yesterday",
        "wrangledDataset": "none",
        "flowRun": [],
        "creator": 1,
    },
    "id": {"id": {"value": POISON_ID}, "status": "Complete", "ranfor": "recipe"},
    "text": "an internal error occurred while this row was read",
}
_POISONED = frozenset({"listJobLibrary", "countJobLibrary"})


class Chances:
    """Draws for each ratio from a generator of its own, and only while the ratio is above 0."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._generators: dict[str, random.Random] = {}

    def of(self, name: str) -> random.Random:
        """Return the generator of one fault."""
        found = self._generators.get(name)
        if found is None:
            found = self._generators[name] = self._world.random("fault", name)
        return found

    def strikes(self, name: str) -> bool:
        """True where the fault with that name happens now."""
        ratio: float = getattr(self._world.options, name)
        return ratio > 0 and self.of(name).random() < ratio


class FaultyAnswers:
    """Stands before everything that answers below ``/v4``."""

    def __init__(self, world: World) -> None:
        """Begin the count of the seconds after which operations are lost."""
        self._world = world
        self._chances = Chances(world)
        self._began = world.clock.monotonic()

    @property
    def _options(self) -> WorldOptions:
        return self._world.options

    def is_lost(self, operation: Operation) -> bool:
        """True from the moment on that ``lose`` or ``renewal`` names for this operation."""
        afters = [self._options.lose.get(operation.operation_id)]
        if not operation.is_part_of(Edition.PC):
            afters.append(self._options.renewal)
        passed = self._world.clock.monotonic() - self._began
        return any(after is not None and passed >= after for after in afters)

    async def answer(
        self, request: web.Request, operation: Operation | None, serve: Serve
    ) -> web.StreamResponse:
        """Answer by ``serve``, unless a fault answers instead or spoils what it says.

        ``operation`` is None where the path is no operation.
        """
        only = self._options.only
        if only and (operation is None or operation.operation_id not in only):
            return await serve(request)
        await self._wait()
        refusal = self._refusal()
        if refusal is not None:
            return refusal
        response = await serve(request)
        if self._options.answer_latency > 0:
            # Its time is that of its making, as with an answer that is slow on its way.
            request[DATE] = self._world.date()
            await self._world.clock.sleep(self._options.answer_latency)
        return await self._spoiled(request, response)

    async def _wait(self) -> None:
        seconds = self._options.latency
        if self._options.latency_jitter > 0:
            seconds += self._chances.of("latency_jitter").uniform(0, self._options.latency_jitter)
        if seconds > 0:
            await self._world.clock.sleep(seconds)

    def _refusal(self) -> web.Response | None:
        """Return what is answered instead. All are drawn, so that none depends on another."""
        makers: dict[str, Callable[[], web.Response]] = {
            "status_429": self._too_many,
            "status_500": lambda: _error(500, "InternalServerError", "Internal server error"),
            "status_503": lambda: _error(503, "ServiceUnavailable", "Service unavailable"),
            "html_error": lambda: _page(502, "502 Bad Gateway"),
            "html_login": lambda: _page(200, "Sign in"),
        }
        struck = [make for name, make in makers.items() if self._chances.strikes(name)]
        return struck[0]() if struck else None

    def _too_many(self) -> web.Response:
        wait_seconds = math.ceil(self._options.retry_after_seconds)
        reset = int((self._world.now().timestamp() + wait_seconds) * 1_000)
        headers = {"x-retry-after": str(wait_seconds)}
        for scope in ("user", "workspace"):
            headers[f"x-rate-limit-{scope}-limit"] = str(_LIMIT)
            headers[f"x-rate-limit-{scope}-remaining"] = "0"
            headers[f"x-rate-limit-{scope}-reset"] = str(reset)
        details = f"API quota reached. Wait {wait_seconds} seconds before making a new request."
        return _error(429, "TooManyRequestsException", "Too Many Requests", details, headers)

    async def _spoiled(self, request: web.Request, response: web.Response) -> web.StreamResponse:
        struck = [
            name for name in ("dropped", "broken_off", "truncated") if self._chances.strikes(name)
        ]
        if "dropped" in struck:
            if request.transport is not None:
                request.transport.abort()  # what is written to it afterwards goes nowhere
            return response
        body = response.body
        if not struck or not isinstance(body, bytes) or response.content_type == "text/html":
            return response
        if "broken_off" in struck:
            return await _broken_off(request, response, body)
        response.body = body[: len(body) // 2]
        return response


async def _broken_off(
    request: web.Request, response: web.Response, body: bytes
) -> web.StreamResponse:
    """Announce the whole body, send half of it and hang up."""
    stream = web.StreamResponse(status=response.status, headers=response.headers)
    stream.content_length = len(body)
    await stream.prepare(request)
    await stream.write(body[: len(body) // 2])
    if request.transport is not None:
        request.transport.close()
    return stream


def _error(
    status: int,
    name: str,
    message: str,
    details: str = "",
    headers: dict[str, str] | None = None,
) -> web.Response:
    refusal = ApiError(status, name, message, details or message)
    return web.Response(
        status=status,
        body=msgspec.json.encode(refusal.body()),
        content_type="application/json",
        headers=headers,
    )


def _page(status: int, title: str) -> web.Response:
    return web.Response(status=status, text=_PAGE.format(title=title), content_type="text/html")


class FaultyLists:
    """Stands between the rows that there are and the page that is shown."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._chances = Chances(world)

    def visible(self, rows: Iterable[T]) -> Iterable[T]:
        """Return the rows without those that are late or missing."""
        if self._world.options.missing_rows > 0:
            rows = (row for row in rows if not self._is_drawn("missing_rows", row))
        return self._in_time(rows) if self._world.options.late_rows > 0 else rows

    def requested(self, operation: Operation, query: ListQuery) -> ListQuery:
        """Return which page is served instead of the requested one."""
        offset, limit = query.offset, query.limit
        if self._world.options.page_cap > 0 and limit is not None:
            limit = min(limit, self._world.options.page_cap)
        if offset > 0 and self._chances.strikes("shifted_pages"):
            offset = max(0, offset + self._shift())
        if self._poison(operation) is not None:
            # The poison stands before all others, so their positions are one further back.
            if query.offset > 0:
                offset -= 1
            elif limit is not None:
                limit -= 1
        return msgspec.structs.replace(query, offset=max(0, offset), limit=limit)

    def shown(self, operation: Operation, query: ListQuery, page: list[Json]) -> list[Json]:
        """Return the page as it goes out; ``query`` is what the caller requested."""
        if self._chances.strikes("shuffled_pages"):
            self._chances.of("shuffling").shuffle(page)
        poison = self._poison(operation)
        if poison is not None and query.offset == 0:
            page.insert(0, poison)
        return page

    def count(self, operation: Operation, count: int) -> int:
        """Return how many rows there are, unreadable ones too."""
        return count if self._poison(operation) is None else count + 1

    def _poison(self, operation: Operation) -> Json:
        if operation.operation_id not in _POISONED:
            return None
        return _POISON.get(self._world.options.poison_row)

    def _shift(self) -> int:
        return self._world.options.page_shift or self._chances.of("page_shift").choice((-1, 1))

    def _in_time(self, rows: Iterable[T]) -> Iterator[T]:
        options = self._world.options
        visible_until = self._world.now() - timedelta(seconds=options.late_seconds)
        for row in rows:
            is_run = isinstance(row, JobGroup | PlanSnapshotRun)
            if is_run and row.updated_at > visible_until and self._is_drawn("late_rows", row):
                continue
            yield row

    def _is_drawn(self, fault: str, row: Record) -> bool:
        return self._world.struck(fault, type(row).__name__, row.id) is not None
