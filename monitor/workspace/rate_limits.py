"""Reads the rate limits that a workspace's answers announce in their headers."""

from __future__ import annotations

import math
from collections.abc import Mapping
from datetime import datetime

from msgspec import Struct

from monitor.workspace.workspace_time import parse_http_date

SCOPES = ("user", "workspace")

# A longer wait than this is not believed: one odd header must not stop all polls for a day.
LONGEST_PAUSE_SECONDS = 3600.0
# Quotas count by the minute: in a longer pause the workspace is as good as away.
LONG_PAUSE_SECONDS = 60.0
# Seconds since 1970 stay below this until the year 5138; milliseconds passed it in 1973.
_LEAST_MILLISECONDS = 1e11


class Quota(Struct, frozen=True, kw_only=True):
    """One window of one scope, as an answer announced it."""

    scope: str
    limit: int
    remaining: int
    reset_at: float  # workspace time, seconds since 1970


def quotas_in(headers: Mapping[str, str]) -> tuple[Quota, ...]:
    """Read ``x-rate-limit-{user,workspace}-{limit,remaining,reset}``; unreadable ones are left out.

    ``reset`` is epoch milliseconds in every known example; seconds are understood too.
    """
    quotas = []
    for scope in SCOPES:
        limit, remaining, reset = (
            _number(headers.get(f"x-rate-limit-{scope}-{part}"))
            for part in ("limit", "remaining", "reset")
        )
        if limit is None or remaining is None or reset is None or limit < 1:
            continue
        reset_at = reset / 1000 if reset >= _LEAST_MILLISECONDS else reset
        quotas.append(
            Quota(scope=scope, limit=int(limit), remaining=int(remaining), reset_at=reset_at)
        )
    return tuple(quotas)


def retry_after_in(headers: Mapping[str, str], *, now: datetime | None) -> float | None:
    """Return the seconds that ``x-retry-after`` or ``Retry-After`` states, None without one.

    ``now`` is the workspace's time, against which a ``Retry-After`` that is a date is read.
    """
    for name in ("x-retry-after", "Retry-After"):
        text = headers.get(name)
        seconds = _number(text)
        if seconds is None and (at := parse_http_date(text)) is not None and now is not None:
            seconds = max(0.0, (at - now).total_seconds())
        if seconds is not None:
            return min(seconds, LONGEST_PAUSE_SECONDS)
    return None


def _number(text: str | None) -> float | None:
    try:
        number = float(text) if text is not None else None
    except ValueError:
        return None
    if number is None or not math.isfinite(number) or number < 0:
        return None
    return number
