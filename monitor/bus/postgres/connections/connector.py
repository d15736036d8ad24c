"""The source of a daemon's connections. An outage is two lines of log, no more."""

from __future__ import annotations

from dataclasses import dataclass, field

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
            connection = await connect(
                self.address,
                self.password,
                purpose=purpose,
                timeout_seconds=max(1.0, self.lease_seconds / 4),
                lease_seconds=self.lease_seconds,
                statement_seconds=statement_seconds,
            )
        except (BusError, ConfigurationError) as exc:
            if not self._has_connected:
                raise
            self._log_absence(exc)
            raise BusUnavailableError(str(exc)) from exc
        if self._is_away:
            log.info("database reachable again", database=str(self.address))
        self._has_connected, self._is_away = True, False
        return connection

    def _log_absence(self, exc: Exception) -> None:
        if not self._is_away:
            self._is_away = True
            log.warning("database unreachable", database=str(self.address), error=str(exc))
