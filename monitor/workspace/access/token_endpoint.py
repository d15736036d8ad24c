"""One request to the token endpoint: a refresh token for a new pair (RFC 6749, section 6).

No retry, no judgement, nothing stored. Redirects are not followed, time and size are limited.
"""

from __future__ import annotations

import math
from enum import StrEnum
from http import HTTPStatus
from typing import Any

import aiohttp
import msgspec
from aiohttp.http_exceptions import HttpProcessingError
from msgspec import Struct

from monitor import __version__
from monitor.model.errors import LeaseUncertainError
from monitor.model.lease_check import MaySend
from monitor.model.outside import harmless
from monitor.model.secrets import Secret
from monitor.workspace.answer_headers import retry_after_in
from monitor.workspace.settings import OauthSettings, WorkspaceSettings
from monitor.workspace.transport import lease_gate, tls_of

ANSWER_SECONDS = 30.0  # a daemon that stops waits so long for an answer
_CONNECT_SECONDS = 10.0
_BODY_BYTES = 65_536
_LONGEST_TOKEN = 16_384  # characters
_LONGEST_LIFE_SECONDS = 366 * 86_400.0
_LONGEST_TEXT = 300


class RefreshOutcome(StrEnum):
    """How a refresh went; the label ``outcome`` of ``token_refreshes_total``."""

    REFRESHED = "refreshed"
    REFUSED = "refused"  # invalid_grant: the refresh token is dead
    REJECTED = "rejected"  # anything else is wrong with the request or the address
    THROTTLED = "throttled"
    SERVER_ERROR = "server_error"
    UNANSWERED = "unanswered"  # sent, and no answer that could be read: it may have been handled
    NOT_SENT = "not_sent"
    STORE = "store"  # the store refused, so nothing was sent


class Refreshed(Struct, frozen=True, kw_only=True):
    """A new pair. ``refresh_token`` None: the former one stays valid."""

    access_token: Secret
    refresh_token: Secret | None
    life_seconds: float | None  # of the access token; None where the answer does not say


class NotRefreshed(Struct, frozen=True, kw_only=True):
    """A refresh that brought nothing. ``reason`` is one sentence without secrets."""

    outcome: RefreshOutcome
    reason: str
    wait_seconds: float | None = None  # that the endpoint states


class TokenEndpoint:
    """The token endpoint of one workspace.

    Raises:
        ConfigurationError: ca_file cannot be used.
    """

    def __init__(
        self, settings: WorkspaceSettings, oauth: OauthSettings, *, may_send: MaySend | None = None
    ) -> None:
        self._oauth = oauth
        self._may_send = may_send
        self._tls = tls_of(settings)

    async def refresh(self, refresh_token: Secret, *, client_secret: Secret | None) -> Any:
        """Send one refresh and return `Refreshed` or `NotRefreshed`; raises nothing of ours."""
        secrets = [refresh_token, *([client_secret] if client_secret else [])]
        form = {
            "grant_type": "refresh_token",
            "refresh_token": refresh_token.reveal(),
            "client_id": self._oauth.client_id,
        }
        if client_secret is not None:
            form["client_secret"] = client_secret.reveal()
        if self._oauth.scope is not None:
            form["scope"] = self._oauth.scope
        answer = await self._send(form)
        if isinstance(answer, NotRefreshed):
            return msgspec.structs.replace(answer, reason=_shown(answer.reason, secrets))
        status_code, headers, body = answer
        if status_code == HTTPStatus.OK:
            return _pair_in(body)
        return _refusal(status_code, headers, body, secrets)

    async def _send(self, form: dict[str, str]) -> tuple[int, Any, bytes] | NotRefreshed:
        # A connection of its own for each: there are few, and one that has waited may be dead.
        try:
            async with (
                aiohttp.ClientSession(
                    connector=aiohttp.TCPConnector(ssl=self._tls, force_close=True),
                    cookie_jar=aiohttp.DummyCookieJar(),
                    trace_configs=[] if self._may_send is None else [lease_gate(self._may_send)],
                ) as session,
                session.post(
                    self._oauth.token_url,
                    data=form,
                    headers={
                        "Accept": "application/json",
                        "User-Agent": f"dataprep-monitor/{__version__}",
                    },
                    allow_redirects=False,
                    timeout=aiohttp.ClientTimeout(
                        total=ANSWER_SECONDS, sock_connect=_CONNECT_SECONDS
                    ),
                ) as response,
            ):
                return response.status, response.headers, await _read(response)
        except (
            LeaseUncertainError,
            aiohttp.ClientError,
            HttpProcessingError,
            TimeoutError,
            OSError,
        ) as exc:
            return _failure(exc)


