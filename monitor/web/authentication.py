"""Authentication of requests. Health checks are open: an orchestrator has no password."""

from __future__ import annotations

import base64

from aiohttp import web
from aiohttp.typedefs import Middleware

from monitor.model.secrets import Secret
from monitor.web.problems import Handler, problem_response
from monitor.web.settings import ServerSettings

_OPEN_PATHS = ("/healthz", "/readyz")


def authenticate(settings: ServerSettings) -> Middleware:
    """Return the middleware that accepts only requests with the token or the password."""

    @web.middleware
    async def check(request: web.Request, handler: Handler) -> web.StreamResponse:
        if not settings.has_auth or request.path in _OPEN_PATHS or _is_known(request, settings):
            return await handler(request)
        answer = problem_response(401, "this server needs a bearer token or a password")
        scheme = "Basic" if settings.password is not None else "Bearer"
        answer.headers["WWW-Authenticate"] = f'{scheme} realm="dataprep-monitor"'
        return answer

    return check


def _is_known(request: web.Request, settings: ServerSettings) -> bool:
    scheme, _, credentials = request.headers.get("Authorization", "").partition(" ")
    if scheme.lower() == "bearer" and settings.token is not None:
        return settings.token.matches(credentials.strip())
    if scheme.lower() == "basic" and settings.password is not None:
        try:
            decoded = base64.b64decode(credentials, validate=True).decode()
        except ValueError:  # no base64, or no text in it
            return False
        username, _, password = decoded.partition(":")
        # Both are compared, so that the response time does not reveal which of them failed.
        is_password = settings.password.matches(password)
        is_username = Secret(settings.username or "").matches(username)
        return is_password and is_username
    return False
