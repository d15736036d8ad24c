"""From each kind of trigger that repeats to the Quartz expression that means the same.

Not published, and assumed here: a day that a month does not have (the 31st, a fifth Monday) is
left out in that month and not made up for, and ``onlyWorkingDays`` takes Saturdays and Sundays
out of whatever days a trigger names, without moving them. Holidays are unknown to a workspace.
"""

from __future__ import annotations

from monitor.model.triggers import (
    CronTrigger,
    DailyTrigger,
    HourlyTrigger,
    MonthlyTrigger,
    MonthlyWeekdayTrigger,
    Weekday,
    WeeklyTrigger,
)
from monitor.schedules.quartz import NEVER, Quartz, on_working_days, parse
from monitor.schedules.trigger_errors import BadTriggerError

Rhythm = (
    CronTrigger
    | HourlyTrigger
    | DailyTrigger
    | WeeklyTrigger
    | MonthlyTrigger
    | MonthlyWeekdayTrigger
)

_LAST_HOUR = 23
_LAST_MINUTE = 59
_LONGEST_MONTH_DAYS = 31
_MOST_WEEKS_OF_A_MONTH = 5
_WEEKEND = frozenset({Weekday.SATURDAY, Weekday.SUNDAY})
_QUARTZ_DAYS = {day: day[:3] for day in Weekday}  # MONDAY is MON


def quartz_of(trigger: Rhythm) -> Quartz:
    """Return the expression that fires when the trigger does, its limits left aside.

    Raises:
        BadTriggerError: a field or the expression is wrong.
    """
    match trigger:
        case CronTrigger(expression=expression):
            return parse(expression)
        case HourlyTrigger(minute_of_hour=minute):
            _require("minuteOfHour", minute, lowest=0, highest=_LAST_MINUTE)
            return parse(f"0 {minute} * * * ?")
        case DailyTrigger(only_working_days=working):
            return parse(f"{_time(trigger)} {'? * MON-FRI' if working else '* * ?'}")
        case WeeklyTrigger():
            return _weekly(trigger)
        case MonthlyTrigger():
            return _monthly(trigger)
        case MonthlyWeekdayTrigger():
            return _monthly_weekday(trigger)


def _weekly(trigger: WeeklyTrigger) -> Quartz:
    time = _time(trigger)
    if not trigger.days_of_week:
        raise BadTriggerError("daysOfWeek names no day")
    days = set(trigger.days_of_week)
    if trigger.only_working_days:
        days -= _WEEKEND
    if not days:
        return NEVER
    return parse(f"{time} ? * {','.join(sorted(_QUARTZ_DAYS[day] for day in days))}")


def _monthly(trigger: MonthlyTrigger) -> Quartz:
    time = _time(trigger)
    if not trigger.days_of_month:
        raise BadTriggerError("daysOfMonth names no day")
    for day in trigger.days_of_month:
        _require("daysOfMonth", day, lowest=1, highest=_LONGEST_MONTH_DAYS)
    days = ",".join(str(day) for day in sorted(set(trigger.days_of_month)))
    spec = parse(f"{time} {days} * ?")
    return on_working_days(spec) if trigger.only_working_days else spec


def _monthly_weekday(trigger: MonthlyWeekdayTrigger) -> Quartz:
    time, nth = _time(trigger), trigger.nth_week_day_of_month
    _require("nthWeekDayOfMonth", nth, lowest=1, highest=_MOST_WEEKS_OF_A_MONTH)
    if trigger.only_working_days and trigger.day_of_week in _WEEKEND:
        return NEVER
    return parse(f"{time} ? * {_QUARTZ_DAYS[trigger.day_of_week]}#{nth}")


def _time(
    trigger: DailyTrigger | WeeklyTrigger | MonthlyTrigger | MonthlyWeekdayTrigger,
) -> str:
    """Return second, minute and hour of the expression."""
    _require("hourOfDay", trigger.hour_of_day, lowest=0, highest=_LAST_HOUR)
    _require("minuteOfHour", trigger.minute_of_hour, lowest=0, highest=_LAST_MINUTE)
    return f"0 {trigger.minute_of_hour} {trigger.hour_of_day}"


def _require(name: str, value: int, *, lowest: int, highest: int) -> None:
    if not lowest <= value <= highest:
        raise BadTriggerError(f"{name} {value}: expected {lowest} to {highest}")
