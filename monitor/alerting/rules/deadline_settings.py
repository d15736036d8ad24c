"""The keys of a rule that say when its deadline is: how they are written and parsed. Pure."""

from __future__ import annotations

import re
from enum import StrEnum
from functools import lru_cache
from zoneinfo import ZoneInfo

from monitor.model.days_off import DaysOff
from monitor.model.errors import ConfigurationError
from monitor.model.mute_windows import parse_mute_window
from monitor.schedules.daily_deadlines import DailyDeadline

EVERY_DAY = "Mon-Sun"
MIDNIGHT = "00:00"
_TIME = re.compile(r"([01]\d|2[0-3]):([0-5]\d)", re.ASCII)
_HOUR_MINUTES = 60
_KEPT = 1_000  # rules with deadlines of their own


class Counts(StrEnum):
    """What of a success must lie in the window: it started in it, or it ended in it."""

    STARTED = "started"
    ENDED = "ended"


def parse_time(text: str) -> int:
    """Return a time of the day in minutes.

    Raises:
        ConfigurationError: it is none.
    """
    time = _TIME.fullmatch(text)
    if time is None:
        raise ConfigurationError(f"{text!r} is no time of the day: write 00:00 to 23:59")
    return int(time[1]) * _HOUR_MINUTES + int(time[2])


def parse_days(text: str) -> frozenset[int]:
    """Return days of the week in the form of mute windows; 0 is Monday.

    Raises:
        ConfigurationError: they are none.
    """
    if len(text.split()) != 1 or any(character.isdigit() for character in text):
        raise ConfigurationError('must be days alone, such as "Mon-Fri" or "Mon,Thu"')
    window = parse_mute_window(f"{text} UTC")
    if window.names_holidays:
        raise ConfigurationError(
            "must be days of the week; holidays and holiday_dates have keys of their own"
        )
    return window.days


@lru_cache(maxsize=_KEPT)
def daily_deadline(
    deadline: str, opens: str, zone: str, days: str, days_off: DaysOff
) -> DailyDeadline:
    """Return the deadline that keys of a rule describe, once `config` has accepted them."""
    return DailyDeadline(
        minute=parse_time(deadline),
        opens=parse_time(opens),
        zone=ZoneInfo(zone),
        days=parse_days(days),
        days_off=days_off,
    )
