"""A client of a running daemon's admin API. Its credentials go to that server alone."""

from __future__ import annotations

import json
import ssl
from collections.abc import AsyncIterator, Mapping
from types import MappingProxyType
from typing import Any, Self

import aiohttp

from monitor.cli.daemon_address import DaemonAddress
from monitor.model.errors import (
    ConfigurationError,
    DaemonBusyError,
    DaemonUnreachableError,
    MonitorError,
    NoSuchObjectError,
)
from monitor.model.outside import LONGEST_ERROR, harmless

_TIMEOUT_SECONDS = 30.0
_STREAM_IDLE_SECONDS = 60.0  # the daemon sends a comment every 15 s
_REDIRECTS_FROM, _ERRORS_FROM, _UNAUTHORIZED = 300, 400, 401
_NO_SUCH_ROUTE = (404, 405)
# How the detail of such an answer begins, from this server and from older ones.
_NOTHING_THERE = ("there is nothing under this address", "Not Found", "Method Not Allowed")
# 400 is an unknown name or a wrong value: wrong usage of the command.
_ERRORS: Mapping[int, type[MonitorError]] = MappingProxyType(
    {
        400: ConfigurationError,
        404: NoSuchObjectError,
        429: DaemonBusyError,
        503: DaemonBusyError,
    }
)


class AdminClient:
    """One daemon. Use as an async context manager."""

    def __init__(self, address: DaemonAddress) -> None:
        self._address = address

    async def __aenter__(self) -> Self:
        headers = {"Accept": "application/json"}
        if self._address.authorization is not None:
            headers["Authorization"] = self._address.authorization.reveal()
        self._session = aiohttp.ClientSession(
            headers=headers,
            connector=aiohttp.TCPConnector(ssl=_trust(self._address)),
            trust_env=False,
        )
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._session.close()

    async def get(self, path: str, query: Mapping[str, str] | None = None) -> Any:
        """Return the decoded answer.

        Raises:
            ConfigurationError: the daemon refuses the request as wrong.
            NoSuchObjectError: it does not know what is asked for.
            DaemonUnreachableError: none answers.
            MonitorError: it reports a failure, or something else answers.
        """
        return await self._request("GET", path, query=query)

    async def post(
        self, path: str, body: Mapping[str, Any], *, timeout_seconds: float = _TIMEOUT_SECONDS
    ) -> Any:
        """Send a request and return the decoded answer; raises as `get` does."""
        return await self._request("POST", path, body=body, timeout_seconds=timeout_seconds)

    async def delete(self, path: str) -> Any:
        """Remove what a path names and return the decoded answer; raises as `get` does."""
        return await self._request("DELETE", path)

    async def events(
        self, after: int | str | None, only: Mapping[str, str]
    ) -> AsyncIterator[dict[str, Any]]:
        """Yield events as they are recorded, behind a position or from now on.

        ``only`` are filters. A daemon that knows none of them yields all.
        """
        query = {**only, **({} if after is None else {"after": str(after)})}
        timeout = aiohttp.ClientTimeout(total=None, sock_read=_STREAM_IDLE_SECONDS)
        try:
            async with self._session.get(
                f"{self._address.url}/api/v1/events/stream",
                params=query,
                headers={"Accept": "text/event-stream"},
                timeout=timeout,
                allow_redirects=False,
            ) as response:
                await self._check(response)
                async for line in response.content:
                    if line.startswith(b"data: "):
                        yield json.loads(line[6:])
        except (aiohttp.ClientError, TimeoutError) as exc:
            raise self._unreachable(exc) from exc

    async def _request(
        self,
        method: str,
        path: str,
        *,
        query: Mapping[str, str] | None = None,
        body: Mapping[str, Any] | None = None,
        timeout_seconds: float = _TIMEOUT_SECONDS,
    ) -> Any:
        try:
            async with self._session.request(
                method,
                self._address.url + path,
                params=query,
                json=body,
                timeout=aiohttp.ClientTimeout(total=timeout_seconds),
                # A redirect could lead the credentials to another server.
                allow_redirects=False,
            ) as response:
                await self._check(response)
                return await self._decoded(response)
        except (aiohttp.ClientError, TimeoutError) as exc:
            raise self._unreachable(exc) from exc

    async def _check(self, response: aiohttp.ClientResponse) -> None:
        """Raise what an answer other than success means."""
        status = response.status
        if status < _REDIRECTS_FROM:
            return
        if status < _ERRORS_FROM:
            raise MonitorError(
                f"{self._address.url} answers with a redirect to "
                f"{harmless(response.headers.get('Location', 'nowhere'))}; name that URL with --url"
            )
        if status == _UNAUTHORIZED:
            raise MonitorError(self._unauthorized())
        document = await self._decoded(response)
        detail = document.get("detail") if isinstance(document, dict) else None
        if not isinstance(detail, str):
            raise self._stranger(response)
        if status in _NO_SUCH_ROUTE and detail.startswith(_NOTHING_THERE):
            raise MonitorError(
                f"the daemon at {self._address.url} has no {response.url.path}: it is older than "
                "this command, or its URL ends in a path that is not its own"
            )
        message = f"the daemon answered {status}: {harmless(detail, longest=LONGEST_ERROR)}"
        raise _ERRORS.get(status, MonitorError)(message)

    async def _decoded(self, response: aiohttp.ClientResponse) -> Any:
        if not response.content_type.endswith("json"):
            raise self._stranger(response)
        try:
            return await response.json(content_type=None)
        except ValueError as exc:
            raise self._stranger(response) from exc

    def _stranger(self, response: aiohttp.ClientResponse) -> MonitorError:
        return MonitorError(
            f"{self._address.url} answers {response.status} with {harmless(response.content_type)},"
            f" which no dataprep-monitor does: is {self._address.named_by} right?"
        )

    def _unauthorized(self) -> str:
        if self._address.authorization is None:
            way = (
                "add --token-file, or --username and --password-file"
                if self._address.named_by == "--url"
                else "restart it, so that it serves as this configuration says"
            )
            return f"the daemon at {self._address.url} wants a token or password; {way}"
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
        if isinstance(exc, aiohttp.ClientConnectorCertificateError):
            hint = "its certificate is not trusted; name its authority with --ca-file"
        elif isinstance(exc, aiohttp.ClientConnectorSSLError):
            hint = "it does not speak TLS; write --url with http://"
        return DaemonUnreachableError(
            f"no daemon answers at {self._address.url} ({type(exc).__name__}): {hint}"
        )


def _trust(address: DaemonAddress) -> ssl.SSLContext:
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
