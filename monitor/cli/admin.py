"""A client of a running daemon's admin API, with the credentials of its configuration."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any, Self

import aiohttp

from monitor.cli.settings_files import load
from monitor.model.errors import ConfigurationError, MonitorError, NoSuchObjectError
from monitor.web.settings import ServerSettings

_TIMEOUT_SECONDS = 30.0
_STREAM_IDLE_SECONDS = 60.0  # the daemon sends a comment every 15 s
_ERRORS_FROM = 400
# 400 is an unknown name or a wrong value: wrong usage of the command.
_ERRORS: Mapping[int, type[MonitorError]] = MappingProxyType(
    {400: ConfigurationError, 404: NoSuchObjectError}
)


class AdminClient:
    """One daemon, as its configuration describes it. Use as an async context manager."""

    def __init__(self, settings: ServerSettings) -> None:
        self._address = settings.reachable
        self._headers: dict[str, str] = {}
        if settings.token is not None:
            self._headers["Authorization"] = f"Bearer {settings.token.reveal()}"
        elif settings.password is not None:
            self._headers["Authorization"] = aiohttp.encode_basic_auth(
                settings.username or "", settings.password.reveal()
            )

    @classmethod
    def of(cls, path: Path) -> AdminClient:
        """Return a client of the daemon that runs with this configuration file."""
        return cls(load(path).server)

    async def __aenter__(self) -> Self:
        self._session = aiohttp.ClientSession(
            f"http://{self._address}", headers=self._headers, trust_env=False
        )
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._session.close()

    async def get(self, path: str, query: Mapping[str, str] | None = None) -> Any:
        """Return the decoded answer.

        Raises:
            ConfigurationError: the daemon refuses the request as wrong.
            NoSuchObjectError: it does not know what is asked for.
            MonitorError: the daemon does not answer, or reports a failure.
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

    async def events(self, after: int | None) -> AsyncIterator[dict[str, Any]]:
        """Yield events as they are recorded, behind a position or from now on."""
        query = {} if after is None else {"after": str(after)}
        timeout = aiohttp.ClientTimeout(total=None, sock_read=_STREAM_IDLE_SECONDS)
        try:
            async with self._session.get(
                "/api/v1/events/stream", params=query, timeout=timeout
            ) as response:
                await _check(response)
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
        timeout = aiohttp.ClientTimeout(total=timeout_seconds)
        try:
            async with self._session.request(
                method, path, params=query, json=body, timeout=timeout
            ) as response:
                await _check(response)
                return await response.json()
        except (aiohttp.ClientError, TimeoutError) as exc:
            raise self._unreachable(exc) from exc

    def _unreachable(self, exc: Exception) -> MonitorError:
        return MonitorError(
            f"no daemon answers at {self._address} ({type(exc).__name__}): "
            "is it running, and with this configuration?"
        )


async def _check(response: aiohttp.ClientResponse) -> None:
    if response.status < _ERRORS_FROM:
        return
    try:
        detail = (await response.json(content_type=None))["detail"]
    except (ValueError, TypeError, KeyError):
        detail = response.reason
    message = f"the daemon answered {response.status}: {detail}"
    raise _ERRORS.get(response.status, MonitorError)(message)
