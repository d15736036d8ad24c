"""The source of a request: an address, behind trusted proxies the one that they forward."""

from __future__ import annotations

import ipaddress
from collections.abc import Sequence
from functools import lru_cache

Address = ipaddress.IPv4Address | ipaddress.IPv6Address

_SOURCE_BITS = 64  # of an IPv6 address; who has one address has all that share them
_REMEMBERED = 4_096


class TrustedProxies:
    """The proxies whose ``X-Forwarded-For`` is believed. Anybody else may forge it."""

    def __init__(self, networks: Sequence[str]) -> None:
        """``networks`` are addresses or networks, such as ``10.0.0.0/8``.

        Raises:
            ValueError: one of them is neither.
        """
        self._networks = [ipaddress.ip_network(network, strict=False) for network in networks]

    def __bool__(self) -> bool:
        return bool(self._networks)

    def trusts(self, host: str) -> bool:
        """True for a proxy of ours."""
        address = _address(host) if self._networks else None
        return address is not None and self._has(address)

    def source(self, peer: str, forwarded_for: Sequence[str]) -> str:
        """Return the source of a request; ``forwarded_for`` are the values of that header.

        Each proxy adds its own peer at the end, so the last address that is not a proxy's counts:
        what stands before it is the sender's own words.
        """
        source = peer
        for hop in reversed(",".join(forwarded_for).split(",")):
            address = _address(_without_port(hop.strip()))
            if not self.trusts(source) or address is None:
                break
            source = str(address)
        return source_of_host(source)

    def _has(self, address: Address) -> bool:
        return any(address in network for network in self._networks)


@lru_cache(maxsize=_REMEMBERED)
def source_of_host(host: str) -> str:
    """Return whom a cap is about: an IPv4 address, or the network of an IPv6 address."""
    address = _address(host)
    if not isinstance(address, ipaddress.IPv6Address):
        return str(address or host)
    return str(ipaddress.ip_network((address, _SOURCE_BITS), strict=False))


def _address(host: str) -> Address | None:
    try:
        address = ipaddress.ip_address(host.partition("%")[0])
    except ValueError:
        return None
    mapped = address.ipv4_mapped if isinstance(address, ipaddress.IPv6Address) else None
    return mapped or address


def _without_port(hop: str) -> str:
    """Return the address of ``192.0.2.7:123`` or ``[2001:db8::1]:123``, which some proxies send."""
    if hop.startswith("["):
        return hop[1:].partition("]")[0]
    return hop.partition(":")[0] if hop.count(":") == 1 else hop
