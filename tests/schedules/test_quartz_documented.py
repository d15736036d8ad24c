"""The examples of Quartz's own documentation, over whole years, against a calendar.

Each row gives in Python what the documentation gives in words: days, hours and minutes.
"""

from __future__ import annotations

import calendar
from collections.abc import Callable, Iterable
from datetime import UTC, date, datetime, timedelta
from itertools import islice

import pytest

from monitor.model.triggers import CronTrigger
from monitor.schedules import times_between

Days = Callable[[date], bool]
Times = Iterable[tuple[int, int, int]]

FIRST, LAST = date(2002, 1, 1), date(2006, 12, 31)


def every(day: date) -> bool:
    return day is not None


def weekdays(day: date) -> bool:
    return day.weekday() < 5


def nth(day: date) -> int:
    """Return which one of its weekday a day is in its month."""
    return (day.day - 1) // 7 + 1


def last(day: date) -> int:
    return calendar.monthrange(day.year, day.month)[1]


def is_last_of_its_kind(day: date) -> bool:
    return day.day + 7 > last(day)


def nearest_weekday(day: date, target: int) -> bool:
    """True for the weekday of the month that is nearest to a day of it."""
    candidates = [date(day.year, day.month, number) for number in range(1, last(day) + 1)]
    fitting = [candidate for candidate in candidates if weekdays(candidate)]
    return day == min(fitting, key=lambda fitting_day: abs(fitting_day.day - target))


def hm(*times: str) -> list[tuple[int, int, int]]:
    parsed = ([int(part) for part in instant.split(":")] for instant in times)
    return [(hour, minute, rest[0] if rest else 0) for hour, minute, *rest in parsed]


def minutes(hours: Iterable[int], of_hour: Iterable[int]) -> list[tuple[int, int, int]]:
    minutes = list(of_hour)
    return [(hour, minute, 0) for hour in hours for minute in minutes]


DOCUMENTED: list[tuple[str, Days, Times]] = [
    # The tutorial's table of examples.
    ("0 0 12 * * ?", every, hm("12:00")),
    ("0 15 10 ? * *", every, hm("10:15")),
    ("0 15 10 * * ?", every, hm("10:15")),
    ("0 15 10 * * ? *", every, hm("10:15")),
    ("0 15 10 * * ? 2005", lambda day: day.year == 2005, hm("10:15")),
    ("0 * 14 * * ?", every, minutes([14], range(60))),
    ("0 0/5 14 * * ?", every, minutes([14], range(0, 60, 5))),
    ("0 0/5 14,18 * * ?", every, minutes([14, 18], range(0, 60, 5))),
    ("0 0-5 14 * * ?", every, minutes([14], range(6))),
    ("0 10,44 14 ? 3 WED", lambda day: day.month == 3 and day.weekday() == 2, hm("14:10", "14:44")),
    ("0 15 10 ? * MON-FRI", weekdays, hm("10:15")),
    ("0 15 10 15 * ?", lambda day: day.day == 15, hm("10:15")),
    ("0 15 10 L * ?", lambda day: day.day == last(day), hm("10:15")),
    ("0 15 10 L-2 * ?", lambda day: day.day == last(day) - 2, hm("10:15")),
    ("0 15 10 ? * 6L", lambda day: day.weekday() == 4 and is_last_of_its_kind(day), hm("10:15")),
    (
        "0 15 10 ? * 6L 2002-2005",
        lambda day: day.year <= 2005 and day.weekday() == 4 and is_last_of_its_kind(day),
        hm("10:15"),
    ),
    ("0 15 10 ? * 6#3", lambda day: day.weekday() == 4 and nth(day) == 3, hm("10:15")),
    ("0 0 12 1/5 * ?", lambda day: day.day in (1, 6, 11, 16, 21, 26, 31), hm("12:00")),
    ("0 11 11 11 11 ?", lambda day: (day.month, day.day) == (11, 11), hm("11:11")),
    # What the special characters are explained with.
    ("5/15 0 8 * * ?", every, hm("8:00:05", "8:00:20", "8:00:35", "8:00:50")),
    ("0 0 10-12 * * ?", every, hm("10:00", "11:00", "12:00")),
    ("0 0 8 ? * MON,WED,FRI", lambda day: day.weekday() in (0, 2, 4), hm("8:00")),
    ("0 0 8 1/3 * ?", lambda day: day.day % 3 == 1, hm("8:00")),
    ("0 0 8 10 * ?", lambda day: day.day == 10, hm("8:00")),
    ("0 0 8 ? * L", lambda day: day.weekday() == 5, hm("8:00")),
    ("0 0 8 ? * FRIL", lambda day: day.weekday() == 4 and is_last_of_its_kind(day), hm("8:00")),
    ("0 0 8 L-3 * ?", lambda day: day.day == last(day) - 3, hm("8:00")),
    ("0 0 8 15W * ?", lambda day: nearest_weekday(day, 15), hm("8:00")),
    ("0 0 8 1W * ?", lambda day: nearest_weekday(day, 1), hm("8:00")),
    ("0 0 8 LW * ?", lambda day: nearest_weekday(day, last(day)), hm("8:00")),
    ("0 0 8 ? * 2#1", lambda day: day.weekday() == 0 and nth(day) == 1, hm("8:00")),
    ("0 0 8 ? * 4#5", lambda day: day.weekday() == 2 and nth(day) == 5, hm("8:00")),
    ("0 30 1 ? * 6L", lambda day: day.weekday() == 4 and is_last_of_its_kind(day), hm("1:30")),
    (
        "0/5 14,18,3-39,52 * ? JAN,MAR,SEP MON-FRI 2002-2010",
        lambda day: weekdays(day) and day.month in (1, 3, 9),
        [
            (hour, minute, second)
            for hour in range(24)
            for minute in (*range(3, 40), 52)
            for second in range(0, 60, 5)
        ],
    ),
    # The lesson on triggers.
    ("0 0 12 ? * WED", lambda day: day.weekday() == 2, hm("12:00")),
    ("0 0/5 * * * ?", every, minutes(range(24), range(0, 60, 5))),
    ("10 0/5 9 * * ?", every, [(9, minute, 10) for minute in range(0, 60, 5)]),
    ("0 30 10-13 ? * WED,FRI", lambda day: day.weekday() in (2, 4), minutes(range(10, 14), [30])),
    ("0 0/30 8-9 5,20 * ?", lambda day: day.day in (5, 20), minutes([8, 9], [0, 30])),
]
MANY = 12_000  # of times that come every few minutes, the first so many are compared


@pytest.mark.parametrize(
    ("expression", "days", "times"), DOCUMENTED, ids=[row[0] for row in DOCUMENTED]
)
def test_a_documented_example_means_what_is_documented(
    expression: str, days: Days, times: Times
) -> None:
    """On every day of five years it fires at the documented times, and at no other."""
    of_a_day = sorted(times)
    span = (LAST - FIRST).days + 1
    calendar_days = (FIRST + timedelta(days=number) for number in range(span))
    expected = (
        datetime(day.year, day.month, day.day, *instant, tzinfo=UTC)
        for day in calendar_days
        if days(day)
        for instant in of_a_day
    )
    begin = datetime(2002, 1, 1, tzinfo=UTC) - timedelta(seconds=1)
    end = datetime(2007, 1, 1, tzinfo=UTC) - timedelta(seconds=1)

    fired = times_between([CronTrigger(expression=expression)], begin, end, limit=MANY)

    assert fired == list(islice(expected, MANY))
