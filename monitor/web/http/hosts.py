"""Under which names the server may be reached, and from which origins it may be written to.

A browser sends what any web page asks it to, with the password that it remembers, also to addresses
that only its own machine can reach; and a page's DNS may lead its own name here (DNS rebinding).
"""

from __future__ import annotations

import ipaddress
import re
from urllib.parse import SplitResult, urlsplit

from aiohttp import hdrs, web
from aiohttp.typedefs import Middleware

from monitor.listening.http_listener import source_of
from monitor.listening.refusals import RefusalReason, Refusals
from monitor.web.http.problem_details import Handler, problem_response
from monitor.web.settings import ServerSettings

# What orchestrators and scrapers read, under any name; a rebinding page learns little from it.
_OPEN_PATHS = ("/healthz", "/readyz", "/metrics")
READING = (hdrs.METH_GET, hdrs.METH_HEAD, hdrs.METH_OPTIONS)
_HOST = re.compile(r"(\[[0-9A-Fa-f:.]+\]|[^\[\]:@/?#\s]+)(?::([0-9]{1,5}))?")
_PORTS = {"http": 80, "https": 443}


def refuse_foreign(settings: ServerSettings, refusals: Refusals) -> Middleware:
    """Return the middleware that serves our own names, and writes of our own pages, only."""
    named = (settings.page_host, *settings.hosts)
    names = frozenset(map(_plain, (settings.host, *map(_as_sent, named))))

    @web.middleware
    async def check(request: web.Request, handler: Handler) -> web.StreamResponse:
        if request.path in _OPEN_PATHS and request.method in READING:
            return await handler(request)
        host = _parts(",".join(request.headers.getall(hdrs.HOST, ())))
        if host is None or not _is_ours(host[0], names):
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
