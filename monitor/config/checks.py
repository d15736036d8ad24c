"""Checks of single values. A check returns what the value must be, or None where it is valid."""

from __future__ import annotations

import ipaddress
import re
from typing import Any
from urllib.parse import SplitResult, urlsplit

from monitor.bus.settings import store_path
from monitor.model.errors import ConfigurationError
from monitor.model.outside import is_host, is_plain
from monitor.polling.settings import followed_run

WORKSPACE_NAME = r"[a-z0-9][a-z0-9-]{0,62}"
RESERVED_NAMES = frozenset({"bridge"})  # a topic level of the daemon itself
# Random ones are much longer. A shorter one can be guessed, at the speed of the network.
MIN_SECRET_CHARACTERS = 16
MIN_PASSWORD_CHARACTERS = 12

# Wider networks hold senders that are no proxies.
_LEAST_PREFIX = {4: 8, 6: 32}


def workspace_name(name: str) -> str | None:
    if name in RESERVED_NAMES:
        return "is reserved for the daemon's own topics; choose another name"
    if re.fullmatch(WORKSPACE_NAME, name) is None:
        return "use 1 to 63 of a-z, 0-9 and -, not - first; it is a label and a topic level"
    return None


def _split(url: str) -> SplitResult | None:
    """Return the parts of a URL whose host can be requested, None for any other."""
    if not is_plain(url):
        return None
    try:
        parts = urlsplit(url)
        port = parts.port  # raises where it is no number
    except ValueError:
        return None
    return parts if port != 0 and is_host(parts.hostname or "") else None


def http_url(url: str) -> str | None:
    parts = _split(url)
    if parts is None or parts.scheme not in ("http", "https"):
        return 'must be an http or https URL, such as "https://api.clouddataprep.com"'
    if parts.username is not None or parts.password is not None:
        return "must not hold credentials; give the token as token_file"
    if "?" in url or "#" in url:
        return "must end with host, port or path; remove the query or fragment"
    return None


def public_url(url: str) -> str | None:
    parts = _split(url)
    if parts is None or parts.scheme not in ("http", "https"):
        return 'must be an http or https URL, such as "https://monitor.example.com"'
    if parts.username is not None or parts.password is not None:
        return "must not hold credentials; callbacks carry the secret in a header"
    if "?" in url or "#" in url or "/hooks" in parts.path:
        return "must be what stands in front of /hooks; remove /hooks, query and fragment"
    return None


def listen_address(text: str) -> str | None:
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
    if match is None or int(match[3]) > 65_535:  # noqa: PLR2004 - a port has two bytes
        raise ValueError(f"{text!r} is not HOST:PORT")
    if not is_host(match[1] or match[2]):
        raise ValueError(f"{text!r} is not HOST:PORT")
    return match[1] or match[2], int(match[3])


def joined_address(host: str, port: int) -> str:
    """Return ``HOST:PORT``, the opposite of `split_address`."""
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def listen_fields(text: str) -> dict[str, Any]:
    """Return the two fields that a ``listen`` key stands for."""
    host, port = split_address(text)
    return {"host": host, "port": port}


def host_names(names: list[str]) -> str | None:
    """Accept names alone: addresses are always served, and a port does not matter."""
    if all(is_host(name) and ":" not in name for name in names):
        return None
    return 'each must be a host name without scheme and port, such as "monitor.example.com"'


def networks(texts: list[str]) -> str | None:
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


def storage_url(url: str) -> str | None:
    try:
        store_path(url)
    except (ConfigurationError, ValueError):
        return (
            "must be sqlite:// and an absolute path, such as "
            '"sqlite:///var/lib/dataprep-monitor/state.db"'
        )
    return None


def followed_runs(texts: list[str]) -> str | None:
    try:
        for text in texts:
            followed_run("workspace", text)
    except ConfigurationError:
        return 'each must be KIND/ID, such as "job_group/123", "flow_run/7" or "plan_run/9"'
    return None


def not_empty(value: str | list[str]) -> str | None:
    return None if value and all(value) else "must not be empty; leave the key out instead"


def one_line(text: str) -> str | None:
    if not text.isprintable():
        return "must not hold a line end or control character"
    return not_empty(text)


def no_empty_text(texts: list[str]) -> str | None:
    return None if all(text.strip() for text in texts) else "holds an empty text; remove that"
