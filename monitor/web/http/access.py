"""Access over HTTP: under which names and from which origins, with which credentials, how often.

A browser sends what any web page asks it to, with the password that it remembers, also to addresses
that only its own machine can reach; and a page's DNS may lead its own name here (DNS rebinding).
"""

from __future__ import annotations

import ipaddress
import math
import re
from collections.abc import Awaitable, Callable
from urllib.parse import SplitResult, urlsplit

import msgspec
import structlog
from aiohttp import hdrs, web
from aiohttp.typedefs import Middleware

from monitor.listening.http_listener import source_of
from monitor.listening.refusals import RefusalReason, Refusals
from monitor.model.clock import Clock
from monitor.web.http.problem_details import Handler, problem_response
from monitor.web.http.request_parsing import BODY, one_line
from monitor.web.http.source_rates import SourceRates
from monitor.web.principals import ANYBODY
from monitor.web.settings import ServerSettings

log = structlog.get_logger()

# What orchestrators read under any name; a rebinding page learns nothing from it.
_HEALTH_PATHS = ("/healthz", "/readyz")
_METRICS_PATH = "/metrics"
READING = (hdrs.METH_GET, hdrs.METH_HEAD, hdrs.METH_OPTIONS)
_HOST = re.compile(r"(\[[0-9A-Fa-f:.]+\]|[^\[\]:@/?#\s]+)(?::([0-9]{1,5}))?")
_PORTS = {"http": 80, "https": 443}

AUTHOR = web.RequestKey("author", str)  # who sends a request, as the log and the audit name him
IS_OURS = web.RequestKey("is_ours", bool)  # False where another name is asked for
# Returns whether a request that was let in would be again, as the same user: for long answers.
STILL_LET_IN: web.RequestKey[Callable[[], Awaitable[bool]]] = web.RequestKey("still_let_in")
_PATH_SHOWN = 200  # characters
_BODY_SHOWN = 1_000


def refuse_foreign(
    settings: ServerSettings, refusals: Refusals, *, must_authenticate: Callable[[], bool]
) -> Middleware:
    """Return the middleware that serves our own names, and writes of our own pages, only."""
    named = (settings.page_host, *settings.hosts)
    names = frozenset(map(_plain, (settings.host, *map(_as_sent, named))))

    def is_open(path: str) -> bool:
        """True for what is served under any name: a scraper's may be that of a container."""
        if path == _METRICS_PATH:
            # A rebinding page has no credentials; without any, it would read the metrics.
            return settings.allow_anonymous or must_authenticate()
        return path in _HEALTH_PATHS

    @web.middleware
    async def check(request: web.Request, handler: Handler) -> web.StreamResponse:
        host = _parts(",".join(request.headers.getall(hdrs.HOST, ())))
        request[IS_OURS] = host is not None and _is_ours(host[0], names)
        if request.method in READING and is_open(request.path):
            return await handler(request)
        if host is None or not request[IS_OURS]:
            refusals.add(RefusalReason.FOREIGN_HOST, source_of(request))
            return problem_response(
                421, "this server has another name; add the name to hosts in [server]"
            )
        if request.method not in READING and not _is_own_write(request, host, names):
            refusals.add(RefusalReason.FOREIGN_ORIGIN, source_of(request))
            return problem_response(403, "a page of another origin may change nothing here")
        return await handler(request)

    return check


def _is_ours(name: str, names: frozenset[str]) -> bool:
    if name in names or name == "localhost" or name.endswith(".localhost"):
        return True
    try:
        ipaddress.ip_address(name.strip("[]"))
    except ValueError:
        return False
    return True


def _is_own_write(
    request: web.Request, host: tuple[str, int | None], names: frozenset[str]
) -> bool:
    if request.headers.get("Sec-Fetch-Site", "").lower() == "cross-site":
        return False
    origins = request.headers.getall(hdrs.ORIGIN, ())
    return all(_is_own_origin(origin, host, names) for origin in origins)


def _is_own_origin(origin: str, host: tuple[str, int | None], names: frozenset[str]) -> bool:
    try:
        url = urlsplit(origin)
    except ValueError:
        return False
    parts, usual = _parts(url.netloc), _PORTS.get(url.scheme)
    if parts is None or usual is None or _has_more(url):
        return False
    name, port = parts[0], parts[1] or usual
    # A proxy in front may speak TLS, so that the port which the host leaves out is not known here.
    is_host = name == host[0] and port == (host[1] or usual)
    # It may also pass another host on than the browser's.
    return is_host or (name in names and port == usual)


def _has_more(url: SplitResult) -> bool:
    return bool(url.path or url.query or url.fragment)


def _parts(text: str) -> tuple[str, int | None] | None:
    """Return the name and port of ``HOST[:PORT]``, None for anything else."""
    match = _HOST.fullmatch(text)
    if match is None:
        return None
    return _plain(match[1]), None if match[2] is None else int(match[2])


def _as_sent(name: str) -> str:
    """Return a name as browsers send it, which encode what is not ASCII."""
    return name.encode("idna").decode()


def _plain(name: str) -> str:
    return name.lower().removesuffix(".")


def log_writes(settings: ServerSettings, refusals: Refusals, *, clock: Clock) -> Middleware:
    """Return the middleware that limits and logs what changes something."""
    of_source, of_user = (
        SourceRates(per_minute=settings.writes_per_minute, clock=clock) for _ in range(2)
    )

    @web.middleware
    async def check(request: web.Request, handler: Handler) -> web.StreamResponse:
        if request.method in READING:
            return await handler(request)
        source, author = source_of(request), request[AUTHOR]
        wait = of_source.take(source)
        if not wait and author != ANYBODY.name:
            wait = of_user.take(author)  # wherever from: a user may have addresses without end
        if wait:
            refusals.add(RefusalReason.TOO_MANY_WRITES, source)
            most = settings.writes_per_minute
            answer = problem_response(429, f"a source, and a user, may write {most} times a minute")
            answer.headers["Retry-After"] = str(math.ceil(wait))
            return answer
        status = 500
        try:
            response = await handler(request)
            status = response.status
            return response
        finally:
            _log(request, source, status)

    return check


def _log(request: web.Request, source: str, status: int) -> None:
    body = request.get(BODY)
    log.info(
        "admin write",
        who=request[AUTHOR],
        source=source,
        method=one_line(request.method[:_PATH_SHOWN]),
        path=one_line(request.path[:_PATH_SHOWN]),
        body=None if body is None else one_line(msgspec.json.encode(body).decode()[:_BODY_SHOWN]),
        status=status,
    )
