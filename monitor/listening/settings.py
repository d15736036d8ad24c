"""Limits of the connections of one listener."""

from __future__ import annotations

from msgspec import Struct


class ConnectionLimits(Struct, frozen=True, kw_only=True):
    """How many connections a listener holds, and for how long."""

    total: int | None = None  # None: its share of the handles that the process may open
    per_source: int | None = None  # None: a third of the total, so that no source has all
    head_seconds: float = 20.0  # from the connection to the end of its first request's head
    # Between two requests, and for a reader to take an answer. The usual proxies wait shorter
    # before they use a connection again, so that none is closed under a request.
    idle_seconds: float = 75.0
