"""Access tokens: what the requests to a workspace need of them, and those that only a file renews.

A token that a person replaces in its file is taken over within a minute, and at the next 401.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from functools import partial
from typing import Protocol

import structlog

from monitor.model.clock import Clock
from monitor.model.errors import ConfigurationError
from monitor.model.secrets import Secret
from monitor.workspace.transport import authorization

log = structlog.get_logger()

READ_AGAIN_SECONDS = 30.0


class AccessTokens(Protocol):
    """The access token of one workspace, which changes while the daemon runs."""

    async def current(self) -> Secret | None:
        """Return the token for the next request; None where none is configured.

        Raises:
            UnauthorizedError: there is none, and only a person can give one.
            WorkspaceUnreachableError: there is none now.
        """

    async def renew(self, refused: Secret | None) -> bool:
        """Return True once there is another token than the one that was refused with 401."""

    async def run(self) -> None:
        """Keep the token usable until cancelled."""


class ReadSecret:
    """A configured secret that is read again where it stands; what cannot be read is logged once.

    The former one stays in use until a good one is there.
    """

    def __init__(
        self,
        secret: Secret,
        *,
        workspace: str,
        key: str,
        check: Callable[[Secret], object] = lambda _: None,
    ) -> None:
        """``check`` raises a `ConfigurationError` where a new one cannot be used."""
        self.secret = secret
        self._check = check
        self._workspace = workspace
        self._key = key
        self._logged: str | None = None

    async def read_again(self) -> bool:
        """Return True where it has changed."""
        if not self.secret.can_change:
            return False
        try:
            secret = await asyncio.to_thread(self.secret.read_again)
            self._check(secret)
        except ConfigurationError as exc:
            if str(exc) != self._logged:
                log.warning(
                    "secret cannot be read again, the former one stays",
                    workspace=self._workspace,
                    key=self._key,
                    reason=str(exc),
                )
            self._logged = str(exc)
            return False
        self._logged = None
        if secret == self.secret:
            return False
        self.secret = secret
        log.info("secret has changed where it stands", workspace=self._workspace, key=self._key)
        return True


class ConfiguredToken:
    """The token of the configuration, and what stands in its file since."""

    def __init__(self, token: Secret | None, *, workspace: str, clock: Clock) -> None:
        self._clock = clock
        self._read: ReadSecret | None = None
        if token is not None:
            check = partial(authorization, workspace=workspace)
            self._read = ReadSecret(token, workspace=workspace, key="token", check=check)

    async def current(self) -> Secret | None:
        return None if self._read is None else self._read.secret

    async def renew(self, refused: Secret | None) -> bool:
        if self._read is None:
            return False
        await self._read.read_again()
        return self._read.secret != refused

    async def run(self) -> None:
        while True:
            await self._clock.sleep(READ_AGAIN_SECONDS)
            if self._read is not None:
                await self._read.read_again()
