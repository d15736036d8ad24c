"""Instants and time zones as requests name them."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from monitor.web.http.problem_details import ProblemDetails
from monitor.web.http.request_parsing import SHOWN, one_line

_UNITS = {"h": 3_600, "d": 86_400}
_LONGEST_DAYS = 3_650


def since_of(text: str | None, *, now: datetime) -> datetime | None:
    """Return the instant that a filter ``since`` names; raises as `instant_of` does."""
    return None if text is None else instant_of("since", text, now=now)


def until_of(text: str | None, *, since: datetime | None, now: datetime) -> datetime | None:
    """Return the instant that a filter ``until`` names, before which its list ends.

    Raises:
        ProblemDetails: as `instant_of`, or it is not after ``since``.
    """
    if text is None:
        return None
    until = instant_of("until", text, now=now)
    if since is not None and since >= until:
        raise ProblemDetails(
            400, f"until: {until:%Y-%m-%d %H:%M UTC} is not after since, {since:%Y-%m-%d %H:%M UTC}"
        )
    return until


def instant_of(name: str, text: str, *, now: datetime, zone: ZoneInfo | None = None) -> datetime:
    """Return the instant that a parameter names, or from which on so much time has passed.

    A wall time without a zone is one of ``zone``; without that it is refused.

    Raises:
        ProblemDetails: it is neither.
    """
    number, unit = text[:-1], text[-1]
    if unit in _UNITS and number.isascii() and number.isdigit() and len(number) < SHOWN:
        seconds = min(int(number) * _UNITS[unit], _LONGEST_DAYS * _UNITS["d"])
        return now - timedelta(seconds=seconds)
    shown = repr(one_line(text[:SHOWN]))
    try:
        instant = datetime.fromisoformat(text)
    except ValueError as exc:
        raise ProblemDetails(
            400, f"{name}: {shown} is not an ISO 8601 instant, nor a time such as 24h or 7d"
        ) from exc
    if instant.tzinfo is None:
        if zone is None:
            raise ProblemDetails(400, f"{name}: {shown} names no time zone; add Z or an offset")
        instant = instant.replace(tzinfo=zone)
    try:
        return instant.astimezone(UTC)
    except OverflowError as exc:
        raise ProblemDetails(400, f"{name}: {shown} is outside the calendar") from exc


def zone_of(name: str) -> ZoneInfo:
    """Return the time zone that a parameter ``zone`` names.

    Raises:
        ProblemDetails: there is none of that name.
    """
    try:
        return ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError, OSError) as exc:
        shown = one_line(name[:SHOWN])
        raise ProblemDetails(400, f"zone: {shown!r} is no time zone; write Europe/Berlin") from exc
