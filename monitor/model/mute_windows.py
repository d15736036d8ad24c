"""Weekly times without notifications: how they are written, parsed, and what they contain."""

from __future__ import annotations

import re
from collections.abc import Iterable
from datetime import datetime
from functools import cache
from zoneinfo import ZoneInfo, available_timezones

from msgspec import Struct

from monitor.model.errors import ConfigurationError
from monitor.model.suggestions import did_you_mean

DAYS = ("Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun")
MINUTES_OF_DAY = 24 * 60
FORM = '"Mon-Fri 22:00-06:00 Europe/Berlin" or "Sat,Sun Europe/Berlin"'

_NUMBERS = {day.lower(): number for number, day in enumerate(DAYS)}
_TIMES = re.compile(r"(\d{2}):([0-5]\d)-(\d{2}):([0-5]\d)", re.ASCII)


class MuteWindow(Struct, frozen=True, kw_only=True):
    """Times of the week by the wall clock of ``zone``.

    ``start`` and ``end`` are minutes of the day, the end not included. An end that is not after
    the start lies on the next day, and the time belongs to the day on which it begins.
    """

    text: str
    days: frozenset[int]  # 0 is Monday
    start: int
    end: int
    zone: ZoneInfo


def parse_mute_window(text: str) -> MuteWindow:
    """Parse one entry of ``mute``: days, times, or both, and always a time zone.

    Raises:
        ConfigurationError: it cannot be parsed; the problem shows the right form.
    """
    *parts, zone_name = text.split() or [""]
    if len(parts) not in (1, 2):
        raise ConfigurationError(f"write days, times or both, and a time zone, such as {FORM}")
    zone = _zone(zone_name)
    days = frozenset(range(len(DAYS)))
    start, end = 0, MINUTES_OF_DAY
    if not _are_times(parts[0]):
        days = _days(parts.pop(0))
    if parts:
        start, end = _times(parts[0])
    return MuteWindow(text=text, days=days, start=start, end=end, zone=zone)


def is_muted(windows: Iterable[MuteWindow], at: datetime) -> bool:
    """True where any window contains ``at``, in its own time zone."""
    return any(_holds(window, at) for window in windows)


def _holds(window: MuteWindow, at: datetime) -> bool:
    local = at.astimezone(window.zone)
    minute = local.hour * 60 + local.minute
    today = local.weekday()
    if window.start < window.end:
        return today in window.days and window.start <= minute < window.end
    yesterday = (today - 1) % 7
    return (today in window.days and minute >= window.start) or (
        yesterday in window.days and minute < window.end
    )


def _are_times(word: str) -> bool:
    return any(character.isdigit() or character == ":" for character in word)


def _days(word: str) -> frozenset[int]:
    days: set[int] = set()
    for part in word.split(","):
        first, dash, last = part.partition("-")
        begin = _day(first)
        end = _day(last) if dash else begin
        # "Fri-Mon" goes over the weekend.
        days |= {(begin + step) % 7 for step in range((end - begin) % 7 + 1)}
    return frozenset(days)


def _day(word: str) -> int:
    number = _NUMBERS.get(word.lower())
    if number is None:
        hint = did_you_mean(word, DAYS) or f": write {', '.join(DAYS)}"
        raise ConfigurationError(f"{word!r} is no day{hint}")
    return number


def _times(word: str) -> tuple[int, int]:
    times = _TIMES.fullmatch(word)
    if times is None:
        raise ConfigurationError(f"{word!r} is no stretch of time: write it as 22:00-06:00")
    begin_hour, begin_minute, end_hour, end_minute = (int(group) for group in times.groups())
    start = begin_hour * 60 + begin_minute
    end = end_hour * 60 + end_minute
    if start >= MINUTES_OF_DAY or end > MINUTES_OF_DAY:
        raise ConfigurationError(f"{word!r}: times go from 00:00 to 24:00")
    if start == end:
        raise ConfigurationError(f"{word!r} is no time at all; for whole days leave the times out")
    return start, end


def _zone(name: str) -> ZoneInfo:
    if (problem := time_zone_problem(name)) is not None:
        raise ConfigurationError(f"{name!r} {problem}")
    return ZoneInfo(name)


def time_zone_problem(name: str) -> str | None:
    """Return why a name is no time zone, with the nearest that is one; None where it is."""
    known = zone_names()
    return None if name in known else f"is no time zone{did_you_mean(name, known) or _ZONES}"


_ZONES = "; write one of the IANA list, such as Europe/Berlin or UTC"


@cache
def zone_names() -> frozenset[str]:
    """Return every time zone that this machine knows."""
    # Reads the whole database of the system, and every configuration needs the names.
    return frozenset(available_timezones())
