"""The file descriptors of the process, and the share of a listener in them."""

from __future__ import annotations

import resource

import structlog

log = structlog.get_logger()

# More than both listeners take at their caps. Not simply the hard limit, which may be a billion:
# some libraries walk through every possible handle when they start a process.
_MOST_DESCRIPTORS = 65_536
# For the store, the log, requests to workspaces, and outputs.
_LEAST_RESERVE = 128
_LISTENERS = 2
_MOST_CONNECTIONS = 4_096  # of one listener; a daemon has dozens of clients
_LEAST_CONNECTIONS = 8


def raise_descriptor_limit() -> None:
    """Raise the soft limit of descriptors to the hard one: the usual soft limit is for `select`."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = _MOST_DESCRIPTORS if hard == resource.RLIM_INFINITY else min(hard, _MOST_DESCRIPTORS)
    if soft == resource.RLIM_INFINITY or soft >= wanted:
        return
    try:
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
    except (OSError, ValueError) as exc:  # a sandbox of the process may forbid it
        log.warning("handle limit not raised", soft=soft, hard=hard, reason=str(exc))


def connection_cap(descriptors: int) -> int:
    """Return how many connections one listener may hold, by the ``descriptors`` of the process.

    A quarter of them stays for everything else, and half of the rest for the other listener.
    """
    rest = descriptors - max(_LEAST_RESERVE, descriptors // 4)
    return max(_LEAST_CONNECTIONS, min(rest // _LISTENERS, _MOST_CONNECTIONS))


def descriptor_limit() -> int:
    """Return how many file descriptors the process may open."""
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return _MOST_DESCRIPTORS if soft == resource.RLIM_INFINITY else soft
