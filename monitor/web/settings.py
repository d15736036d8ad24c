"""Settings of the server of page, metrics and admin API."""

from __future__ import annotations

from msgspec import Struct

from monitor.listening.settings import ConnectionLimits
from monitor.model.secrets import Secret


class ServerSettings(Struct, frozen=True, kw_only=True):
    """Address and authentication. Without token and password, every client is accepted."""

    host: str = "127.0.0.1"
    port: int = 9876  # 0 takes a free port
    token: Secret | None = None  # expected as ``Authorization: Bearer``
    username: str | None = None  # basic auth, together with the password
    password: Secret | None = None
    allow_anonymous: bool = False  # on an address that others can reach
    hosts: tuple[str, ...] = ()  # further names under which browsers reach the server
    trusted_proxies: tuple[str, ...] = ()  # addresses and networks that may name the sender
    connections: ConnectionLimits = ConnectionLimits()
    body_timeout_seconds: float = 10.0  # for a client to send a body
    wrong_credentials_delay_seconds: float = 1.0
    writes_per_minute: int = 60  # of one source, and so many at once
    stale_after_seconds: float = 600.0  # active runs not confirmed within this time are unknown

    @property
    def has_auth(self) -> bool:
        """True if requests must authenticate."""
        return self.token is not None or self.password is not None
