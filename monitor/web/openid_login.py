"""The way to an OpenID provider and back, as the page leads it."""

from __future__ import annotations

import hmac
from base64 import urlsafe_b64decode, urlsafe_b64encode
from http import HTTPStatus

import msgspec
import structlog
from aiohttp import web

from monitor.listening.http_listener import is_secure, source_of
from monitor.model.clock import Clock
from monitor.web.access.authentication import Authenticator
from monitor.web.access.openid import OpenIdError, OpenIdProvider, PendingLogin
from monitor.web.access.people import Recognised
from monitor.web.access.routes import Routes
from monitor.web.http.problem_details import ProblemDetails
from monitor.web.http.request_parsing import one_line
from monitor.web.login import LoginPages, leading_to, own_path
from monitor.web.settings import OidcSettings

log = structlog.get_logger()

BEGIN = "/login/oidc"
CALLBACK = f"{BEGIN}/callback"
_COOKIE = "dataprep_monitor_openid"
_SECURE_COOKIE = f"__Host-{_COOKIE}"  # which no other host can set: it would choose the user
_PENDING_SECONDS = 600
_LONGEST_COOKIE = 4_096
_LONGEST_CODE = 4_096
_LOG_SECONDS = 60.0  # between two lines: any stranger can let a log-in fail
_DECODER = msgspec.json.Decoder(PendingLogin)


class OpenIdLogin:
    """Routes that lead to the provider of the configuration in force, and back."""

    def __init__(self, pages: LoginPages, *, authenticator: Authenticator, clock: Clock) -> None:
        self._pages = pages
        self._authenticator = authenticator
        self._clock = clock
        self._made: tuple[OidcSettings, OpenIdProvider] | None = None
        self._failures = 0  # since the last line
        self._log_from = float("-inf")  # monotonic

    def add_routes(self, routes: Routes) -> None:
        routes.add("GET", BEGIN, self._begin, None)
        routes.add("GET", CALLBACK, self._finish, None)

    def _provider(self) -> OpenIdProvider:
        settings = self._authenticator.settings
        if settings.oidc is None:
            raise ProblemDetails(HTTPStatus.NOT_FOUND, "[server.oidc] is not configured")
        if self._made is None or self._made[0] != settings.oidc:
            redirect_uri = f"{settings.linked_url}{CALLBACK}"
            made = OpenIdProvider(settings.oidc, redirect_uri=redirect_uri, clock=self._clock)
            self._made = settings.oidc, made
        return self._made[1]

    async def _begin(self, request: web.Request) -> web.Response:
        leads_to = own_path(request.query.get("next", ""))
        try:
            url, pending = await self._provider().begin(leads_to)
        except OpenIdError as exc:
            return await self._refused(request, exc, leads_to=leads_to)
        answer = leading_to(url)
        answer.set_cookie(
            _cookie_name(request),
            urlsafe_b64encode(msgspec.json.encode(pending)).decode(),
            max_age=_PENDING_SECONDS,
            path="/",
            httponly=True,
            samesite="Lax",
            secure=is_secure(request),
        )
        return answer

    async def _finish(self, request: web.Request) -> web.Response:
        """Begin a session for whom the provider sends back."""
        pending = _pending(request)
        if pending is None:
            problem = OpenIdError("this log-in did not begin here, or too long ago; try again")
            return await self._refused(request, problem, status=HTTPStatus.BAD_REQUEST)
        try:
            provider = self._provider()
            user = await provider.finish(_code(request), pending)
        except OpenIdError as exc:
            return await self._refused(request, exc, leads_to=pending.leads_to)
        principal = self._authenticator.vouched(user.name, user.groups)
        if principal is None:
            self._authenticator.on_refused(source_of(request))
            problem = OpenIdError(f"the user {user.name} has no entry in [[access]]")
            return await self._refused(request, problem, status=HTTPStatus.FORBIDDEN)
        answer = leading_to(own_path(pending.leads_to))
        recognised = Recognised(principal=principal)
        await self._pages.keep_session(
            request, answer, recognised, groups=user.groups, issuer=provider.issuer
        )
        answer.del_cookie(_cookie_name(request), path="/", secure=is_secure(request))
        return answer

    async def _refused(
        self,
        request: web.Request,
        problem: OpenIdError,
        *,
        leads_to: str = "/",
        status: int = HTTPStatus.SERVICE_UNAVAILABLE,
    ) -> web.Response:
        self._log(problem)
        text = str(problem)
        return await self._pages.shown(
            request, leads_to, notice=f"{text[:1].upper()}{text[1:]}.", status=status
        )

    def _log(self, problem: OpenIdError) -> None:
        """Log a failure with the number of those since the last line."""
        self._failures += 1
        now = self._clock.monotonic()
        if now < self._log_from:
            return
        log.warning("openid log-in failed", reason=one_line(str(problem)), failures=self._failures)
        self._failures, self._log_from = 0, now + _LOG_SECONDS


def _cookie_name(request: web.Request) -> str:
    return _SECURE_COOKIE if is_secure(request) else _COOKIE


def _pending(request: web.Request) -> PendingLogin | None:
    """Return the log-in that this browser has begun with this state."""
    cookie = request.cookies.get(_cookie_name(request), "")
    if not cookie or len(cookie) > _LONGEST_COOKIE:
        return None
    try:
        pending = _DECODER.decode(urlsafe_b64decode(cookie))
    except (ValueError, msgspec.MsgspecError):
        return None
    state = request.query.get("state", "").encode()
    return pending if hmac.compare_digest(pending.state.encode(), state) else None


def _code(request: web.Request) -> str:
    """Return the code that the provider gave.

    Raises:
        OpenIdError: it gave none.
    """
    code = request.query.get("code", "")
    if code and len(code) <= _LONGEST_CODE:
        return code
    error = request.query.get("error_description") or request.query.get("error") or "no code came"
    raise OpenIdError(f"the provider let no user in: {one_line(error[:200])}")
