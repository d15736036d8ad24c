"""Words for a schedule's trigger. What is not simple keeps its expression."""

from __future__ import annotations

import re
from collections.abc import Sequence

from monitor.model.triggers import (
    CronTrigger,
    DailyTrigger,
    HourlyTrigger,
    MonthlyTrigger,
    MonthlyWeekdayTrigger,
    OneTimeTrigger,
    RangedTrigger,
    ScheduleTrigger,
    UnsupportedTrigger,
    Weekday,
    WeeklyTrigger,
)

_DAYS = ("Sunday", "Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday")
_SHORT_DAYS = tuple(day[:3].upper() for day in _DAYS)
_NTH = ("first", "second", "third", "fourth", "fifth")
_ANY = ("*", "?")
_EVERY = re.compile(r"(?:\*|0)/([1-9]\d?)$")
_EVERY_FROM = re.compile(r"(\d{1,2})/([1-9]\d?)$")
_NUMBERS = re.compile(r"\d{1,2}(,\d{1,2})*$")
_MOST_TIMES = 4  # that still read as words
_CRON_FIELDS = 6
_HOURS = 24


def trigger_words(trigger: ScheduleTrigger) -> str:
    """Return when it fires, such as ``Monday to Friday at 06:30``, in the zone that it names."""
    match trigger:
        case CronTrigger(expression=expression):
            return cron_words(expression) or "by a cron expression"
        case HourlyTrigger(minute_of_hour=minute):
            words = f"every hour at :{minute:02}"
        case DailyTrigger():
            words = f"{_every_day(trigger)} at {_time(trigger)}"
        case WeeklyTrigger():
            words = f"{_weekdays(trigger.days_of_week)} at {_time(trigger)}"
        case MonthlyTrigger():
            words = f"{_days_of_month(trigger.days_of_month)} at {_time(trigger)}"
        case MonthlyWeekdayTrigger():
            words = f"{_nth_weekday(trigger)} at {_time(trigger)}"
        case OneTimeTrigger(at=at):
            return f"once, {at:%Y-%m-%d %H:%M} UTC"
        case UnsupportedTrigger(kind=kind):
            return f"not by the clock ({kind})"
    return words + _limits(trigger)


def expression_of(trigger: ScheduleTrigger) -> str | None:
    """Return the cron expression, None where the trigger is not written as such."""
    return trigger.expression if isinstance(trigger, CronTrigger) else None


def cron_words(expression: str) -> str | None:
    """Return a Quartz expression in words; None where it is not simple."""
    fields = expression.upper().split()
    if len(fields) != _CRON_FIELDS or fields[0] != "0" or fields[4] not in _ANY:
        return None
    _, minute, hour, day, _, weekday = fields
    days, times = _cron_days(day, weekday), _cron_times(minute, hour)
    if days is None or times is None:
        return None
    if times.startswith("every"):
        return times if days == "every day" else f"{times}, {days}"
    return f"{days} at {times}"


def _cron_times(minute: str, hour: str) -> str | None:
    if not minute.isdecimal():
        every = _EVERY.match("*/1" if minute in _ANY else minute)
        return _each(int(every[1]), "minute") if every and hour in _ANY else None
    if hour in _ANY:
        return f"every hour at :{int(minute):02}"
    if every := _EVERY.match(hour):
        return f"{_each(int(every[1]), 'hour')} at :{int(minute):02}"
    hours = hour.split(",")
    if every := _EVERY_FROM.match(hour):
        hours = [str(number) for number in range(int(every[1]), _HOURS, int(every[2]))]
    elif not _NUMBERS.match(hour):
        return None
    if not 0 < len(hours) <= _MOST_TIMES:
        return None
    return _listed([f"{int(hour):02}:{int(minute):02}" for hour in hours])


def _cron_days(day: str, weekday: str) -> str | None:
    if weekday in _ANY:
        return _cron_days_of_month(day)
    if day not in _ANY:
        return None
    first, dash, last = weekday.partition("-")
    if dash:
        named = [_cron_weekday(first), _cron_weekday(last)]
        return None if None in named else f"{named[0]} to {named[1]}"
    days = [_cron_weekday(term) for term in weekday.split(",")]
    return None if None in days else f"on {_listed([f'{day}s' for day in days])}"


def _cron_days_of_month(day: str) -> str | None:
    if day in _ANY:
        return "every day"
    if day == "L":
        return "on the last day of each month"
    is_simple = _NUMBERS.match(day) is not None
    return _days_of_month([int(number) for number in day.split(",")]) if is_simple else None


def _cron_weekday(term: str) -> str | None:
    if term in _SHORT_DAYS:
        return _DAYS[_SHORT_DAYS.index(term)]
    is_number = term.isdecimal() and 1 <= int(term) <= len(_DAYS)
    return _DAYS[int(term) - 1] if is_number else None


def _each(number: int, unit: str) -> str:
    return f"every {unit}" if number == 1 else f"every {number} {unit}s"


def _every_day(trigger: DailyTrigger) -> str:
    return "Monday to Friday" if trigger.only_working_days else "every day"


def _weekdays(days: Sequence[Weekday]) -> str:
    return f"on {_listed([f'{day.capitalize()}s' for day in Weekday if day in days])}"


def _days_of_month(days: Sequence[int]) -> str:
    noun = "day" if len(days) == 1 else "days"
    return f"on {noun} {_listed([str(day) for day in sorted(set(days))])} of each month"


def _nth_weekday(trigger: MonthlyWeekdayTrigger) -> str:
    nth = trigger.nth_week_day_of_month
    word = _NTH[nth - 1] if 1 <= nth <= len(_NTH) else f"{nth}."
    return f"on the {word} {trigger.day_of_week.capitalize()} of each month"


def _time(
    trigger: DailyTrigger | WeeklyTrigger | MonthlyTrigger | MonthlyWeekdayTrigger,
) -> str:
    working = trigger.only_working_days and not isinstance(
        trigger, DailyTrigger
    )  # a daily one says so itself
    words = f"{trigger.hour_of_day:02}:{trigger.minute_of_hour:02}"
    return f"{words}, working days only" if working else words


def _limits(trigger: RangedTrigger) -> str:
    begin = f" from {trigger.valid_from:%Y-%m-%d}" if trigger.valid_from is not None else ""
    end = f" until {trigger.valid_until:%Y-%m-%d}" if trigger.valid_until is not None else ""
    return f"{begin}{end}"


def _listed(words: Sequence[str]) -> str:
    *others, last = words or ("no day",)
    return f"{', '.join(others)} and {last}" if others else last
