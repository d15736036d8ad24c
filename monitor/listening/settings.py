"""The settings of a listener: its address, its proxies and the limits of its connections."""

from __future__ import annotations

import ipaddress
import re
from typing import Annotated

from msgspec import Struct

from monitor.model.outside import is_host
from monitor.model.settings import StartSetting

_LARGEST_PORT = 65_535
_EVERYWHERE = {"0.0.0.0": "127.0.0.1", "::": "::1"}  # noqa: S104 - what may be listened on
# Wider networks hold senders that are no proxies.
_LEAST_PREFIX = {4: 8, 6: 32}


def listen_address(text: str) -> str | None:
    """Return what an address must be, or None where it can be listened on."""
    try:
        split_address(text)
    except ValueError:
        return (
            'must be HOST:PORT, such as "127.0.0.1:9876" or "[::1]:9876"; port 0 takes a free one'
        )
    return None


def split_address(text: str) -> tuple[str, int]:
    """Return host and port of ``HOST:PORT``, an IPv6 host in brackets.

    Raises:
        ValueError: it is not that.
    """
    match = re.fullmatch(r"(?:\[([0-9a-fA-F:.]+)\]|([A-Za-z0-9._-]+)):([0-9]{1,5})", text)
    if match is None or int(match[3]) > _LARGEST_PORT or not is_host(match[1] or match[2]):
        raise ValueError(f"{text!r} is not HOST:PORT")
    return match[1] or match[2], int(match[3])


def _networks(texts: list[str]) -> str | None:
    try:
        parsed = [ipaddress.ip_network(text, strict=False) for text in texts]
    except ValueError:
        return 'each must be an IP address or network, such as "127.0.0.1" or "10.1.0.0/16"'
    if any(network.prefixlen < _LEAST_PREFIX[network.version] for network in parsed):
        return (
            "a network so wide lets any sender forge its address: name the proxies themselves, "
            "at least /8 (IPv6: /32)"
        )
    return None


class ConnectionLimits(Struct, frozen=True, kw_only=True):
    """How many connections a listener holds, and for how long."""

    total: int | None = None  # None: its share of the file descriptors of the process
    # None: 64; a third of the total for known sources, which are those of ``local``, and those that
    # authenticated lately.
    per_source: int | None = None
    reserve: int | None = None  # of the total for known sources; None: an eighth
    local: tuple[str, ...] = ("127.0.0.0/8", "::1")
    head_seconds: float = 20.0  # from the connection to the end of its first request's head
    # Between two requests, and for a reader to take an answer. The usual proxies wait shorter
    # before they use a connection again, so that none is closed under a request.
    idle_seconds: float = 75.0


class TlsSettings(Struct, frozen=True, kw_only=True):
    """TLS of this listener, 1.2 or newer; without this table it speaks plain HTTP.

    Files that change are loaded again by themselves, and no connection ends.
    """

    certificate_file: Annotated[
        str,
        StartSetting(
            "Its certificate in PEM form, and after it those of the authorities in between.",
            "/etc/dataprep-monitor/tls.crt",
            is_file=True,
        ),
    ]
    key_file: Annotated[
        str,
        StartSetting(
            "The key of the certificate in PEM form, without a passphrase.",
            "/etc/dataprep-monitor/tls.key",
            is_file=True,
        ),
    ]
    client_ca_file: Annotated[
        str | None,
        StartSetting(
            "Authorities of client certificates. [server] lets in whom such a certificate names "
            "among the users of [[access]]; [callbacks] serves no client without one.",
            "/etc/dataprep-monitor/clients.crt",
            is_file=True,
        ),
    ] = None


class AddressSettings(Struct, frozen=True, kw_only=True):
    """Where a listener listens. The settings of each begin so."""

    listen: str  # HOST:PORT, checked by `listen_address`
    trusted_proxies: Annotated[
        tuple[str, ...],
        StartSetting(
            "Addresses and networks of reverse proxies. Limits and log lines about a request from "
            "one of them name the last other address in its X-Forwarded-For.",
            check=_networks,
        ),
    ] = ()
    tls: TlsSettings | None = None
    connections: ConnectionLimits = ConnectionLimits()

    @property
    def scheme(self) -> str:
        return "http" if self.tls is None else "https"

    @property
    def host(self) -> str:
        return split_address(self.listen)[0]

    @property
    def port(self) -> int:
        return split_address(self.listen)[1]

    @property
    def reachable(self) -> str:
        """The address at which this machine reaches it; ``listen`` may mean every address."""
        host = _EVERYWHERE.get(self.host, self.host)
        return f"[{host}]:{self.port}" if ":" in host else f"{host}:{self.port}"
