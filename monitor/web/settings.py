"""Settings of the server of page, metrics and admin API."""

from __future__ import annotations

import socket
from typing import Annotated
from urllib.parse import urlsplit

from msgspec import Meta

from monitor.listening.settings import AddressSettings, listen_address, split_address
from monitor.model.outside import is_host, is_loopback
from monitor.model.secrets import Secret
from monitor.model.settings import StartSetting, hard_to_guess, one_line

_ANY_ADDRESS = frozenset({"0.0.0.0", "::"})  # noqa: S104 - compared only


def _host_names(names: list[str]) -> str | None:
    """Accept names alone: addresses are always served, and a port does not matter."""
    if all(is_host(name) and ":" not in name for name in names):
        return None
    return 'each must be a host name without scheme and port, such as "monitor.example.com"'


def _public_url(url: str) -> str | None:
    parts = urlsplit(url)
    is_plain = url.isprintable() and not set(url) & set(" ?#@")
    if parts.scheme in ("http", "https") and parts.hostname and is_plain:
        return None
    return 'must be such as "https://monitor.example.com", without credentials, query and "#"'


class ServerSettings(AddressSettings, frozen=True, kw_only=True):
    """The page, the metrics and the admin API."""

    listen: Annotated[
        str,
        StartSetting(
            "HOST:PORT. Outside loopback it needs a token or a password.", check=listen_address
        ),
    ] = "127.0.0.1:9876"
    token: Annotated[
        Secret | None,
        StartSetting(
            "Bearer token that clients must send as Authorization: Bearer; 16 characters or more.",
            "dataprep-monitor-token",
            hard_to_guess(16),
        ),
    ] = None
    username: Annotated[
        str | None,
        StartSetting(
            "User name of basic auth, for browsers; needs the password.", "operator", check=one_line
        ),
    ] = None
    password: Annotated[
        Secret | None,
        StartSetting(
            "Password of basic auth, 12 characters or more; needs the username.",
            "dataprep-monitor-password",
            hard_to_guess(12),
        ),
    ] = None
    allow_anonymous: Annotated[
        bool, StartSetting("Allow access without authentication; for trusted networks only.")
    ] = False
    hosts: Annotated[
        tuple[str, ...],
        StartSetting(
            "Names under which browsers and scripts reach the server, beside its listen "
            "address, IP addresses and localhost; without any, and listening on all addresses, "
            "the name of this machine too. A request for another name is answered 421; /healthz, "
            "/readyz and /metrics are open under any.",
            check=_host_names,
        ),
    ] = ()
    public_url: Annotated[
        str | None,
        StartSetting(
            "Where people reach the page, for the links in messages and alerts; without it, the "
            "listen address.",
            "https://monitor.example.com",
            _public_url,
        ),
    ] = None
    body_timeout_seconds: float = 10.0  # for a client to send a body
    wrong_credentials_delay_seconds: float = 1.0
    writes_per_minute: int = 60  # of one source, and so many at once
    stale_after_seconds: Annotated[
        float,
        Meta(ge=10, le=86_400),
        StartSetting("An active run that was not confirmed within this time is shown as unknown."),
    ] = 600.0

    @property
    def has_auth(self) -> bool:
        """True if requests must authenticate."""
        return self.token is not None or self.password is not None

    @property
    def page_host(self) -> str:
        """The host in its own links: of all addresses the first of ``hosts``, or this machine."""
        if self.host not in _ANY_ADDRESS:
            return self.host
        return self.hosts[0] if self.hosts else socket.gethostname()

    @property
    def page_url(self) -> str | None:
        """Where other machines find the page; None where the port is not known yet."""
        host, port = self.page_host, split_address(self.listen)[1]
        if port == 0:
            return None
        return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"

    @property
    def linked_url(self) -> str | None:
        """Where links in messages lead; None where that is not known yet."""
        return self.page_url if self.public_url is None else self.public_url.rstrip("/")

    def problems(self) -> list[str]:
        """Return one sentence ``key: problem`` for what does not fit together."""
        problems: list[str] = []
        if self.username is not None and self.password is None:
            problems.append("username: has no password; add password_file")
        if self.password is not None and self.username is None:
            problems.append("username: is needed beside the password; add it")
        if not (is_loopback(self.host) or self.has_auth or self.allow_anonymous):
            problems.append(
                "listen: others can reach this address: add token_file, or username and "
                "password_file, or set allow_anonymous = true"
            )
        return problems
