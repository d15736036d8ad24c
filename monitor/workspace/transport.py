"""One HTTP request to one workspace: its parts, and sending it within limits. No retry, no budget.

Redirects are never followed: a token does not travel to where an answer points.
"""

from __future__ import annotations

import json
import os
import ssl
import uuid
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from http import HTTPStatus
from types import MappingProxyType
from typing import Any

import aiohttp
from aiohttp.http_exceptions import HttpProcessingError
from msgspec import Struct
from multidict import CIMultiDictProxy
from yarl import URL

from monitor import __version__
from monitor.catalogue.operations import Operation
from monitor.model.clock import Clock
from monitor.model.errors import (
    ConfigurationError,
    LeaseUncertainError,
    RequestRejectedError,
    UnreadableAnswerError,
    WorkspaceUnreachableError,
)
from monitor.model.lease_check import LEASE_UNCERTAIN, MaySend
from monitor.model.secrets import Secret
from monitor.workspace.files import BodyReceiver, Upload
from monitor.workspace.settings import WorkspaceSettings

EXECUTION_ID = "x-execution-id"
# The workspace starts each of these once for one execution id, and answers 304 from then on.
STARTS_A_RUN = frozenset({"runJobGroup", "runFlow", "runPlan"})
_CHUNK_BYTES = 64 * 1024
# Of one answer; each costs memory, however few bytes it has. A page of 1,000 rows has half as many.
_MOST_VALUES = 1_000_000
# A file may take longer than an answer that is read whole; a stalled one still times out.
_FILE_SECONDS = 3600.0
_WITH_FILE = frozenset({HTTPStatus.OK, HTTPStatus.CREATED})
# A request that failed sooner may have met a restart; its retries show whether it did.
_SILENT_SECONDS = 10.0
_HEADERS = {"Accept": "application/json", "User-Agent": f"dataprep-monitor/{__version__}"}


QueryValue = str | int | Sequence[str | int]


def path_of(operation: Operation, values: Sequence[object]) -> str:
    if any(str(value) in ("", ".", "..") for value in values):
        # Such a segment would make another path of it.
        raise RequestRejectedError("not an id", operation_id=operation.operation_id)
    return operation.fill(*values)


def headers_of(operation: Operation, given: Mapping[str, str]) -> Mapping[str, str]:
    headers = dict(given)
    if operation.operation_id in STARTS_A_RUN and EXECUTION_ID not in map(str.lower, given):
        headers[EXECUTION_ID] = str(uuid.uuid4())
    if operation.answers_file:
        headers.setdefault("Accept", "*/*")
    return headers


def flat_query(query: Mapping[str, QueryValue]) -> list[tuple[str, str]]:
    return [
        (name, str(single))
        for name, value in query.items()
        for single in ([value] if isinstance(value, str | int) else value)
    ]


_NO_HEADERS: Mapping[str, str] = MappingProxyType({})

# Called with the failure when nothing is answered any more, with None when something is again.
SilenceListener = Callable[[WorkspaceUnreachableError | None], None]


class NotSentError(WorkspaceUnreachableError):
    """No connection came about, so the workspace cannot have acted on the request."""


class Exchange(Struct, frozen=True, kw_only=True):
    """One answer as it came. The two marks are our monotonic seconds around the headers."""

    status_code: int
    headers: CIMultiDictProxy[str]
    body: bytes
    began: float
    answered: float


def _base_url(settings: WorkspaceSettings) -> URL:
    try:
        return URL(settings.url.rstrip("/").removesuffix("/v4"))
    except ValueError as exc:
        raise ConfigurationError(f"workspace {settings.name}: url is not a URL: {exc}") from exc


def authorization(token: Secret, *, workspace: str) -> str:
    """Return the value of the header that carries a token.

    Raises:
        ConfigurationError: no header can.
    """
    text = token.reveal()
    if not text.isascii() or not text.isprintable():
        raise ConfigurationError(
            f"workspace {workspace}: the token has a character that no header can carry,"
            " perhaps a line break at its end"
        )
    return f"Bearer {text}"


def tls_of(settings: WorkspaceSettings) -> ssl.SSLContext | bool:
    """Return how TLS is spoken: True for the system's authorities, False for no verification.

    Raises:
        ConfigurationError: ca_file cannot be used.
    """
    if not settings.verify_tls:
        return False
    if settings.ca_file is None:
        return True
    try:
        context = ssl.create_default_context()
        context.load_verify_locations(cafile=settings.ca_file)
    except OSError as exc:
        raise ConfigurationError(
            f"workspace {settings.name}: ca_file {settings.ca_file!r} cannot be used: {exc}"
        ) from exc
    return context


