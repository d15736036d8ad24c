"""Durations (``90s``, ``30m``, ``2h``, ``7d``, ``1h30m``) and instants as options name them.

And instants as tables print them: marked where the workspace did not report them itself.
"""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta

from monitor.model.errors import ConfigurationError

_SECONDS = {"w": 604_800, "d": 86_400, "h": 3_600, "m": 60, "s": 1}
_FORM = re.compile(r"(?:(\d{1,9})w)?(?:(\d{1,9})d)?(?:(\d{1,9})h)?(?:(\d{1,9})m)?(?:(\d{1,9})s)?")


APPROXIMATE = "~"  # the workspace did not report this time itself
RECORDED = "recorded:"  # it reported none: this is when the monitor recorded the event


def now() -> datetime:
    """Return the wall time. `SystemClock`, which can also wait, takes an event loop's modules."""
    return datetime.now(UTC)


def seconds(option: str, text: str) -> float:
    """Return how many seconds an option names.

    Raises:
        ConfigurationError: it is no length of time, or none that is above zero.
    """
    total = in_seconds(text)
    if total is None:
        hint = "is no length of time; write one as 90s, 30m, 2h, 7d or 1h30m"
        raise ConfigurationError(f"{option}: {text[:40]!r} {hint}")
    return total


def in_seconds(text: str) -> float | None:
    """Return a length of time, None where it is none that is above zero."""
    match = _FORM.fullmatch(text.strip())
    parts = match.groups() if match is not None else ()
    total = sum(
        int(part) * unit for part, unit in zip(parts, _SECONDS.values(), strict=False) if part
    )
    return float(total) if total > 0 else None


def since(text: str, *, option: str = "--since") -> datetime:
    """Return the instant that an option names: itself, or a time span before now.

    Raises:
        ConfigurationError: before the daemon is asked, which would refuse it too.
    """
    span_seconds = in_seconds(text)
    if span_seconds is None:
        return instant(option, text, or_else=", or a span as 30d or 2h")
    try:
        return now() - timedelta(seconds=span_seconds)
    except OverflowError as exc:
        raise ConfigurationError(f"{option}: {text[:40]!r} is before all time") from exc


def until(text: str) -> datetime:
    """Return the instant that ``--until`` names; raises as `since` does."""
    return since(text, option="--until")


def instant(option: str, text: str, *, or_else: str = "") -> datetime:
    """Return the instant that an option names; raises as `since` does."""
    shown = f"{option}: {text[:40]!r}"
    try:
        at = datetime.fromisoformat(text)
    except ValueError as exc:
        hint = f"is not an ISO 8601 instant; write one as 2026-11-21T10:00:00Z{or_else}"
        raise ConfigurationError(f"{shown} {hint}") from exc
    if at.tzinfo is None:
        raise ConfigurationError(f"{shown} names no time zone; add Z or an offset")
    return at
