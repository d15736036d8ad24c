"""Checks of foreign words before they become part of a path, an address or a topic."""

from __future__ import annotations

import ipaddress
import re

_RUN_ID = re.compile(r"[A-Za-z0-9_-]{1,64}")
_HOST = re.compile(r"[\w.-]+")


def is_run_id(text: str) -> bool:
    """True for what can be the id of a run: it changes neither a path nor a topic."""
    return _RUN_ID.fullmatch(text) is not None


def is_plain(text: str) -> bool:
    """True for a text of printable characters without spaces.

    Python's own reading of URLs drops line ends and tabs unseen, so that another host is asked.
    """
    return text.isprintable() and not any(character.isspace() for character in text)


def is_host(text: str) -> bool:
    """True for an IP address, or a name that can be asked for."""
    try:
        ipaddress.ip_address(text)
    except ValueError:
        return _is_name(text)
    return True


def _is_name(text: str) -> bool:
    if _HOST.fullmatch(text) is None:
        return False
    try:
        # Resolving a name does the same, and fails there with an error of its own kind.
        return bool(text.encode("idna"))
    except UnicodeError:
        return False
