"""Reasons of outages in a few words, of the errors that a failed request leaves. Pure."""

from __future__ import annotations

import re

_MOST_CHARACTERS = 80  # of a reason that none of the words below fits
# The first that fits; what the operating system, TLS and our own client write.
_WORDS = (
    (r"connection refused", "connection refused"),
    (
        r"getaddrinfo|name or service not known|name resolution|no address associated",
        "unknown host name",
    ),
    (r"certificate", "its certificate is not accepted"),
    (r"network is unreachable|no route to host", "no route to it"),
    (r"connection reset|the connection broke|disconnected", "the connection broke"),
    (r"in time|timed out|timeout", "no answer in time"),
    (r"not an http answer", "what answers there does not speak HTTP"),
    (r"unauthorized|answered 401", "it refuses the token"),
)
_PHRASES = {
    "500": "Internal Server Error",
    "502": "Bad Gateway",
    "503": "Service Unavailable",
    "504": "Gateway Timeout",
}
_STATUS = re.compile(r"\banswered (\d{3})\b")
_POLL = re.compile(r"^[a-z_ ]+: ")


def reason_in_words(reason: str | None) -> str | None:
    """Return such as "connection refused" of the reason of a workspace's status.

    What is not recognised stays as it is, up to a line's length; None stays None.
    """
    if not reason:
        return None
    folded = reason.casefold()
    for pattern, words in _WORDS:
        if re.search(pattern, folded):
            return words
    if (status := _STATUS.search(folded)) is not None:
        return f"HTTP {status[1]} {_PHRASES.get(status[1], '')}".rstrip()
    first = _POLL.sub("", reason.split(";", 1)[0]).strip()
    return first if len(first) <= _MOST_CHARACTERS else f"{first[:_MOST_CHARACTERS]}…"
