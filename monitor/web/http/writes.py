"""Writes: each is logged with its author, and a source has only so many."""

from __future__ import annotations

import math
from collections import OrderedDict

import msgspec
import structlog
from aiohttp import web
from aiohttp.typedefs import Middleware

from monitor.listening.http_listener import source_of
from monitor.listening.refusals import RefusalReason, Refusals
from monitor.model.clock import Clock
from monitor.web.http.authentication import AUTHOR
from monitor.web.http.hosts import READING
from monitor.web.http.problem_details import Handler, problem_response
from monitor.web.http.request_parsing import BODY, one_line
from monitor.web.settings import ServerSettings

log = structlog.get_logger()

_SOURCES_REMEMBERED = 1_000
_SECONDS = 60.0
_PATH_SHOWN = 200  # characters
_BODY_SHOWN = 1_000


class WriteRates:
    """How many writes each source has left; they come back evenly over a minute."""

    def __init__(self, *, per_minute: int, clock: Clock) -> None:
        self._per_minute = per_minute
        self._clock = clock
        # Source -> the writes left, and when that was; the newest last.
        self._left: OrderedDict[str, tuple[float, float]] = OrderedDict()

    def take(self, source: str) -> float:
        """Take one write, and return 0; or take none, and return the seconds until there is one."""
        now, most = self._clock.monotonic(), float(self._per_minute)
        left, at = self._left.pop(source, (most, now))
        left = min(most, left + (now - at) * most / _SECONDS)
        wait = 0.0 if left >= 1 else (1 - left) * _SECONDS / most
        self._left[source] = (left if wait else left - 1, now)
        if len(self._left) > _SOURCES_REMEMBERED:
            self._left.popitem(last=False)
        return wait


def log_writes(settings: ServerSettings, refusals: Refusals, *, clock: Clock) -> Middleware:
    """Return the middleware that limits and logs what changes something."""
    rates = WriteRates(per_minute=settings.writes_per_minute, clock=clock)

    @web.middleware
    async def check(request: web.Request, handler: Handler) -> web.StreamResponse:
        if request.method in READING:
            return await handler(request)
        source = source_of(request)
        if wait := rates.take(source):
            refusals.add(RefusalReason.TOO_MANY_WRITES, source)
            answer = problem_response(
                429, f"a source may write {settings.writes_per_minute} times a minute"
            )
            answer.headers["Retry-After"] = str(math.ceil(wait))
            return answer
        status = 500
        try:
            response = await handler(request)
            status = response.status
            return response
        finally:
            _log(request, source, status)

    return check


def _log(request: web.Request, source: str, status: int) -> None:
    body = request.get(BODY)
    log.info(
        "admin write",
        who=request[AUTHOR],
        source=source,
        method=one_line(request.method[:_PATH_SHOWN]),
        path=one_line(request.path[:_PATH_SHOWN]),
        body=None if body is None else one_line(msgspec.json.encode(body).decode()[:_BODY_SHOWN]),
        status=status,
    )
