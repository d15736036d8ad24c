"""The types of routes of the JSON API beside views: each is served, and described, from one place.

A view (`views/view.py`) is what a page shows too; a write changes something; a raw route makes its
answer by itself, as a stream does.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from aiohttp import web
from msgspec import Struct

from monitor.web.http.problem_details import Handler
from monitor.web.http.request_parsing import answer_json, parse_query, read_body
from monitor.web.principals import Role
from monitor.web.views.view import NoParameters


class Confirmation(Struct, frozen=True, kw_only=True):
    """What was done, in one sentence."""

    detail: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ApiWrite:
    """A request that changes something.

    ``perform`` gets what the path names, and the body.

    Raises, from ``perform``:
        ProblemDetails: the request cannot be served.
        MonitorError: as `errors_as_problems` turns it into a problem.
    """

    name: str  # lower case, with underscores; no view has it
    summary: str  # one sentence: what it does
    api: str  # its route, such as "/api/v1/silences/{id}"
    method: Literal["POST", "DELETE"] = "POST"
    role: Role
    is_whole: bool = False  # about everything: not for who sees some workspaces only
    path: type[Struct] = NoParameters  # a field for each name in the route
    body: type[Struct] | None
    answer: type[Struct]
    status: int = 200  # where it succeeds
    problems: Mapping[int, str] = field(default_factory=dict)  # status -> when, beside the usual
    perform: Callable[[Any, Any], Awaitable[Struct]]

    async def serve(self, request: web.Request) -> web.Response:
        path = parse_query(self.path, request.match_info, request.query.items())
        body = None if self.body is None else await read_body(request, self.body)
        return answer_json(await self.perform(path, body), status=self.status)


@dataclass(frozen=True, slots=True, kw_only=True)
class RawRoute:
    """A GET that makes its answer by itself. Its handler parses ``query``."""

    name: str
    summary: str
    api: str
    query: type[Struct] = NoParameters
    content_type: str
    answer: Any  # type of the body, or of one message of a stream
    problems: Mapping[int, str] = field(default_factory=dict)
    has_tag: bool = False  # answers 304
    role: Role = Role.READ
    serve: Handler
