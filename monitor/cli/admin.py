"""A client of a running daemon's admin API. Its credentials go to that server alone."""

from __future__ import annotations

import contextlib
import json
import socket
import ssl
import time
from collections.abc import Iterator, Mapping
from http.client import (
    HTTP_PORT,
    HTTPS_PORT,
    HTTPConnection,
    HTTPException,
    HTTPResponse,
    HTTPSConnection,
    IncompleteRead,
)
from types import MappingProxyType
from typing import Any
from urllib.parse import quote, urlencode, urlsplit

from monitor.cli.daemon_address import DaemonAddress
from monitor.listening.tls import client_of, leaf_of
from monitor.model.errors import (
    ConfigurationError,
    DaemonBusyError,
    DaemonUnreachableError,
    MonitorError,
    NoSuchObjectError,
)
from monitor.model.outside import LONGEST_ERROR, harmless

_TIMEOUT_SECONDS = 30.0
_READ_BYTES = 1_048_576
_STREAM_IDLE_SECONDS = 60.0  # the daemon sends a comment every 15 s
_STREAM_TYPE = "text/event-stream"
_REDIRECTS_FROM, _ERRORS_FROM, _UNAUTHORIZED = 300, 400, 401
_NO_SUCH_ROUTE = (404, 405)
_TOO_MANY = 429
_WAITS = 5  # for one answer
_LONGEST_WAIT_SECONDS = 60.0
# How the detail of such an answer begins, from this server and from older ones.
_NOTHING_THERE = ("there is nothing under this address", "Not Found", "Method Not Allowed")
# 400 is an unknown name or a wrong value: wrong usage of the command.
_ERRORS: Mapping[int, type[MonitorError]] = MappingProxyType(
    {
        400: ConfigurationError,
        404: NoSuchObjectError,
        503: DaemonBusyError,
    }
)


