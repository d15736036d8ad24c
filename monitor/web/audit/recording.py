"""Records every write of the page and the JSON API in the audit."""

from __future__ import annotations

from http import HTTPStatus
from typing import Any, NamedTuple

import msgspec
from aiohttp import web
from aiohttp.typedefs import Middleware

from monitor.listening.http_listener import source_of
from monitor.web.access.authentication import PRINCIPAL
from monitor.web.access.routes import Routes
from monitor.web.audit.audit_log import AuditLine, AuditLog, AuditResult
from monitor.web.audit.summed_refusals import SummedRefusals
from monitor.web.http.access import READING
from monitor.web.http.problem_details import Handler, ProblemDocument
from monitor.web.principals import ANYBODY, WayIn


class Caller(NamedTuple):
    """Who sends a request."""

    name: str
    is_known: bool  # False where the server asks for no log-in
    entry: str | None  # the [[access]] that gives the rights


def person_of(request: web.Request) -> Caller:
    """Return who sends a request, as it was authenticated."""
    principal = request.get(PRINCIPAL, ANYBODY)
    is_known = principal.way is not WayIn.ANONYMOUS
    return Caller(principal.name, is_known=is_known, entry=principal.entry)


class Write:
    """One write under way. Its handler says what is asked, and what was there before and after."""

    def __init__(self, audit: AuditLog, line: AuditLine, person: Caller) -> None:
        self.person = person
        self.before: Any = None
        self.after: Any = None
        self.reason: str | None = None  # why it was refused, where the answer is a page
        self._audit = audit
        self._line = line
        self.has_begun = False
        self._is_lost = False  # the store did not take it

    def author(self, given: str) -> str:
        """Return whom what is made here is of: the person, or where there is none, who is given."""
        return self.person.name if self.person.is_known else given

    async def begin(self, request: Any) -> None:
        """Store what is asked. Nothing may be changed before this has returned.

        Raises:
            BusError: it is not stored.
        """
        self._line = msgspec.structs.replace(self._line, request=request)
        self.has_begun = self._is_lost = True
        await self._audit.store(self._line)
        self._is_lost = False

    async def end(self, result: AuditResult, reason: str | None) -> None:
        """Store how it ended. Where its begin was not stored, nothing was changed."""
        if self._is_lost:
            return
        line = msgspec.structs.replace(self._line, before=self.before)
        after = self.after if result is AuditResult.DONE else None
        await self._audit.finish(line, result, after=after, reason=self.reason or reason)


WRITE = web.RequestKey("write", Write)  # of each request that changes something


def audit_writes(audit: AuditLog, routes: Routes, refused: SummedRefusals) -> Middleware:
    """Return the middleware that gives each write its line, and stores how it ended.

    Writes that a user may not do have a line in sum: else any user could push all others out.
    """

    @web.middleware
    async def record(request: web.Request, handler: Handler) -> web.StreamResponse:
        route = None if request.method in READING else routes.of(request)
        if route is None or route.what is None:
            return await handler(request)
        person = person_of(request)
        line = audit.line(
            route.what, person=person.name, source=source_of(request), entry=person.entry
        )
        write = request[WRITE] = Write(audit, line, person)
        try:
            answer = await handler(request)
        except Exception as exc:
            await write.end(AuditResult.FAILED, type(exc).__name__)
            raise
        reason = _reason(answer)
        if answer.status == HTTPStatus.FORBIDDEN and not write.has_begun and person.is_known:
            refused.add(line, reason or "")
        else:
            await write.end(_result(answer.status), reason)
        return answer

    return record


def _result(status: int) -> AuditResult:
    if status < HTTPStatus.BAD_REQUEST:
        return AuditResult.DONE
    is_refused = status < HTTPStatus.INTERNAL_SERVER_ERROR
    return AuditResult.REFUSED if is_refused else AuditResult.FAILED


def _reason(answer: web.StreamResponse) -> str | None:
    """Return the sentence of a problem; otherwise the phrase of a status, None of success."""
    body = answer.body if isinstance(answer, web.Response) else None
    if answer.content_type == "application/problem+json" and isinstance(body, bytes):
        return msgspec.json.decode(body, type=ProblemDocument).detail
    if answer.status < HTTPStatus.BAD_REQUEST:
        return None
    return HTTPStatus(answer.status).phrase