class Transport:
    """Holds the connections to one workspace.

    Raises:
        ConfigurationError: URL, token or ca_file cannot be used.
    """

    def __init__(
        self, settings: WorkspaceSettings, *, clock: Clock, may_send: MaySend | None = None
    ) -> None:
        """Without ``may_send``, requests may always be sent."""
        self._settings = settings
        self._clock = clock
        self._may_send = may_send
        self._base = _base_url(settings)
        self._tls = tls_of(settings)
        if settings.token is not None:
            authorization(settings.token, workspace=settings.name)
        self._session: aiohttp.ClientSession | None = None
        self._is_closed = False
        self._answered_at = float("-inf")  # our monotonic seconds
        self._is_silent = False
        self._on_silence: SilenceListener | None = None

    def on_silence(self, listener: SilenceListener) -> None:
        """Report to ``listener`` when a request waited in vain while no other was answered.

        That is after its first try: retries may take minutes. An error of the server ends no
        silence.
        """
        self._on_silence = listener

    async def send(
        self,
        method: str,
        path: str,
        *,
        query: list[tuple[str, str]],
        body: Any = None,
        headers: Mapping[str, str] = _NO_HEADERS,
        token: Secret | None = None,
        receiver: BodyReceiver | None = None,
    ) -> Exchange:
        """Send once and read the whole answer, whatever its status.

        ``path`` is quoted already; ``body`` is sent as JSON unless it is None or an `Upload`.
        ``receiver`` takes the body of a good answer, which is then empty here and may be of any
        size.

        Raises:
            WorkspaceUnreachableError: no answer, or the connection broke within it.
            LeaseUncertainError: requests may not be sent any more; nothing of this was.
            UnreadableAnswerError: the answer is larger than the settings allow, or has too many
                values.
            LocalFileError: the receiver or the upload could not go on.
        """
        url = URL(str(self._base) + path, encoded=True).update_query(query)
        if token is not None:
            headers = {
                **headers,
                "Authorization": authorization(token, workspace=self._settings.name),
            }
        began = self._clock.monotonic()
        try:
            return await self._exchange(
                method, url, body=body, headers=headers, receiver=receiver, began=began
            )
        except WorkspaceUnreachableError as error:
            self._unanswered(error, began)
            raise

    async def _exchange(
        self,
        method: str,
        url: URL,
        *,
        body: Any,
        headers: Mapping[str, str],
        receiver: BodyReceiver | None,
        began: float,
    ) -> Exchange:
        is_file = receiver is not None or isinstance(body, Upload)
        try:
            async with (
                _encoded(body) as (data, own_headers),
                self._open_session().request(
                    method,
                    url,
                    data=data,
                    headers={**own_headers, **headers},
                    allow_redirects=False,
                    timeout=self._timeout(_FILE_SECONDS if is_file else None),
                ) as response,
            ):
                answered = self._answered(response.status)
                return Exchange(
                    status_code=response.status,
                    headers=response.headers,
                    body=await self._take(response, receiver),
                    began=began,
                    answered=answered,
                )
        except (aiohttp.ClientConnectorError, aiohttp.ConnectionTimeoutError) as exc:
            raise NotSentError(f"no connection: {_why_none(exc)}") from exc
        except (aiohttp.ClientResponseError, HttpProcessingError) as exc:
            # Not chained: the first carries the request's headers, and so the token.
            # The library quotes what it cannot read, and that may be what we have sent.
            token = headers.get("Authorization", "").removeprefix("Bearer ") or None
            quoted = exc.message if token is None else exc.message.replace(token, "***")
            raise WorkspaceUnreachableError(f"not an HTTP answer: {quoted}") from None
        except TimeoutError as exc:
            raise WorkspaceUnreachableError("no whole answer in time") from exc
        except (aiohttp.ClientError, OSError) as exc:
            if isinstance(exc.__cause__, LeaseUncertainError):  # between the headers and the body
                raise exc.__cause__ from None
            reason = str(exc) or type(exc).__name__
            raise WorkspaceUnreachableError(f"the connection broke: {reason}") from exc

    def _answered(self, status_code: int) -> float:
        self._answered_at = self._clock.monotonic()
        if self._is_silent and status_code < HTTPStatus.INTERNAL_SERVER_ERROR:
            self._is_silent = False
            if self._on_silence is not None:
                self._on_silence(None)
        return self._answered_at

    def _unanswered(self, error: WorkspaceUnreachableError, began: float) -> None:
        waited_seconds = self._clock.monotonic() - began
        is_answering = self._answered_at > began  # another request, or this one, and broke off
        if self._is_closed or is_answering or waited_seconds < _SILENT_SECONDS:
            return
        self._is_silent = True
        if self._on_silence is not None:
            self._on_silence(error)

    async def close(self) -> None:
        """Drop the connections. Later requests raise."""
        self._is_closed = True
        if self._session is not None:
            await self._session.close()
            self._session = None

    async def _take(self, response: aiohttp.ClientResponse, receiver: BodyReceiver | None) -> bytes:
        if receiver is None or response.status not in _WITH_FILE:
            return await self._read(response)
        # A compressed body's length is not the file's.
        is_packed = "Content-Encoding" in response.headers
        await receiver.begin(None if is_packed else response.content_length)
        while piece := await response.content.read(_CHUNK_BYTES):
            await receiver.take(piece)
        return b""

    async def _read(self, response: aiohttp.ClientResponse) -> bytes:
        # Counted while it arrives and after decompression: neither a missing length nor a
        # small compressed body may fill the memory.
        body, commas = bytearray(), 0
        limit = self._settings.body_limit_bytes
        is_too_large = (response.content_length or 0) > limit
        while not is_too_large and (chunk := await response.content.read(_CHUNK_BYTES)):
            body += chunk
            commas += chunk.count(b",")  # between two values of JSON, and in texts
            is_too_large = len(body) > limit or commas >= _MOST_VALUES
        if is_too_large:
            response.close()
            has_too_many = commas >= _MOST_VALUES
            what = f"has more than {_MOST_VALUES} values"
            raise UnreadableAnswerError(
                f"the answer {what if has_too_many else f'is larger than {limit} bytes'}",
                status_code=response.status,
            )
        return bytes(body)

    def _timeout(self, total_seconds: float | None) -> aiohttp.ClientTimeout:
        settings = self._settings
        return aiohttp.ClientTimeout(
            total=settings.total_timeout_seconds if total_seconds is None else total_seconds,
            sock_connect=settings.connect_timeout_seconds,
            sock_read=settings.read_timeout_seconds,
        )

    def _open_session(self) -> aiohttp.ClientSession:
        # Made at the first request, because aiohttp wants the running loop.
        if self._is_closed:
            raise WorkspaceUnreachableError("the client is closed")
        if self._session is None:
            settings = self._settings
            self._session = aiohttp.ClientSession(
                connector=aiohttp.TCPConnector(limit=settings.connections, ssl=self._tls),
                headers=_HEADERS,
                cookie_jar=aiohttp.DummyCookieJar(),
                trace_configs=[] if self._may_send is None else [lease_gate(self._may_send)],
            )
        return self._session


