"""Logging in and out on the page, and what the page knows of who looks at it."""

from __future__ import annotations

import re
from http import HTTPStatus

from aiohttp import web

from monitor.listening.http_listener import is_secure, source_of
from monitor.web.access.authentication import (
    COOKIE,
    LOGIN,
    PRINCIPAL,
    SECURE_COOKIE,
    Authenticator,
    TooManyGuesses,
    session_of,
)
from monitor.web.access.people import Recognised
from monitor.web.access.routes import Routes
from monitor.web.audit.audit_log import AuditLog, AuditResult
from monitor.web.audit.recording import WRITE
from monitor.web.http.form_bodies import FormTokens, read_form
from monitor.web.http.problem_details import ProblemDetails
from monitor.web.page.shell import page_of_its_own
from monitor.web.principals import Role
from monitor.web.site import Sites
from monitor.web.views.view import WebPage

LOGOUT = "/logout"
ACCOUNT = "/account"
_FIELDS = ("next", "username", "secret")
_NEXT = re.compile(r"/(?![/\\])[!-\[\]-~]{0,1999}")  # a path of ours, in what a URL may hold


class LoginPages:
    """The form that begins a session, the page about it, and its end."""

    def __init__(
        self,
        *,
        sites: Sites,
        tokens: FormTokens,
        authenticator: Authenticator,
        audit: AuditLog,
    ) -> None:
        self._sites = sites
        self._tokens = tokens
        self._authenticator = authenticator
        self._audit = audit

    def add_routes(self, routes: Routes) -> None:
        routes.add("GET", LOGIN, self._form, None)
        routes.add("POST", LOGIN, self._log_in, None)
        routes.add("GET", ACCOUNT, self._account, Role.METRICS)
        routes.add("POST", LOGOUT, self._log_out, Role.METRICS, what="log_out")

    async def _form(self, request: web.Request) -> web.Response:
        leads_to = own_path(request.query.get("next", ""))
        if PRINCIPAL in request:
            return leading_to(leads_to)
        return await self.shown(request, leads_to)

    async def _log_in(self, request: web.Request) -> web.Response:
        """Begin a session for who shows a token, or a user name and password.

        Raises:
            ProblemDetails: the body is no such form.
            BusError: the session cannot be kept.
        """
        # A token that was typed into the field beside its own must not be logged either.
        fields, token = await read_form(request, _FIELDS, hidden=("secret", "username"))
        leads_to = own_path(fields.get("next", ""))
        username, secret = (fields.get(name, "").strip() for name in ("username", "secret"))
        shown_name = username if secret else ""
        if stale := await self._tokens.problem(request, token):
            return await self.shown(
                request, leads_to, notice=stale, username=shown_name, status=403
            )
        try:
            recognised = await self._authenticator.recognised(request, (username, secret))
        except ProblemDetails as problem:
            answer = await self.shown(
                request,
                leads_to,
                notice=f"{problem.detail[:1].upper()}{problem.detail[1:]}.",
                username=shown_name,
                status=problem.status,
            )
            if isinstance(problem, TooManyGuesses):
                answer.headers["Retry-After"] = str(problem.retry_after)
            return answer
        answer = leading_to(leads_to)
        await self.keep_session(request, answer, recognised)
        return answer

    async def keep_session(
        self,
        request: web.Request,
        answer: web.Response,
        recognised: Recognised,
        *,
        groups: tuple[str, ...] = (),
        issuer: str | None = None,
    ) -> None:
        """Begin a session, end the one that the browser had, and let it keep the new one."""
        sessions = self._authenticator.sessions
        if (former := session_of(request)) is not None:
            await sessions.end(former)
        principal = recognised.principal
        # Once it is known who it is: wrong guesses leave lines in sum.
        line = self._audit.line(
            "log_in", person=principal.name, source=source_of(request), entry=principal.entry
        )
        await self._audit.store(line)
        session_id = await sessions.begin(recognised, groups=groups, issuer=issuer)
        after = {"role": principal.role, "way": principal.way}
        await self._audit.finish(line, AuditResult.DONE, after=after)
        secure = is_secure(request)
        answer.set_cookie(
            SECURE_COOKIE if secure else COOKIE,
            session_id,
            max_age=sessions.lasts_seconds,
            path="/",
            httponly=True,
            samesite="Lax",
            secure=secure,
        )

    async def _log_out(self, request: web.Request) -> web.Response:
        _, token = await read_form(request, ())
        if stale := await self._tokens.problem(request, token):
            raise ProblemDetails(HTTPStatus.FORBIDDEN, stale.removesuffix("."))
        await request[WRITE].begin(None)
        if (session_id := session_of(request)) is not None:
            await self._authenticator.sessions.end(session_id)
        answer = leading_to(LOGIN)
        for name in (COOKIE, SECURE_COOKIE):
            answer.del_cookie(
                name, path="/", httponly=True, samesite="Lax", secure=name == SECURE_COOKIE
            )
        return answer

    async def _account(self, request: web.Request) -> web.Response:
        key = self._tokens.key_of(request)
        principal = request[PRINCIPAL]
        site = await self._sites.of(principal)
        body = await site.page.text(
            "account.html",
            has_state=principal.role.includes(Role.READ),
            page=WebPage(path=ACCOUNT, title="Account", boxes=(), is_live=False),
            title="Account",
            url=request.path_qs,
            apis=(),
            principal=principal,
            token=await self._tokens.token(key),
        )
        answer = page_of_its_own(body, HTTPStatus.OK)
        self._tokens.keep(answer, key, is_secure=is_secure(request))
        return answer

    async def shown(
        self,
        request: web.Request,
        leads_to: str,
        *,
        notice: str | None = None,
        username: str = "",
        status: int = HTTPStatus.OK,
    ) -> web.Response:
        """Return the form that logs in; ``notice`` says what went wrong."""
        key = self._tokens.key_of(request)
        template = self._sites.whole.page.templates.get_template("login.html")
        body = template.render(
            title="Log in",
            leads_to=leads_to,
            has_openid=self._authenticator.settings.oidc is not None,
            notice=notice,
            username=username,
            token=await self._tokens.token(key),
        )
        answer = page_of_its_own(body.encode(), status)
        self._tokens.keep(answer, key, is_secure=is_secure(request))
        return answer


def own_path(text: str) -> str:
    """Return a path of this server; where the text is none, that of the overview."""
    return text if _NEXT.fullmatch(text) else "/"


def leading_to(path: str) -> web.Response:
    """Return the answer that leads a browser on."""
    return web.Response(status=303, headers={"Location": path, "Cache-Control": "no-store"})
