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


class ProblemDetails(Exception):  # noqa: N818 - a response on its way out, never seen outside
    """A request that cannot be served, with a hint."""

    def __init__(self, status: int, detail: str) -> None:
        super().__init__(detail)
        self.status = status
        self.detail = detail


def number(name: str, text: str, *, most: int) -> int:
    """Return a number from 0 to ``most`` that a request gives as text.

    Raises:
        ProblemDetails: the text is no such number.
    """
    if not text.isdecimal() or len(text) > len(str(most)) or int(text) > most:
        raise ProblemDetails(400, f"{name}: {text[:40]!r} is not a number from 0 to {most}")
    return int(text)


def problem_response(status: int, detail: str) -> web.Response:
    """Return a response with problem details."""
    body = {"type": "about:blank", "title": http.HTTPStatus(status).phrase, "status": status}
    return web.Response(
        status=status,
        body=msgspec.json.encode({**body, "detail": detail}),
        content_type="application/problem+json",
    )


@web.middleware
async def errors_as_problems(request: web.Request, handler: Handler) -> web.StreamResponse:
    """Turn our errors into problem details; other errors stay aiohttp's 500, logged with trace."""
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
