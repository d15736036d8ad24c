"""Limits of reads by what they cost: a source that asks for much is told to wait.

Every read is made on the one event loop, which polls, callbacks and other readers share.
"""

from __future__ import annotations

import math

from aiohttp import web
from aiohttp.typedefs import Middleware

from monitor.listening.http_listener import source_of
from monitor.listening.refusals import RefusalReason, Refusals
from monitor.model.clock import Clock
from monitor.web.http.access import READING
from monitor.web.http.problem_details import Handler, problem_response
from monitor.web.http.source_rates import SourceRates
from monitor.web.settings import ServerSettings

_CHEAP = ("/static/", "/healthz", "/readyz", "/metrics")  # kept in memory, or asked by probes
_ROWS = 100  # for the cost of one request more; as many as a list has without a limit
_MOST_ROWS = 100_000
_DIGITS = 9  # of a number that is worth reading
_PATTERN_COST = 10.0  # every name is compared
_PATTERN_SIGNS = frozenset("*?[")


def cost_of(request: web.Request) -> float:
    """Return what a read costs: 1, and 1 more for each hundred rows, and 10 for each pattern."""
    if request.path.startswith(_CHEAP):
        return 0.0
    rows = request.query.get("limit", "")[:_DIGITS]
    count = int(rows) if rows.isascii() and rows.isdigit() else 0
    patterns = sum(not _PATTERN_SIGNS.isdisjoint(value) for value in request.query.values())
    return 1.0 + min(count, _MOST_ROWS) / _ROWS + _PATTERN_COST * patterns


def limit_reads(settings: ServerSettings, refusals: Refusals, *, clock: Clock) -> Middleware:
    """Return the middleware that answers 429 to a source whose reads cost too much."""
    rates = SourceRates(per_minute=settings.read_cost_per_minute, clock=clock)

    @web.middleware
    async def check(request: web.Request, handler: Handler) -> web.StreamResponse:
        if request.method not in READING or not (cost := cost_of(request)):
            return await handler(request)
        source = source_of(request)
        if wait := rates.take(source, cost):
            refusals.add(RefusalReason.TOO_MANY_READS, source)
            answer = problem_response(
                429, "a source may not read so much in a minute; ask for fewer rows, or wait"
            )
            answer.headers["Retry-After"] = str(math.ceil(wait))
            return answer
        return await handler(request)

    return check
