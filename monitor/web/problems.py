"""Errors of the JSON API, as RFC 9457 problem details."""

from __future__ import annotations

import http
from collections.abc import Awaitable, Callable

import msgspec
import structlog
from aiohttp import web

from monitor.model.errors import (
    BusError,
    MonitorError,
    NoSuchObjectError,
    OutputUnavailableError,
    TryLaterError,
)

log = structlog.get_logger()

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


class ProblemDetails(Exception):  # noqa: N818 - an answer on its way out, never seen outside
    """A request that cannot be served, and what to do about it."""

    def __init__(self, status: int, detail: str) -> None:
        super().__init__(detail)
        self.status = status
        self.detail = detail


def number(name: str, told: str, *, most: int) -> int:
    """Return a number from 0 to ``most`` that a request names, or say what is wrong with it."""
    if not told.isdecimal() or len(told) > len(str(most)) or int(told) > most:
        raise ProblemDetails(400, f"{name}: {told[:40]!r} is not a number from 0 to {most}")
    return int(told)


def problem_response(status: int, detail: str) -> web.Response:
    """Return the answer that tells a problem."""
    body = {"type": "about:blank", "title": http.HTTPStatus(status).phrase, "status": status}
    return web.Response(
        status=status,
        body=msgspec.json.encode({**body, "detail": detail}),
        content_type="application/problem+json",
    )


@web.middleware
async def tell_problems(request: web.Request, handler: Handler) -> web.StreamResponse:
    """Turn failures into problem details; foreign errors stay aiohttp's 500, logged with trace."""
    try:
        return await handler(request)
    except ProblemDetails as problem:
        return problem_response(problem.status, problem.detail)
    except (BusError, OutputUnavailableError, TryLaterError) as exc:
        log.warning("request cannot be served now", route=_route(request), reason=str(exc))
        return problem_response(503, str(exc))
    except NoSuchObjectError as exc:
        return problem_response(404, str(exc))
    except MonitorError as exc:
        return problem_response(409, str(exc))
    except web.HTTPException as exc:
        if exc.status < http.HTTPStatus.BAD_REQUEST:
            raise
        return problem_response(exc.status, exc.reason)


def _route(request: web.Request) -> str:
    # The route, not the path: a path may hold what should not be logged.
    resource = request.match_info.route.resource
    return resource.canonical if resource is not None else "unknown"
