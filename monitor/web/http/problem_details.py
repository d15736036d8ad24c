"""Errors of the JSON API, as RFC 9457 problem details; outages of the store are logged once."""

from __future__ import annotations

import http
from collections import Counter
from collections.abc import Awaitable, Callable

import msgspec
import structlog
from aiohttp import hdrs, web
from aiohttp.typedefs import Middleware
from msgspec import Struct

from monitor.model.clock import Clock
from monitor.model.errors import (
    BusError,
    MonitorError,
    NoSuchObjectError,
    OutputUnavailableError,
    TryLaterError,
)

log = structlog.get_logger()

_ANOTHER_SECONDS = 60.0  # without a refusal: the next one begins another outage

NOT_FOUND = "there is nothing under this address; /api/v1/openapi.json lists the JSON API"
_METHOD_SHOWN = 20  # characters of a method, which may be anything
_FOR_SCRIPTS = ("/api/", "/schemas", "/metrics", "/healthz", "/readyz")
Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


class StoreOutage:
    """What cannot be shown while the store does not answer: routes, and boxes of pages."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._refused: Counter[str] = Counter()
        self._refused_at = float("-inf")  # monotonic, the last time

    def refuse(self, shown: str, reason: BusError) -> None:
        """Note that this could not be shown."""
        now = self._clock.monotonic()
        if now - self._refused_at > _ANOTHER_SECONDS:
            self._refused.clear()  # what was refused is never asked for again
        if not self._refused:
            log.warning("request cannot be served now", route=shown, reason=str(reason))
        self._refused[shown] += 1
        self._refused_at = now

    def serve(self, shown: str) -> None:
        """Note that this was shown: the outage is over if it could not be before."""
        if shown in self._refused:  # others may need no store
            log.info("requests can be served again", refused=self._refused.total())
            self._refused.clear()


class ProblemDetails(Exception):  # noqa: N818 - a response on its way out, never seen outside
    """A request that cannot be served, with a hint."""

    def __init__(self, status: int, detail: str) -> None:
        super().__init__(detail)
        self.status = status
        self.detail = detail


def is_for_people(request: web.Request) -> bool:
    """True where a browser asks for a page."""
    accepted = request.headers.get(hdrs.ACCEPT, "")
    return "text/html" in accepted and not request.path.startswith(_FOR_SCRIPTS)


def number(name: str, text: str, *, most: int) -> int:
    """Return a number from 0 to ``most`` that a request gives as text.

    Raises:
        ProblemDetails: the text is no such number.
    """
    if not text.isdecimal() or len(text) > len(str(most)) or int(text) > most:
        raise ProblemDetails(400, f"{name}: {text[:40]!r} is not a number from 0 to {most}")
    return int(text)


class ProblemDocument(Struct, frozen=True, kw_only=True):
    """Problem details. ``detail`` is one sentence that says what to change."""

    type: str = "about:blank"
    title: str
    status: int
    detail: str


def problem_response(status: int, detail: str) -> web.Response:
    """Return a response with problem details."""
    title = http.HTTPStatus(status).phrase
    return web.Response(
        status=status,
        body=msgspec.json.encode(ProblemDocument(title=title, status=status, detail=detail)),
        content_type="application/problem+json",
    )


def errors_as_problems(outage: StoreOutage) -> Middleware:
    """Turn our errors into problem details; other errors stay aiohttp's 500, logged with trace."""

    @web.middleware
    async def answer(request: web.Request, handler: Handler) -> web.StreamResponse:
        route = _route(request)
        try:
            response = await handler(request)
        except ProblemDetails as problem:
            return problem_response(problem.status, problem.detail)
        except BusError as exc:
            return outage_response(request, exc, outage)
        except MonitorError as exc:
            status = _status_of(exc)
            if status == http.HTTPStatus.SERVICE_UNAVAILABLE:
                log.warning("request cannot be served now", route=route, reason=str(exc))
            return problem_response(status, str(exc))
        except web.HTTPException as exc:
            if exc.status < http.HTTPStatus.BAD_REQUEST:
                raise
            return _of_aiohttp(exc)
        outage.serve(route)
        return response

    return answer


def outage_response(request: web.Request, reason: BusError, outage: StoreOutage) -> web.Response:
    """Return the answer where the store does not answer, and note that."""
    outage.refuse(_route(request), reason)
    return problem_response(http.HTTPStatus.SERVICE_UNAVAILABLE, str(reason))


def _status_of(error: MonitorError) -> int:
    if isinstance(error, OutputUnavailableError | TryLaterError):
        return http.HTTPStatus.SERVICE_UNAVAILABLE
    is_missing = isinstance(error, NoSuchObjectError)
    return http.HTTPStatus.NOT_FOUND if is_missing else http.HTTPStatus.CONFLICT


def _of_aiohttp(error: web.HTTPException) -> web.Response:
    """Return the answer to a request that no route takes, or whose body is too long."""
    if isinstance(error, web.HTTPMethodNotAllowed):
        allowed = ", ".join(sorted(error.allowed_methods))
        method = error.method[:_METHOD_SHOWN]
        answer = problem_response(error.status, f"{method} is not allowed here, only {allowed}")
        answer.headers["Allow"] = allowed
        return answer
    is_missing = isinstance(error, web.HTTPNotFound)
    return problem_response(error.status, NOT_FOUND if is_missing else error.reason)


def _route(request: web.Request) -> str:
    # The route, not the path: a path may hold what should not be logged.
    resource = request.match_info.route.resource
    return resource.canonical if resource is not None else "unknown"
