"""Authentication of requests. Health checks are open: an orchestrator has no password."""

from __future__ import annotations

import base64

from aiohttp import hdrs, web
from aiohttp.typedefs import Middleware

from monitor.listening.credentials import InvalidCredentials
from monitor.listening.http_listener import source_of
from monitor.model.secrets import Secret
from monitor.web.http.problem_details import Handler, problem_response
from monitor.web.settings import ServerSettings

_OPEN_PATHS = ("/healthz", "/readyz")


ANYBODY = "anonymous"
AUTHOR = web.RequestKey("author", str)  # who sends a request: a user's name, or "token"


def authenticate(settings: ServerSettings, wrong: InvalidCredentials) -> Middleware:
    """Return the middleware that accepts only requests with the token or the password."""

    @web.middleware
    async def check(request: web.Request, handler: Handler) -> web.StreamResponse:
        request[AUTHOR] = ANYBODY
        if settings.has_auth and request.path not in _OPEN_PATHS:
            author = _author(request, settings)
            if author is None:
                # Without credentials nothing was guessed: a browser asks so for the way to log in.
                if hdrs.AUTHORIZATION in request.headers:
                    await wrong.delay(source_of(request))
                return _challenge(settings)
            request[AUTHOR] = author
        return await handler(request)

    return check


def _challenge(settings: ServerSettings) -> web.Response:
    answer = problem_response(401, "this server needs a bearer token or a password")
    scheme = "Basic" if settings.password is not None else "Bearer"
    answer.headers["WWW-Authenticate"] = f'{scheme} realm="dataprep-monitor"'
    return answer


def _author(request: web.Request, settings: ServerSettings) -> str | None:
    """Return who sends a request, None where the credentials are wrong or absent."""
    scheme, _, credentials = request.headers.get(hdrs.AUTHORIZATION, "").partition(" ")
    if scheme.lower() == "bearer" and settings.token is not None:
        return "token" if settings.token.matches(credentials.strip()) else None
    if scheme.lower() == "basic" and settings.password is not None:
        try:
            decoded = base64.b64decode(credentials, validate=True).decode()
        except ValueError:  # no base64, or no text in it
            return None
        username, _, password = decoded.partition(":")
        # Both are compared, so that the response time does not reveal which of them failed.
        is_password = settings.password.matches(password)
        is_username = Secret(settings.username or "").matches(username)
        return settings.username if is_password and is_username else None
    return None