def lease_gate(may_send: MaySend) -> aiohttp.TraceConfig:
    """Return what asks before every write of a request, however long the request waited.

    A process that was stopped goes on anywhere: connecting, or with a request that was built before
    another daemon got the shard.
    """

    async def ask(*_: object) -> None:
        if not may_send():
            raise LeaseUncertainError(LEASE_UNCERTAIN)

    gate = aiohttp.TraceConfig()
    gate.on_request_headers_sent.append(ask)
    gate.on_request_chunk_sent.append(ask)
    return gate


@asynccontextmanager
async def _encoded(body: Any) -> AsyncIterator[tuple[Any, dict[str, str]]]:
    """Give what aiohttp sends for a body, and the headers that it needs."""
    if body is None:
        yield None, {}
    elif isinstance(body, Upload):
        async with body.opened() as form:
            yield form, {}
    else:
        yield json.dumps(body, separators=(",", ":")).encode(), {"Content-Type": "application/json"}


def _why_none(error: aiohttp.ClientError) -> str:
    """Return the library's words, after those of the operating system, which they may lack."""
    words, system, code = str(error), "", getattr(error, "errno", None)
    # The codes of TLS and of name resolution are others; what is no number is no code.
    if isinstance(code, int) and code > 0 and not isinstance(error, aiohttp.ClientSSLError):
        system = os.strerror(code).lower()
    return f"{system}: {words}" if system and system not in words.lower() else words