class AdminClient:
    """One daemon. Blocks until an answer is there; each request has a connection of its own."""

    def __init__(self, address: DaemonAddress) -> None:
        self._address = address
        self._base = urlsplit(address.url)
        is_secure = self._base.scheme == "https"
        self._trust = _trust(address) if is_secure or address.ca_file else None

    def get(self, path: str, query: Mapping[str, str] | None = None) -> Any:
        """Return the decoded answer; a daemon that says when to come back is asked again then.

        Raises:
            ConfigurationError: the daemon refuses the request as wrong.
            NoSuchObjectError: it does not know what is asked for.
            DaemonUnreachableError: none answers.
            MonitorError: it reports a failure, or something else answers.
        """
        for _ in range(_WAITS):
            try:
                return self._request("GET", path, query=query)
            except DaemonBusyError as busy:
                wait = busy.retry_after_seconds
                if wait is None or wait > _LONGEST_WAIT_SECONDS:
                    raise
                time.sleep(wait)
        return self._request("GET", path, query=query)

    def post(
        self, path: str, body: Mapping[str, Any], *, timeout_seconds: float = _TIMEOUT_SECONDS
    ) -> Any:
        """Send a request and return the decoded answer; raises as `get` does."""
        return self._request("POST", path, body=body, timeout_seconds=timeout_seconds)

    def delete(self, path: str) -> Any:
        """Remove what a path names and return the decoded answer; raises as `get` does."""
        return self._request("DELETE", path)

    def events(self, after: int | str | None, only: Mapping[str, str]) -> Iterator[dict[str, Any]]:
        """Yield events as they are recorded, after a position or from now on.

        ``only`` are filters. A daemon that knows none of them yields all.

        Raises:
            DaemonUnreachableError: none answers, or the stream has ended, which it never does.
            MonitorError: the daemon reports a failure, or something else answers.
        """
        query = {**only, **({} if after is None else {"after": str(after)})}
        with self._connected(_STREAM_IDLE_SECONDS) as connection:
            path = self._path("/api/v1/events/stream", query)
            connection.request("GET", path, headers=self._headers(_STREAM_TYPE))
            sock = connection.sock
            response = connection.getresponse()
            if response.status >= _REDIRECTS_FROM:
                deadline = time.monotonic() + _TIMEOUT_SECONDS
                self._check(response, path, _read(sock, response, deadline))
            if response.headers.get_content_type() != _STREAM_TYPE:
                raise self._stranger(response)
            # A line without its end was cut off.
            while (line := response.readline()).endswith(b"\n"):
                if line.startswith(b"data: "):
                    yield self._event(response, line[6:])
        raise DaemonUnreachableError(
            f"{self._address.url} ended the stream: was the daemon stopped?"
        )

    def _event(self, response: HTTPResponse, data: bytes) -> dict[str, Any]:
        try:
            event = json.loads(data)
        except (ValueError, RecursionError) as exc:
            raise self._stranger(response) from exc
        if not isinstance(event, dict):
            raise self._stranger(response)
        return event

    def _request(
        self,
        method: str,
        path: str,
        *,
        query: Mapping[str, str] | None = None,
        body: Mapping[str, Any] | None = None,
        timeout_seconds: float = _TIMEOUT_SECONDS,
    ) -> Any:
        deadline = time.monotonic() + timeout_seconds
        headers = self._headers("application/json")
        content = None
        if body is not None:
            content, headers["Content-Type"] = json.dumps(body).encode(), "application/json"
        with self._connected(timeout_seconds) as connection:
            connection.request(method, self._path(path, query or {}), content, headers)
            # It stays open for the response, though the connection lets go of it then.
            sock = connection.sock
            sock.settimeout(_left(deadline))
            response = connection.getresponse()
            answer = _read(sock, response, deadline)
        self._check(response, path, answer)
        return self._decoded(response, answer)

    @contextlib.contextmanager
    def _connected(self, timeout_seconds: float) -> Iterator[HTTPConnection]:
        host, is_secure = self._base.hostname or "", self._base.scheme == "https"
        # Without a port the end of an IPv6 address would be taken for one.
        port = self._base.port or (HTTPS_PORT if is_secure else HTTP_PORT)
        connection = (
            HTTPSConnection(host, port, timeout=timeout_seconds, context=self._trust)
            if is_secure
            else HTTPConnection(host, port, timeout=timeout_seconds)
        )
        try:
            yield connection
        except IncompleteRead as exc:
            raise DaemonUnreachableError(
                f"the answer of {self._address.url} was cut off: was the daemon stopped?"
            ) from exc
        except (OSError, HTTPException, UnicodeError) as exc:
            raise self._unreachable(exc) from exc
        finally:
            connection.close()

    def _headers(self, media_type: str) -> dict[str, str | bytes]:
        headers: dict[str, str | bytes] = {"Accept": media_type, "Connection": "close"}
        if self._address.authorization is not None:
            headers["Authorization"] = self._address.authorization.reveal().encode()
        return headers

    def _path(self, path: str, query: Mapping[str, str]) -> str:
        whole = quote(self._base.path, safe="/%") + path
        return f"{whole}?{urlencode(query)}" if query else whole

    def _check(self, response: HTTPResponse, path: str, answer: bytes) -> None:
        """Raise what an answer other than success means. A redirect is never followed.

        It could lead the credentials to another server.
        """
        status = response.status
        if status < _REDIRECTS_FROM:
            return
        if status < _ERRORS_FROM:
            target = harmless(response.headers.get("Location") or "nowhere")
            raise MonitorError(
                f"{self._address.url} answers with a redirect to {target}; name that URL with --url"
            )
        if status == _UNAUTHORIZED:
            raise MonitorError(self._unauthorized())
        document = self._decoded(response, answer)
        detail = document.get("detail") if isinstance(document, dict) else None
        if not isinstance(detail, str):
            raise self._stranger(response)
        if status in _NO_SUCH_ROUTE and detail.startswith(_NOTHING_THERE):
            raise MonitorError(
                f"the daemon at {self._address.url} has no {self._base.path}{path}: it is older "
                "than this command, or its URL ends in a path that is not its own"
            )
        message = f"the daemon answered {status}: {harmless(detail, longest=LONGEST_ERROR)}"
        if status == _TOO_MANY:
            after = response.headers.get("Retry-After", "")
            seconds = float(after) if after.isascii() and after.isdigit() else None
            raise DaemonBusyError(message, retry_after_seconds=seconds)
        raise _ERRORS.get(status, MonitorError)(message)

    def _decoded(self, response: HTTPResponse, answer: bytes) -> Any:
        if not response.headers.get_content_type().endswith("json"):
            raise self._stranger(response)
        try:
            return json.loads(answer)
        except (ValueError, RecursionError) as exc:
            raise self._stranger(response) from exc

    def _stranger(self, response: HTTPResponse) -> MonitorError:
        return MonitorError(
            f"{self._address.url} answers {response.status} with "
            f"{harmless(response.headers.get_content_type())}, which no dataprep-monitor does: "
            f"is {self._address.named_by} right?"
        )

    def _unauthorized(self) -> str:
        if self._address.authorization is None:
            return (
                f"the daemon at {self._address.url} wants a token or password; "
                "add --token-file, or --username and --password-file"
            )
        return (
            f"the daemon at {self._address.url} refuses the token or password of "
            f"{self._address.named_by}; name the one that it was started with"
        )

    def _unreachable(self, exc: Exception) -> MonitorError:
        hint = (
            "is it running, and with this configuration?"
            if self._address.named_by == "-c"
            else "is it running there?"
        )
        if isinstance(exc, ssl.SSLCertVerificationError):
            hint = (
                "its certificate is not trusted; name its authority with --ca-file"
                if self._address.tls is None
                else "it has another certificate than the file of server.tls; is it another daemon?"
            )
        elif isinstance(exc, ssl.SSLError):
            hint = (
                "it does not speak TLS; write --url with http://"
                if self._address.tls is None
                else "it does not speak TLS as configured; was it restarted since?"
            )
        return DaemonUnreachableError(
            f"no daemon answers at {self._address.url} ({type(exc).__name__}): {hint}"
        )


