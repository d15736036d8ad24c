"""Finds out who asks, and whether the role of the user suffices, before any handler runs.

The first way in that a request uses decides: credentials in ``Authorization``, the cookie of a
session, a client certificate, and the name that a trusted proxy vouches for.
"""

from __future__ import annotations

import asyncio
import base64
import hmac
import math
import secrets
import ssl
from collections.abc import Awaitable, Callable, Collection
from datetime import datetime
from functools import partial
from http import HTTPStatus
from urllib.parse import urlencode

import msgspec
from aiohttp import hdrs, web
from aiohttp.typedefs import Middleware

from monitor.listening.credentials import InvalidCredentials
from monitor.listening.http_listener import (
    is_from_proxy,
    is_secure,
    remember_authenticated,
    source_of,
)
from monitor.model.bounded_memory import BoundedMemory
from monitor.model.clock import Clock
from monitor.model.errors import BusError
from monitor.web.access.guesses import Guesses
from monitor.web.access.people import People, Recognised
from monitor.web.access.routes import Routes
from monitor.web.access.sessions import Sessions
from monitor.web.access.token_hashes import TokenHashes
from monitor.web.http.access import AUTHOR, READING, STILL_LET_IN
from monitor.web.http.problem_details import (
    Handler,
    ProblemDetails,
    StoreOutage,
    is_for_people,
    outage_response,
    problem_response,
)
from monitor.web.principals import ANYBODY, Principal, WayIn
from monitor.web.settings import ServerSettings

PRINCIPAL = web.RequestKey("principal", Principal)  # absent for strangers on open routes
COOKIE = "dataprep_monitor_session"
SECURE_COOKIE = f"__Host-{COOKIE}"  # browsers take it over TLS only
_LONGEST_CREDENTIALS = 4_096
_KEY_BYTES = 32
_REMEMBERED = 1_000
_AT_ONCE = 2  # each comparison takes 19 MiB and some ten ms of a processor
_NAME_KINDS = ("email", "DNS", "URI")
_REALM = 'realm="dataprep-monitor"'
LOGIN = "/login"


