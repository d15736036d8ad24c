"""Access tokens: what the requests to a workspace need of them, and those that only a file renews.

A token that a person replaces in its file is taken over within a minute, and at the next 401.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from datetime import datetime, timedelta
from functools import partial
from typing import Protocol

import structlog

from monitor.model.clock import Clock
from monitor.model.errors import ConfigurationError
from monitor.model.secrets import RegisterSecrets, Secret, not_logged
from monitor.workspace.access.stored_tokens import TokenPair
from monitor.workspace.settings import OauthSettings
from monitor.workspace.transport import authorization

log = structlog.get_logger()

READ_AGAIN_SECONDS = 30.0
_SAME = timedelta(seconds=1)  # wall and monotonic clock drift apart by less


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
        register: RegisterSecrets,
        check: Callable[[Secret], object] = lambda _: None,
    ) -> None:
        """``check`` raises a `ConfigurationError` where a new one cannot be used."""
        self.secret = secret
        self._register = register
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
            if secret != self.secret:
                self._register(secret, of=f"{self._workspace} {self._key}")
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


class OauthSecrets:
    """The secrets of `[workspaces.oauth]`, and what stands where they were read since."""

    def __init__(
        self, oauth: OauthSettings, *, workspace: str, clock: Clock, register: RegisterSecrets
    ) -> None:
        if oauth.refresh_token is None:
            raise ValueError("validated settings have a refresh token")
        read = partial(ReadSecret, workspace=workspace, register=register)
        self._refresh_token = read(oauth.refresh_token, key="oauth.refresh_token")
        self._client_secret = (
            read(oauth.client_secret, key="oauth.client_secret") if oauth.client_secret else None
        )
        self._clock = clock
        self._read_at = float("-inf")  # monotonic

    @property
    def refresh_token(self) -> Secret:
        return self._refresh_token.secret

    @property
    def client_secret(self) -> Secret | None:
        return None if self._client_secret is None else self._client_secret.secret

    async def read_again(self) -> bool:
        """Return True where one has changed; at most every half minute they are looked at."""
        now = self._clock.monotonic()
        if now - self._read_at < READ_AGAIN_SECONDS:
            return False
        self._read_at = now
        has_changed = await self._refresh_token.read_again()
        if self._client_secret is not None:
            has_changed |= await self._client_secret.read_again()
        return has_changed


class TokenInUse:
    """The access token of the newest stored pair, and its end.

    Its life is given as a duration, so its end is monotonic: our wall clock may be set meanwhile.
    """

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._pair: TokenPair | None = None
        self._ends: float | None = None  # monotonic; None: it is used until it is refused

    def load(self, pair: TokenPair | None) -> None:
        """Take one from the store, whose instants are by the wall clock as it was set then."""
        left = None if pair is None else pair.left_seconds(self._clock.now())
        self.take(pair, ends=None if left is None else self._clock.monotonic() + left)

    def take(self, pair: TokenPair | None, *, ends: float | None) -> None:
        self._pair, self._ends = pair, ends

    @property
    def left_seconds(self) -> float | None:
        return None if self._ends is None else self._ends - self._clock.monotonic()

    @property
    def token(self) -> Secret | None:
        """The token while it is good; None where there is none, or it has ended."""
        left = self.left_seconds
        has_ended = left is not None and left <= 0
        return None if self._pair is None or has_ended else self._pair.access_token

    @property
    def expires_at(self) -> datetime | None:
        """When it ends, by our wall clock as it is set now."""
        stored = None if self._pair is None else self._pair.expires_at
        if stored is None or (left := self.left_seconds) is None:
            return None
        at = self._clock.now() + timedelta(seconds=left)
        return stored if abs(at - stored) < _SAME else at

    @property
    def obtained_at(self) -> datetime | None:
        """When it was refreshed, by our wall clock as it is set now."""
        if self._pair is None or self._pair.expires_at is None or self.expires_at is None:
            return None if self._pair is None else self._pair.obtained_at
        return self._pair.obtained_at + (self.expires_at - self._pair.expires_at)


class ConfiguredToken:
    """The token of the configuration, and what stands in its file since."""

    def __init__(
        self,
        token: Secret | None,
        *,
        workspace: str,
        clock: Clock,
        register: RegisterSecrets = not_logged,
    ) -> None:
        self._clock = clock
        self._read: ReadSecret | None = None
        if token is not None:
            check = partial(authorization, workspace=workspace)
            self._read = ReadSecret(
                token, workspace=workspace, key="token", register=register, check=check
            )

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
