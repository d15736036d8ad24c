"""Negotiates caching and compression with a client: entity tags and gzip."""

from __future__ import annotations

import hashlib
import re

from aiohttp import hdrs, web
from aiohttp.helpers import ETAG_ANY

_GZIP = re.compile(r"(?:^|,)\s*(?:gzip|\*)\s*(?:;\s*q=([0-9.]+)\s*)?(?=,|$)", re.IGNORECASE)


def tag_of(body: bytes) -> str:
    """Return the entity tag of a body; weak, because the compressed body has the same."""
    return f'W/"{hashlib.sha256(body).hexdigest()[:32]}"'


def holds(request: web.Request, tag: str) -> bool:
    """Return True if the client has the body of that tag already, so that 304 is the answer."""
    value = tag.removeprefix("W/").strip('"')
    return any(held.value in (value, ETAG_ANY) for held in request.if_none_match or ())


def takes_gzip(request: web.Request) -> bool:
    """Return True if the client takes a compressed body."""
    found = _GZIP.search(",".join(request.headers.getall(hdrs.ACCEPT_ENCODING, ())))
    return found is not None and not _is_zero(found[1])


def _is_zero(quality: str | None) -> bool:
    return quality is not None and not quality.strip("0.")