class Authenticator:
    """Knows the people of the configuration in force, and recognises them."""

    def __init__(
        self,
        settings: ServerSettings,
        *,
        sessions: Sessions,
        wrong: InvalidCredentials,
        on_refused: Callable[[str], None],
        clock: Clock,
    ) -> None:
        """``on_refused`` is called with the source of each log-in that is refused."""
        self.sessions = sessions
        self.on_refused = on_refused
        self._started_with = settings
        self._hashes = TokenHashes()
        self._wrong = wrong
        self._clock = clock
        self._guesses = Guesses(clock=clock)
        self._room = asyncio.Semaphore(_AT_ONCE)
        self._key = secrets.token_bytes(_KEY_BYTES)
        self._right: BoundedMemory[bytes, bool] = BoundedMemory(_REMEMBERED)  # by their digest
        self.reconfigure(settings)

    def reconfigure(self, settings: ServerSettings) -> None:
        """Let other people in from now on; sessions of those who are gone are over.

        Who had to authenticate at the start still has to: the address that we listen on, and for
        which that was decided, stays as well.
        """
        self.settings = msgspec.structs.replace(
            self._started_with,
            token=settings.token,
            username=settings.username,
            password=settings.password,
            oidc=settings.oidc,
            access=settings.access,
        )
        self.is_needed = self._started_with.has_auth or self.settings.has_auth
        self._people = People(self.settings, self._hashes)

    async def principal(self, request: web.Request) -> Principal | None:
        """Return who asks; None for a stranger.

        Raises:
            ProblemDetails: the credentials are wrong (401), come from where none are taken (403),
                or must wait (429).
            BusError: the session cannot be read.
        """
        if not self.is_needed:
            return ANYBODY
        if hdrs.AUTHORIZATION in request.headers:
            return (await self.recognised(request, _in_header(request))).principal
        if (session_id := session_of(request)) is not None:
            found = await self.sessions.principal(session_id, self._people)
            if found is not None:
                return found
        return self._vouched(request)

    async def still_lets_in(self, request: web.Request, principal: Principal) -> bool:
        """Return whether a request that is being answered would come in now as it did."""
        try:
            return await self.principal(request) == principal
        except (ProblemDetails, BusError):
            return False

    async def recognised(
        self, request: web.Request, credentials: tuple[str, str] | None
    ) -> Recognised:
        """Return whose credentials these are: a user name, empty for a token alone, and a secret.

        Raises:
            ProblemDetails: they are wrong (401), or the source has to wait (429).
        """
        source = source_of(request)
        username, secret = credentials or ("", "")
        digest = hmac.digest(
            self._key, f"{username}:{secret}".encode(errors="surrogateescape"), "sha256"
        )
        # Those that came together wait here: what the first of them were is known when the next are
        # looked at.
        async with self._room:
            wait = self._guesses.wait_seconds(source)
            if wait and self._right.get(digest) is None:
                self._wrong.refuse(source)
                self.on_refused(source)
                raise TooManyGuesses(wait)
            found = None if credentials is None else await self._compared(username, secret)
            if found is not None:
                self._right.put(digest, True)
                self._guesses.know(source)
                return found
            self._right.forget(digest)
            self._guesses.add(source)
            self.on_refused(source)
        await self._wrong.delay(source)
        raise ProblemDetails(401, "the token or password is wrong, or is accepted no more")

    async def _compared(self, username: str, secret: str) -> Recognised | None:
        now = self._clock.now()
        if username:
            return await self._people.of_password(username, secret, now=now)
        return await self._people.of_token(secret, now=now)

    def vouched(self, user: str, groups: Collection[str]) -> Principal | None:
        """Return what a user may do whom an OpenID provider vouches for; None where nothing."""
        return self._people.of_user(user, groups, way=WayIn.OPENID, now=self._clock.now())

    def _vouched(self, request: web.Request) -> Principal | None:
        """Return whom a client certificate or a trusted proxy names."""
        now = self._clock.now()
        for name in certificate_names(request, now=now):
            found = self._people.of_user(name, (), way=WayIn.CERTIFICATE, now=now)
            if found is not None:
                return found
        header = self.settings.user_header
        if header is None or header not in request.headers:
            return None
        if not is_from_proxy(request):
            raise ProblemDetails(403, f"{header} is taken from trusted_proxies only")
        names = request.headers.getall(header)
        if len(names) > 1:
            raise ProblemDetails(400, f"{header} is given {len(names)} times")
        user = names[0].strip()
        if not user:
            return None  # no user is logged in there
        groups: tuple[str, ...] = ()
        if self.settings.groups_header is not None:
            texts = request.headers.getall(self.settings.groups_header, ())
            groups = tuple(filter(None, (word.strip() for word in ",".join(texts).split(","))))
        return self._people.of_user(user, groups, way=WayIn.PROXY, now=now)


class TooManyGuesses(ProblemDetails):
    """The source has sent too many wrong credentials."""

    def __init__(self, wait_seconds: float) -> None:
        self.retry_after = math.ceil(wait_seconds)
        super().__init__(
            429,
            "too many wrong tokens or passwords came from your address, or from all together; "
            f"nothing is looked at for {self.retry_after} s",
        )


def session_of(request: web.Request) -> str | None:
    """Return the id of the session in a request's cookie.

    Over TLS the plain one does not count: another host, or a page without TLS, could set it.
    """
    return request.cookies.get(SECURE_COOKIE if is_secure(request) else COOKIE)


def certificate_names(request: web.Request, *, now: datetime) -> list[str]:
    """Return the names in the verified client certificate of a connection.

    None once it has expired: it was verified when the connection began, perhaps days ago.
    """
    transport = request.transport
    found = None if transport is None else transport.get_extra_info("peercert")
    if not found or ssl.cert_time_to_seconds(found["notAfter"]) <= now.timestamp():
        return []
    subject = [pair for part in found.get("subject", ()) for pair in part]
    named = [value for name, value in subject if name in ("commonName", "emailAddress")]
    others = [value for kind, value in found.get("subjectAltName", ()) if kind in _NAME_KINDS]
    return [*named, *others]


