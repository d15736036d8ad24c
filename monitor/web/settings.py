"""What can be set about the server of the page, the metrics and the admin API."""

from __future__ import annotations

from msgspec import Struct

from monitor.model.secrets import Secret


class ServerSettings(Struct, frozen=True, kw_only=True):
    """Where the server listens and who may ask it. With neither token nor password, anybody."""

    host: str = "127.0.0.1"
    port: int = 9876  # 0 takes a free one
    token: Secret | None = None  # asked for as ``Authorization: Bearer``
    username: str | None = None  # basic auth, together with the password
    password: Secret | None = None
    allow_anonymous: bool = False  # on an address that others can reach
    stale_after_seconds: float = 600.0  # an active run not confirmed for so long is shown unknown

    @property
    def has_auth(self) -> bool:
        """True where a request must say who it is."""
        return self.token is not None or self.password is not None
