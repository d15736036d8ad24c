"""Finds who may use the page and the admin API, which silence, register and replay."""

from __future__ import annotations

import ipaddress
from collections.abc import Sequence

from monitor.model.checks import CheckLine, ok, warning
from monitor.web.settings import ServerSettings

_SUBJECT = "server access"
_MAY = "may read everything, silence alerts, register webhook tasks and replay events"


def check_access(server: ServerSettings) -> CheckLine:
    """Return who may use the server; a warning where those are all who reach its address."""
    if server.user_header is not None and server.access and _has_loopback(server.trusted_proxies):
        return warning(
            _SUBJECT,
            "every user and program of this machine may be any user of [[access]] in "
            f"{server.user_header}: trusted_proxies has an address of this machine",
            "run nothing beside the proxy here, or give it an address of its own",
        )
    if server.has_auth:
        return ok(_SUBJECT, f"{server.listen} lets in who logs in, or has its token or password")
    if server.is_open:
        return warning(
            _SUBJECT,
            f"allow_anonymous: all who can reach {server.listen} {_MAY}",
            "add token_file to [server], or listen on 127.0.0.1 behind a proxy that asks for a "
            "password",
        )
    found = f"every user and program of this machine {_MAY} at {server.listen}"
    if server.trusted_proxies:
        found += ", and so may all whom its trusted proxies let through"
    return ok(_SUBJECT, f"{found}; with token_file in [server] only who has the token")


def _has_loopback(networks: Sequence[str]) -> bool:
    parsed = [ipaddress.ip_network(network, strict=False) for network in networks]
    return any(network.is_loopback for network in parsed)
