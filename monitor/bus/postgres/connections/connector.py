"""The source of a daemon's connections. An outage is two lines of log, no more."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from functools import partial

import structlog

from monitor.bus.postgres.connections.connecting import Connection, connect
from monitor.bus.postgres_address import PostgresAddress
from monitor.model.errors import BusError, BusUnavailableError, ConfigurationError
from monitor.model.secrets import Secret

log = structlog.get_logger()


@dataclass(kw_only=True)
class PostgresConnector:
    """Makes connections to the primary, wherever it is by now.

    The first one fails as `connect` says. Later a server that refuses may only be half way through
    a fail-over or restore, so everything counts as unavailable.
    """

    address: PostgresAddress
    password: Secret | None = field(repr=False)
    lease_seconds: float
    _has_connected: bool = False
    _is_away: bool = False

    async def connect(self, *, purpose: str, statement_seconds: float | None = None) -> Connection:
        """Return a new connection; ``purpose`` names it in the server's list of sessions.

        Raises:
            BusUnavailableError: there is no primary that can be reached.
        """
        try:
            connection = await self._connect(purpose, statement_seconds)
        except (BusError, ConfigurationError) as exc:
            if not self._has_connected:
                raise
            self._log_absence(exc)
            raise BusUnavailableError(str(exc)) from exc
        if self._is_away:
            log.info("database reachable again", database=str(self.address))
        self._has_connected, self._is_away = True, False
        return connection

    async def _connect(self, purpose: str, statement_seconds: float | None) -> Connection:
        """Connect; where the database refuses the password, once more with a changed one."""
        attempt = partial(
            connect,
            self.address,
            purpose=purpose,
            timeout_seconds=max(1.0, self.lease_seconds / 4),
            lease_seconds=self.lease_seconds,
            statement_seconds=statement_seconds,
        )
        try:
            return await attempt(self.password)
        except ConfigurationError as refused:
            former = self.password
            if former is None or not former.can_change:
                raise
            try:
                self.password = await asyncio.to_thread(former.read_again)
            except ConfigurationError as exc:
                reason = f"{refused}; and storage.password cannot be read again: {exc}"
                raise ConfigurationError(reason) from exc
            if self.password == former:
                raise
            return await attempt(self.password)

    def _log_absence(self, exc: Exception) -> None:
        if not self._is_away:
            self._is_away = True
            log.warning("database unreachable", database=str(self.address), error=str(exc))
