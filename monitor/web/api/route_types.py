"""The types of routes of the JSON API beside views: each is served, and described, from one place.

A view (`views/view.py`) is what a page shows too; a write changes something; a raw route makes its
answer by itself, as a stream does.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

import msgspec
from aiohttp import web
from msgspec import Struct

from monitor.web.audit.recording import WRITE, Write
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

    ``perform`` gets what the path names, the body, and the write as the audit has it: its line is
    stored by then, with both of them. What ``perform`` returns is what is there afterwards, unless
    it says otherwise.

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
    perform: Callable[[Any, Any, Write], Awaitable[Struct]]

    async def serve(self, request: web.Request) -> web.Response:
        path = parse_query(self.path, request.match_info, request.query.items())
        body = None if self.body is None else await read_body(request, self.body)
        write = request[WRITE]
        await write.begin(_asked(path, body))
        answer = await self.perform(path, body, write)
        write.after = answer if write.after is None else write.after
        return answer_json(answer, status=self.status)


def _asked(path: Struct, body: Struct | None) -> dict[str, Any]:
    """Return what a write is asked with: what the path names, and the keys of the body."""
    given = msgspec.structs.asdict(path)
    if body is not None:
        given |= msgspec.structs.asdict(body)
    return {name: value for name, value in given.items() if value is not None}


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
