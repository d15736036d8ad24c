"""One POST to one receiver, within its time limit. No retry: the answer says whether there may be.

Redirects are never followed, and no error repeats the address, whose path may be a secret.
"""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Callable, Iterable, Mapping
from email.utils import parsedate_to_datetime
from http import HTTPStatus

import aiohttp
from aiohttp.http_exceptions import HttpProcessingError

from monitor import __version__
from monitor.model.clock import Clock
from monitor.model.errors import OutputRefusedError, OutputUnavailableError
from monitor.model.lease_check import LEASE_UNCERTAIN, MaySend
from monitor.outputs.settings import ReceiverSettings

# The same body will be refused again. All other refusals, such as 401, 403 and 404, are of the
# address and of who asks: once they are repaired, what waited is wanted.
_FINAL = frozenset(
    {
        HTTPStatus.BAD_REQUEST,
        HTTPStatus.NOT_ACCEPTABLE,
        HTTPStatus.CONFLICT,
        HTTPStatus.GONE,
        HTTPStatus.LENGTH_REQUIRED,
        HTTPStatus.REQUEST_ENTITY_TOO_LARGE,
        HTTPStatus.REQUEST_URI_TOO_LONG,
        HTTPStatus.UNSUPPORTED_MEDIA_TYPE,
        HTTPStatus.UNPROCESSABLE_ENTITY,
        HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE,
    }
)
_SUCCESS = range(200, 300)
_REDIRECTION = range(300, 400)
_LONGEST_PAUSE_SECONDS = 300.0  # however long a receiver asks us to wait
_CLOCKS_AGREE_SECONDS = 5.0
_STEP_SECONDS = 2.0  # our clock was set by more
_ANSWER_BYTES = 2_048  # more than a sentence says nothing more


class HttpReceiver:
    """One address to post to; connections are kept open between two posts."""

    def __init__(
        self,
        url: str,
        *,
        settings: ReceiverSettings,
        clock: Clock,
        headers: Callable[[], Mapping[str, str]],
        may_send: MaySend | None = None,
        shows_answers: bool = False,
    ) -> None:
        """``headers`` are asked for at each post, so that no copy of a secret stays here.

        ``may_send`` is asked right before each; without it, all are sent. ``shows_answers`` lets
        the text of a refusal become part of its reason.
        """
        self._url = url
        self._settings = settings
        self._clock = clock
        self._headers = headers
        self._may_send = may_send
        self._shows_answers = shows_answers
        self._session: aiohttp.ClientSession | None = None
        self._tls: ssl.SSLContext | None = None
        self._not_before = 0.0  # monotonic; the receiver asked for a pause until then
        self.ahead_seconds = 0.0  # how far its clock is ahead of ours, by its last answer
        self._compared: float | None = None  # our wall time minus monotonic, at that answer

    @property
    def knows_ahead(self) -> bool:
        """False before the first answer, and where our clock was set since, or the machine slept.

        A receiver that names no time has the same as we.
        """
        return self._compared is not None and abs(self._offset() - self._compared) < _STEP_SECONDS

    def _offset(self) -> float:
        return self._clock.now().timestamp() - self._clock.monotonic()

    async def ready(self) -> None:
        """Return when the receiver's own wish for a pause is over; at once where there is none."""
        while (seconds := self._not_before - self._clock.monotonic()) > 0:
            await self._clock.sleep(seconds)

    async def post(self, body: bytes, *, headers: Mapping[str, str]) -> None:
        """Return when the receiver has taken the body.

        Raises:
            OutputRefusedError: it will refuse the same body again.
            OutputUnavailableError: no answer in time, or one that may be another later; or nothing
                may be sent now, and nothing was.
        """
        try:
            async with asyncio.timeout(self._settings.timeout_seconds):
                try:
                    await self._post(body, headers)
                except aiohttp.ServerDisconnectedError:
                    # It closed an idle connection at the moment of its use; a new one will do.
                    await self._post(body, headers)
        except TimeoutError as exc:
            seconds = self._settings.timeout_seconds
            raise OutputUnavailableError(f"no answer within {seconds:g} s") from exc
        except aiohttp.ClientConnectorError as exc:
            raise OutputUnavailableError(f"no connection: {exc.os_error}") from exc
        except (aiohttp.ClientError, HttpProcessingError, OSError, ValueError) as exc:
            if isinstance(exc.__cause__, OutputUnavailableError):  # asked before the body
                raise exc.__cause__ from None
            raise OutputUnavailableError(f"the request broke: {type(exc).__name__}") from exc

    async def close(self) -> None:
        session, self._session = self._session, None
        if session is not None:
            await session.close()

    async def _post(self, body: bytes, headers: Mapping[str, str]) -> None:
        if self._tls is None:
            self._tls = await asyncio.to_thread(tls_context, self._settings)
        own = self._headers()
        async with self._open_session().post(
            self._url,
            data=body,
            headers={**own, **headers},
            ssl=self._tls,
            allow_redirects=False,
        ) as answer:
            self._compare_clocks(answer.headers.get("Date"))
            if answer.status in _SUCCESS:
                return
            reason = f"answered {answer.status}"
            if answer.status in _REDIRECTION:
                reason += ", and redirects are not followed"
            if self._shows_answers:
                reason += _quoted(await answer.content.read(_ANSWER_BYTES), hidden=own.values())
            self._judge(answer.status, answer.headers.get("Retry-After"), reason)

    def _compare_clocks(self, date: str | None) -> None:
        self._compared = self._offset()
        try:
            theirs = parsedate_to_datetime(date or "")
            seconds = (theirs - self._clock.now()).total_seconds()
        except (ValueError, TypeError):  # no date, or one without a zone
            self.ahead_seconds = 0.0
            return
        # The header has whole seconds, and the answer was on its way.
        self.ahead_seconds = seconds if abs(seconds) > _CLOCKS_AGREE_SECONDS else 0.0

    def _judge(self, status: int, retry_after: str | None, reason: str) -> None:
        if status in _FINAL:
            raise OutputRefusedError(reason)
        if retry_after is not None:
            self._not_before = self._clock.monotonic() + self._pause_seconds(retry_after)
        raise OutputUnavailableError(reason)

    def _pause_seconds(self, retry_after: str) -> float:
        """Return how long the receiver wants to be left alone; 0 where that cannot be read."""
        try:
            seconds = float(retry_after)
        except ValueError:
            try:
                at = parsedate_to_datetime(retry_after)
                seconds = (at - self._clock.now()).total_seconds()
            except (ValueError, TypeError):  # no date, or one without a zone
                return 0.0
        return min(max(seconds, 0.0), _LONGEST_PAUSE_SECONDS) if seconds == seconds else 0.0  # noqa: PLR0124 - not nan

    def _open_session(self) -> aiohttp.ClientSession:
        if self._session is None:
            self._session = aiohttp.ClientSession(
                cookie_jar=aiohttp.DummyCookieJar(),
                headers={"User-Agent": f"dataprep-monitor/{__version__}"},
                trace_configs=[] if self._may_send is None else [_gate(self._may_send)],
            )
        return self._session