def _failure(exc: Exception) -> NotRefreshed:
    """Return whether the endpoint can have got the request, by what became of it."""
    lease = exc if isinstance(exc, LeaseUncertainError) else exc.__cause__
    outcome = RefreshOutcome.UNANSWERED
    if isinstance(lease, LeaseUncertainError):  # before the headers, or before the body
        outcome, reason = RefreshOutcome.NOT_SENT, str(lease)
    elif isinstance(exc, aiohttp.ClientConnectorError | aiohttp.ConnectionTimeoutError):
        outcome, reason = RefreshOutcome.NOT_SENT, f"no connection: {exc}"
    elif isinstance(exc, aiohttp.ClientResponseError | HttpProcessingError):
        # The library quotes what it cannot read, and that may be the new tokens.
        reason = f"not an HTTP answer ({type(exc).__name__})"
    elif isinstance(exc, TimeoutError):
        reason = f"no whole answer within {ANSWER_SECONDS:.0f} s"
    else:
        reason = f"the connection broke: {str(exc) or type(exc).__name__}"
    return NotRefreshed(outcome=outcome, reason=reason)


async def _read(response: aiohttp.ClientResponse) -> bytes:
    """Return the body; of a larger one so much that nothing can be read of it."""
    body = bytearray()
    while len(body) <= _BODY_BYTES and (piece := await response.content.read(_BODY_BYTES)):
        body += piece
    return bytes(body) if len(body) <= _BODY_BYTES else b""


def _unanswered(reason: str) -> NotRefreshed:
    return NotRefreshed(outcome=RefreshOutcome.UNANSWERED, reason=reason)


def _object_in(body: bytes) -> dict[str, Any]:
    try:
        served = msgspec.json.decode(body)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return {}
    return served if isinstance(served, dict) else {}


def _pair_in(body: bytes) -> Refreshed | NotRefreshed:
    answer = _object_in(body)
    access_token = _token(answer.get("access_token"))
    if access_token is None:
        return _unanswered("the answer holds no access token that a header could carry")
    return Refreshed(
        access_token=access_token,
        refresh_token=_token(answer.get("refresh_token")),
        life_seconds=_life(answer.get("expires_in")),
    )


def _token(value: object) -> Secret | None:
    if not isinstance(value, str) or not 0 < len(value) <= _LONGEST_TOKEN:
        return None
    return Secret(value) if value.isascii() and value.isprintable() else None


def _life(value: object) -> float | None:
    """Return the seconds of ``expires_in``, which some write as a text; None for no such time."""
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        return None
    try:
        seconds = float(value)
    except (ValueError, OverflowError):
        return None
    return min(seconds, _LONGEST_LIFE_SECONDS) if math.isfinite(seconds) and seconds > 0 else None


def _refusal(status_code: int, headers: Any, body: bytes, secrets: list[Secret]) -> NotRefreshed:
    answer = _object_in(body)
    words = [answer.get("error"), answer.get("error_description")]
    told = ": ".join(word for word in words if isinstance(word, str) and word)
    reason = _shown(f"the token endpoint answered {status_code}: {told or 'no reason'}", secrets)
    if status_code == HTTPStatus.TOO_MANY_REQUESTS:
        outcome = RefreshOutcome.THROTTLED
    elif status_code >= HTTPStatus.INTERNAL_SERVER_ERROR:
        outcome = RefreshOutcome.SERVER_ERROR
    elif answer.get("error") == "invalid_grant":
        outcome = RefreshOutcome.REFUSED
    else:
        outcome = RefreshOutcome.REJECTED
    return NotRefreshed(
        outcome=outcome, reason=reason, wait_seconds=retry_after_in(headers, now=None)
    )


def _shown(text: str, secrets: list[Secret]) -> str:
    """Return a foreign text without what the request carried."""
    for secret in secrets:
        text = text.replace(secret.reveal(), "***")
    return harmless(text, longest=_LONGEST_TEXT)