def _read(sock: socket.socket, response: HTTPResponse, deadline: float) -> bytes:
    """Return the whole answer. The time limit of the socket is that of one read only.

    Raises:
        TimeoutError: it has not ended at the deadline.
        IncompleteRead: it ended before its end.
    """
    length = response.length  # None: chunks tell the end, or the end of the connection
    parts: list[bytes] = []
    missing = _READ_BYTES if length is None else length
    while missing:
        left = _left(deadline)
        # At its end a response closes the socket.
        if not response.isclosed():
            sock.settimeout(left)
        part = response.read1(min(_READ_BYTES, missing))
        if not part:
            break
        parts.append(part)
        missing -= len(part) if length is not None else 0
    answer = b"".join(parts)
    if length is not None and missing:
        raise IncompleteRead(answer, missing)
    return answer


def _left(deadline: float) -> float:
    """Return how many seconds are left.

    Raises:
        TimeoutError: none.
    """
    left = deadline - time.monotonic()
    if left <= 0:
        raise TimeoutError
    return left


def _trust(address: DaemonAddress) -> ssl.SSLContext:
    if address.tls is not None:
        return client_of(leaf_of(address.tls, section="server.tls"))
    try:
        return ssl.create_default_context(cafile=address.ca_file)
    except (OSError, ValueError) as exc:  # ssl.SSLError is an OSError
        raise ConfigurationError(
            f"--ca-file: {str(address.ca_file)!r} holds no certificates in PEM form"
        ) from exc


def rows_of(answer: Any) -> list[dict[str, Any]]:
    """Return the rows of an answer.

    Raises:
        MonitorError: it has none, so no dataprep-monitor has sent it.
    """
    rows = answer.get("data") if isinstance(answer, dict) else None
    if not isinstance(rows, list) or not all(isinstance(row, dict) for row in rows):
        raise stranger()
    return rows


def stranger() -> MonitorError:
    """Return the error that an answer has another shape than a dataprep-monitor's."""
    return MonitorError(
        "the answer is not that of a dataprep-monitor: is the address or URL right?"
    )