def _gate(may_send: MaySend) -> aiohttp.TraceConfig:
    """Return what asks before every write of a request, however long the request waited.

    A process that was stopped goes on anywhere: connecting, or with a body that was built before
    another daemon got the shard.
    """

    async def ask(*_: object) -> None:
        if not may_send():
            raise OutputUnavailableError(LEASE_UNCERTAIN)

    gate = aiohttp.TraceConfig()
    gate.on_request_headers_sent.append(ask)
    gate.on_request_chunk_sent.append(ask)
    return gate


def tls_context(settings: ReceiverSettings) -> ssl.SSLContext:
    """Return how TLS is spoken. Reads files, so it belongs off the event loop.

    Raises:
        OutputUnavailableError: the file is missing or is not what it should be.
    """
    try:
        context = ssl.create_default_context(cafile=settings.ca_file)
    except (OSError, ssl.SSLError) as exc:
        raise OutputUnavailableError(f"ca_file cannot be used: {exc}") from exc
    if not settings.verify_tls:
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    return context


def tls_file_problems(settings: ReceiverSettings, urls: Iterable[str]) -> list[str]:
    """Return a sentence ``key: problem`` if the file of these https URLs cannot be used."""
    if not any(url.startswith("https:") for url in urls):
        return []
    try:
        tls_context(settings)
    except OutputUnavailableError as exc:
        key, _, problem = str(exc).partition(" ")
        return [f"{key}: {problem}"]
    return []


def _quoted(answer: bytes, *, hidden: Iterable[str]) -> str:
    words = " ".join(answer.decode(errors="replace").split())
    for secret in hidden:  # a proxy's page of errors may repeat what it was sent
        words = words.replace(secret, "***").replace(secret.rpartition(" ")[2], "***")
    words = "".join(word for word in words if word.isprintable())[:200]
    return f": {words}" if words else ""
