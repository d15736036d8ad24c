"""Lengths of silences and acknowledgements, as forms offer and read them. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from types import MappingProxyType

from monitor.model.errors import ConfigurationError
from monitor.web.http.form_bodies import Fields
from monitor.web.http.request_parsing import SHOWN, one_line

# `lasts` is chosen, `ends_at` is typed, `morning` is what a browser makes of tomorrow in its zone.
END_FIELDS = ("lasts", "ends_at", "morning")
_UNTIL, _TOMORROW = "until", "tomorrow"
_MORNING_HOUR = 8
_LONGEST_MORNING = timedelta(hours=33)  # from midnight, where the clocks change in between
DURATIONS: Mapping[str, str] = MappingProxyType(
    {
        "1h": "1 hour",
        "2h": "2 hours",
        "4h": "4 hours",
        "8h": "8 hours",
        _TOMORROW: "until tomorrow 08:00 UTC",
        "24h": "1 day",
        "72h": "3 days",
        "168h": "1 week",
        _UNTIL: "until the time below",
    }
)


def end_of(values: Fields, now: datetime) -> datetime:
    """Return the end that was chosen in a form.

    Raises:
        ConfigurationError: it is no time.
    """
    lasts = values.get("lasts", "")
    if lasts == _TOMORROW:
        return _tomorrow(values.get("morning", ""), now)
    if lasts in DURATIONS and lasts != _UNTIL:
        return now + timedelta(hours=int(lasts.removesuffix("h")))
    text = values.get("ends_at", "")
    if (at := _instant(text)) is None:
        raise ConfigurationError(
            f"{one_line(text[:SHOWN])!r} is no time: write it in UTC as 2026-11-21 18:00"
        )
    return at


def as_typed(text: str) -> str:
    """Return an instant as the field of a form takes it; a text that is none stays as it is."""
    at = _instant(text)
    return text if at is None else at.replace(tzinfo=None).isoformat(timespec="minutes")


def _tomorrow(morning: str, now: datetime) -> datetime:
    at = _instant(morning)
    if at is not None and now < at <= now + _LONGEST_MORNING:
        return at
    return (now.astimezone(UTC) + timedelta(days=1)).replace(
        hour=_MORNING_HOUR, minute=0, second=0, microsecond=0
    )


def _instant(text: str) -> datetime | None:
    """Return an instant, in UTC where it names no zone."""
    try:
        at = datetime.fromisoformat(text)
        return at.replace(tzinfo=UTC) if at.tzinfo is None else at.astimezone(UTC)
    except (ValueError, OverflowError):
        return None
