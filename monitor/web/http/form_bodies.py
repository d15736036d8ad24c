"""Forms of pages that change something: their bodies, and the token against cross-site requests.

A page of another site may let a browser send a form here, with the password that it remembers. The
origin is checked for each write (see `access`); beside that, a form carries a token that is bound
to a cookie, which browsers neither send nor show to other sites. The token goes with the button
that sends the form and never into a URL or a log line.
"""

from __future__ import annotations

import asyncio
import hmac
import re
import secrets
from collections.abc import Collection
from urllib.parse import parse_qsl

from aiohttp import web

from monitor.listening.http_listener import is_secure
from monitor.model.clock import Clock
from monitor.web.http.form_keys import FORM_SECONDS, FormKeys
from monitor.web.http.problem_details import ProblemDetails
from monitor.web.http.request_parsing import BODY, BODY_SECONDS, SHOWN, one_line

TOKEN = "token"  # noqa: S105 - the name of the field
COOKIE = "dataprep_monitor_form"
# Over TLS: browsers take such a cookie from this very host only, and from no page without TLS.
SECURE_COOKIE = f"__Host-{COOKIE}"
_KEY_BYTES = 32
_KEY = re.compile(r"[A-Za-z0-9_-]{43}")
# When it was made, in seconds since 1970, the name of the key that signed it, and a number.
_ISSUED = re.compile(r"([0-9]{1,12})-([^-]+)-[0-9a-f]{16}")
_FIELDS = 20
_TOO_OLD = "This form was too old, and nothing was changed. Check it and send it again."
_FORM_BODY_BYTES = 32 * 1024

Fields = dict[str, str]


class FormTokens:
    """Makes and checks tokens. All daemons of a store accept those of each."""

    def __init__(self, keys: FormKeys, *, clock: Clock) -> None:
        self._keys = keys
        self._clock = clock

    def key_of(self, request: web.Request) -> str:
        """Return the key in the browser's cookie; a new one where it has none."""
        key = _cookie_of(request)
        return key if _KEY.fullmatch(key) else secrets.token_urlsafe(_KEY_BYTES)

    async def token(self, key: str) -> str:
        """Return a token for one form of that browser; each is another one.

        Raises:
            BusUnavailableError: the store holds no key yet, and takes none.
        """
        signing = await self._keys.own()
        now = int(self._clock.now().timestamp())
        issued = f"{now}-{signing.name}-{secrets.token_hex(8)}"
        return f"{issued}-{_signed(signing.key, key, issued)}"

    async def problem(self, request: web.Request, token: str) -> str | None:
        """Return why a token is not accepted, as a sentence for the person; None where it is.

        Raises:
            BusUnavailableError: the key that signed it cannot be read.
        """
        key = _cookie_of(request)
        if not _KEY.fullmatch(key):
            return "Your browser sent no cookie of this server; allow it, and send the form again."
        issued, _, signature = token.rpartition("-")
        parts = _ISSUED.fullmatch(issued)
        signing = None if parts is None else await self._keys.of(parts[2])
        if parts is None or signing is None:
            return _TOO_OLD
        is_ours = hmac.compare_digest(signature.encode(), _signed(signing, key, issued).encode())
        is_old = self._clock.now().timestamp() - int(parts[1]) > FORM_SECONDS
        return _TOO_OLD if is_old or not is_ours else None

    def keep(self, response: web.StreamResponse, key: str, *, is_secure: bool) -> None:
        """Let the browser keep the key of its forms."""
        name = SECURE_COOKIE if is_secure else COOKIE
        response.set_cookie(name, key, path="/", httponly=True, samesite="Strict", secure=is_secure)


def _signed(signing: bytes, key: str, issued: str) -> str:
    return hmac.digest(signing, f"{key} {issued}".encode(), "sha256").hex()


def _cookie_of(request: web.Request) -> str:
    return request.cookies.get(SECURE_COOKIE if is_secure(request) else COOKIE, "")


async def read_form(
    request: web.Request, names: Collection[str], *, hidden: Collection[str] = ()
) -> tuple[Fields, str]:
    """Return the fields of a form, and its token, which no line of the log has, nor ``hidden``.

    Raises:
        ProblemDetails: it is no form, too large, has other fields, or is not there in time.
    """
    if request.content_type != "application/x-www-form-urlencoded":
        raise ProblemDetails(415, "body: it must be a form, application/x-www-form-urlencoded")
    try:
        async with asyncio.timeout(request.app[BODY_SECONDS]):
            body = await request.read()
    except TimeoutError as exc:
        raise ProblemDetails(408, "body: it did not arrive in time") from exc
    if len(body) > _FORM_BODY_BYTES:
        raise ProblemDetails(413, f"body: it is longer than {_FORM_BODY_BYTES:,} bytes")
    try:
        pairs = parse_qsl(
            body.decode("ascii"), keep_blank_values=True, max_num_fields=_FIELDS, errors="strict"
        )
    except ValueError as exc:  # no ASCII, no UTF-8 after decoding, or too many fields
        raise ProblemDetails(400, "body: it is no form that a browser sends") from exc
    fields = dict(pairs)
    for name in fields:
        if name not in (*names, TOKEN):
            raise ProblemDetails(400, f"body: {one_line(name[:SHOWN])!r} is no field of this form")
    if len(fields) < len(pairs):
        raise ProblemDetails(400, "body: a field is given twice")
    token = fields.pop(TOKEN, "")
    request[BODY] = {name: text for name, text in fields.items() if name not in hidden}
    return fields, token
