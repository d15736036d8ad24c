"""Weekly, monthly, monthlyWeekday and oneTime: against every minute, and against the calendar."""

from __future__ import annotations

import calendar
from datetime import UTC, date, datetime, time, timedelta
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from monitor.model.triggers import (
    DailyTrigger,
    HourlyTrigger,
    MonthlyTrigger,
    MonthlyWeekdayTrigger,
    OneTimeTrigger,
    RangedTrigger,
    ScheduleTrigger,
    Weekday,
    WeeklyTrigger,
)
from monitor.schedules import BadTriggerError, check, next_after, times_between
from tests.schedules.drawn import DAYS, rhythms, within
from tests.schedules.minutes import NIGHTS, times_by_minutes


def is_day_of(trigger: RangedTrigger, day: date) -> bool:
    """Read the trigger's days off a calendar leaf."""
    if getattr(trigger, "only_working_days", False) and day.isoweekday() > 5:
        return False
    match trigger:
        case WeeklyTrigger():
            return DAYS[day.weekday()] in trigger.days_of_week
        case MonthlyTrigger():
            return day.day in trigger.days_of_month
        case MonthlyWeekdayTrigger():
            nth = (day.day - 1) // 7 + 1
            return (DAYS[day.weekday()], nth) == (
                trigger.day_of_week,
                trigger.nth_week_day_of_month,
            )
    return True


def fits(trigger: RangedTrigger, wall: datetime) -> bool:
    if isinstance(trigger, HourlyTrigger):
        return wall.minute == trigger.minute_of_hour
    expected = (getattr(trigger, "hour_of_day", None), getattr(trigger, "minute_of_hour", None))
    return (wall.hour, wall.minute) == expected and is_day_of(trigger, wall.date())


@given(st.data(), st.sampled_from(NIGHTS), st.integers(-1_200, 60))
def test_every_kind_agrees_with_a_check_of_each_minute(
    data: st.DataObject, night: tuple[str, datetime], minutes_before: int
) -> None:
    """Around clock changes and a leap day, with and without limits, the times are the oracle's."""
    name, change = night
    begin = change + timedelta(minutes=minutes_before)
    end = begin + timedelta(days=2)
    rhythm = data.draw(rhythms(change.date()))
    cut = begin + timedelta(minutes=data.draw(st.integers(-60, 1_440)))
    until = cut + timedelta(minutes=data.draw(st.integers(0, 1_440)))
    is_limited = data.draw(st.booleans())
    limits = {"valid_from": cut, "valid_until": until} if is_limited else {}

    times = times_between([within(rhythm, timezone=name, **limits)], begin, end, limit=100)

    expected = times_by_minutes(
        lambda wall: fits(rhythm, wall),
        zone=ZoneInfo(name),
        begin=begin,
        end=end,
        is_every_hour=isinstance(rhythm, HourlyTrigger),
    )
    assert times == [minute for minute in expected if not is_limited or cut <= minute <= until]


@given(rhythms(), st.integers(2026, 2032))
def test_a_year_agrees_with_the_calendar(rhythm: RangedTrigger, year: int) -> None:
    """Over a whole year, leap years too, a trigger fires on its days and on no other."""
    if isinstance(rhythm, HourlyTrigger):
        rhythm = DailyTrigger(hour_of_day=0, minute_of_hour=rhythm.minute_of_hour)
    begin = datetime(year, 1, 1, tzinfo=UTC) - timedelta(seconds=1)

    times = times_between([within(rhythm)], begin, begin.replace(year=year), limit=400)

    days = (date(year, 1, 1) + timedelta(days=number) for number in range(366))
    wall = time(
        getattr(rhythm, "hour_of_day"),  # noqa: B009 # every kind but the hourly one has it
        rhythm.minute_of_hour,  # type: ignore[attr-defined] # every kind has it
        tzinfo=UTC,
    )
    assert times == [
        datetime.combine(day, wall) for day in days if day.year == year and is_day_of(rhythm, day)
    ]


def test_the_thirty_first_is_left_out_in_short_months() -> None:
    """Seven months have a 31st; nothing is moved to the 30th."""
    trigger = MonthlyTrigger(hour_of_day=6, minute_of_hour=0, days_of_month=(31,))
    begin, end = datetime(2026, 1, 1, tzinfo=UTC), datetime(2026, 12, 31, 23, tzinfo=UTC)
    months = [instant.month for instant in times_between([trigger], begin, end, limit=20)]
    assert months == [month for month in range(1, 13) if calendar.monthrange(2026, month)[1] == 31]


def test_one_time_is_an_instant_whatever_the_zone() -> None:
    """It fires once, at its instant of UTC, and never after."""
    at = datetime(2026, 10, 25, 1, 30, tzinfo=UTC)
    trigger = OneTimeTrigger(at=at, timezone="Europe/Berlin")
    assert next_after(trigger, at - timedelta(seconds=1)) == at
    assert next_after(trigger, at) is None
    assert times_between([trigger], at - timedelta(days=1), at, limit=5) == [at]


@pytest.mark.parametrize(
    "trigger",
    [
        WeeklyTrigger(
            hour_of_day=6,
            minute_of_hour=0,
            days_of_week=(Weekday.SATURDAY, Weekday.SUNDAY),
            only_working_days=True,
        ),
        MonthlyWeekdayTrigger(
            hour_of_day=6,
            minute_of_hour=0,
            day_of_week=Weekday.SUNDAY,
            nth_week_day_of_month=1,
            only_working_days=True,
        ),
        OneTimeTrigger(at=datetime(1999, 1, 1, tzinfo=UTC)),
        DailyTrigger(hour_of_day=6, minute_of_hour=0, valid_until=datetime(2020, 1, 1, tzinfo=UTC)),
    ],
)
def test_days_that_never_come_are_no_error(trigger: ScheduleTrigger) -> None:
    """Weekends that are working days only, and ranges that are over, have no time."""
    check(trigger)
    assert next_after(trigger, datetime(2026, 11, 21, tzinfo=UTC)) is None


@pytest.mark.parametrize(
    ("trigger", "named"),
    [
        (WeeklyTrigger(hour_of_day=6, minute_of_hour=0, days_of_week=()), "daysOfWeek"),
        (
            WeeklyTrigger(hour_of_day=24, minute_of_hour=0, days_of_week=(Weekday.MONDAY,)),
            "hourOfDay",
        ),
        (MonthlyTrigger(hour_of_day=6, minute_of_hour=0, days_of_month=()), "daysOfMonth"),
        (MonthlyTrigger(hour_of_day=6, minute_of_hour=0, days_of_month=(1, 32)), "daysOfMonth 32"),
        (MonthlyTrigger(hour_of_day=6, minute_of_hour=0, days_of_month=(0,)), "daysOfMonth 0"),
        (MonthlyTrigger(hour_of_day=6, minute_of_hour=60, days_of_month=(1,)), "minuteOfHour"),
        (
            MonthlyWeekdayTrigger(
                hour_of_day=6, minute_of_hour=0, day_of_week=Weekday.MONDAY, nth_week_day_of_month=6
            ),
            "nthWeekDayOfMonth 6",
        ),
        (OneTimeTrigger(at=datetime(2030, 1, 1, tzinfo=UTC), timezone="Mars/Base"), "time zone"),
    ],
)
def test_a_date_that_no_calendar_has_is_named(trigger: ScheduleTrigger, named: str) -> None:
    """Days, weeks and zones that do not exist are the one error, with the field's name."""
    with pytest.raises(BadTriggerError, match=named):
        check(trigger)
