"""Times without notifications, of the week and of holidays: how they are written and parsed."""

from __future__ import annotations

import re
from collections.abc import Iterable
from datetime import date, datetime, timedelta
from functools import cache
from zoneinfo import ZoneInfo, available_timezones

from msgspec import Struct

from monitor.model.days_off import NO_DAYS_OFF, DaysOff
from monitor.model.errors import ConfigurationError
from monitor.model.suggestions import did_you_mean

DAYS = ("Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun")
HOLIDAYS = "holidays"
NO_HOLIDAYS = "!holidays"
MINUTES_OF_DAY = 24 * 60
FORM = '"Mon-Fri 22:00-06:00 Europe/Berlin" or "Sat,Sun Europe/Berlin"'

_DAY = timedelta(days=1)
_EVERY_DAY = frozenset(range(len(DAYS)))
_NUMBERS = {day.lower(): number for number, day in enumerate(DAYS)}
_TIMES = re.compile(r"(\d{2}):([0-5]\d)-(\d{2}):([0-5]\d)", re.ASCII)


class MuteWindow(Struct, frozen=True, kw_only=True):
    """Times of the week by the wall clock of ``zone``, and of ``days_off``.

    ``start`` and ``end`` are minutes of the day, the end not included. An end that is not after
    the start lies on the next day, and the time belongs to the day on which it begins.
    """

    text: str
    days: frozenset[int]  # 0 is Monday
    has_holidays: bool  # whatever day of the week they are
    excludes_holidays: bool
    days_off: DaysOff
    start: int
    end: int
    zone: ZoneInfo

    @property
    def names_holidays(self) -> bool:
        """True where it needs ``days_off``."""
        return self.has_holidays or self.excludes_holidays

    def is_on(self, day: date) -> bool:
        """True where the time, or the night, that begins on that day is muted."""
        if self.excludes_holidays and self.days_off.has(day):
            return False
        return day.weekday() in self.days or (self.has_holidays and self.days_off.has(day))


def parse_mute_window(text: str, days_off: DaysOff = NO_DAYS_OFF) -> MuteWindow:
    """Parse one entry of ``mute``: days, times, or both, and always a time zone.

    ``days_off`` are the holidays that it may name.

    Raises:
        ConfigurationError: it cannot be parsed; the problem shows the right form.
    """
    *parts, zone_name = text.split() or [""]
    if len(parts) not in (1, 2):
        raise ConfigurationError(f"write days, times or both, and a time zone, such as {FORM}")
    zone = _zone(zone_name)
    start, end = 0, MINUTES_OF_DAY
    words = [] if _are_times(parts[0]) else parts.pop(0).split(",")
    if parts:
        start, end = _times(parts[0])
    has_holidays, excludes_holidays = HOLIDAYS in words, NO_HOLIDAYS in words
    if has_holidays and excludes_holidays:
        raise ConfigurationError(f"{HOLIDAYS} and {NO_HOLIDAYS} exclude each other; remove one")
    return MuteWindow(
        text=text,
        days=_EVERY_DAY if words in ([], [NO_HOLIDAYS]) else _days(words),
        has_holidays=has_holidays,
        excludes_holidays=excludes_holidays,
        days_off=days_off,
        start=start,
        end=end,
        zone=zone,
    )


def is_muted(windows: Iterable[MuteWindow], at: datetime) -> bool:
    """True where any window contains ``at``, in its own time zone."""
    return any(_holds(window, at) for window in windows)


def _holds(window: MuteWindow, at: datetime) -> bool:
    local = at.astimezone(window.zone)
    minute, today = local.hour * 60 + local.minute, local.date()
    if window.start < window.end:
        return window.start <= minute < window.end and window.is_on(today)
    if minute >= window.start:
        return window.is_on(today)
    return minute < window.end and window.is_on(today - _DAY)


def _are_times(word: str) -> bool:
    return any(character.isdigit() or character == ":" for character in word)


def _days(words: Iterable[str]) -> frozenset[int]:
    days: set[int] = set()
    for part in words:
        if part in (HOLIDAYS, NO_HOLIDAYS):
            continue
        first, dash, last = part.partition("-")
        begin = _day(first)
        end = _day(last) if dash else begin
        # "Fri-Mon" goes over the weekend.
        days |= {(begin + step) % 7 for step in range((end - begin) % 7 + 1)}
    return frozenset(days)


def _day(word: str) -> int:
    number = _NUMBERS.get(word.lower())
    if number is None:
        hint = did_you_mean(word, (*DAYS, HOLIDAYS, NO_HOLIDAYS)) or f": write {', '.join(DAYS)}"
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