def _in_header(request: web.Request) -> tuple[str, str] | None:
    """Return user name and secret of ``Authorization``; None where it cannot be read."""
    scheme, _, credentials = request.headers.get(hdrs.AUTHORIZATION, "").partition(" ")
    if len(credentials) > _LONGEST_CREDENTIALS:
        return None
    if scheme.lower() == "bearer":
        return "", credentials.strip()
    if scheme.lower() != "basic":
        return None
    try:
        decoded = base64.b64decode(credentials, validate=True).decode()
    except ValueError:  # no base64, or no text in it
        return None
    username, _, password = decoded.partition(":")
    return username, password


def authenticate(authenticator: Authenticator, routes: Routes, outage: StoreOutage) -> Middleware:
    """Return the middleware that lets in only those who are known, or whom a route is open to.

    Where a session cannot be read, open routes answer as they do to strangers.
    """

    @web.middleware
    async def check(request: web.Request, handler: Handler) -> web.StreamResponse:
        needed = routes.needed(request)
        request[AUTHOR] = ANYBODY.name
        try:
            principal = await authenticator.principal(request)
        except ProblemDetails as problem:
            if needed is None and hdrs.AUTHORIZATION not in request.headers:
                return await handler(request)
            return _refused(problem, authenticator.settings)
        except BusError as exc:
            if needed is None:
                return await handler(request)
            return outage_response(request, exc, outage)
        if principal is None:
            return await handler(request) if needed is None else _unknown(request, authenticator)
        request[PRINCIPAL], request[AUTHOR] = principal, principal.name
        still: Callable[[], Awaitable[bool]] = partial(
            authenticator.still_lets_in, request, principal
        )
        request[STILL_LET_IN] = still
        if authenticator.is_needed:
            remember_authenticated(request)
        return await handler(request)

    return check


def authorize(routes: Routes) -> Middleware:
    """Return the middleware that takes from each only what the role and its workspaces allow."""

    @web.middleware
    async def check(request: web.Request, handler: Handler) -> web.StreamResponse:
        principal, needed = request.get(PRINCIPAL), routes.needed(request)
        if principal is None:
            return await handler(request)
        if needed is not None and not principal.role.includes(needed):
            return problem_response(
                403, f"{principal.name} has the role {principal.role}; this needs {needed}"
            )
        route = routes.of(request)
        if principal.workspaces and route is not None and route.is_whole:
            return problem_response(
                403, f"{principal.name} sees some workspaces only; this is about all of them"
            )
        return await handler(request)

    return check


def _unknown(request: web.Request, authenticator: Authenticator) -> web.StreamResponse:
    """Lead a person to the form that logs in; tell a program what is missing."""
    settings = authenticator.settings
    if settings.has_login and is_for_people(request) and request.method in READING:
        leads_to = f"{LOGIN}?{urlencode({'next': request.path_qs})}"
        return web.Response(status=303, headers={"Location": leads_to, "Cache-Control": "no-store"})
    return _refused(ProblemDetails(401, "this server needs a bearer token or a password"), settings)


def _refused(problem: ProblemDetails, settings: ServerSettings) -> web.Response:
    answer = problem_response(problem.status, problem.detail)
    if problem.status == HTTPStatus.UNAUTHORIZED:
        # With a form to log in, a browser must not ask in a dialog of its own.
        is_basic = settings.password is not None and not settings.has_login
        answer.headers["WWW-Authenticate"] = f"{'Basic' if is_basic else 'Bearer'} {_REALM}"
    if isinstance(problem, TooManyGuesses):
        answer.headers["Retry-After"] = str(problem.retry_after)
    return answer
