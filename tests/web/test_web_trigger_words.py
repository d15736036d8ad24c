"""When a schedule fires, in words."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest

from monitor.model.triggers import (
    CronTrigger,
    DailyTrigger,
    HourlyTrigger,
    MonthlyTrigger,
    MonthlyWeekdayTrigger,
    OneTimeTrigger,
    ScheduleTrigger,
    UnsupportedTrigger,
    Weekday,
    WeeklyTrigger,
)
from monitor.web.views.schedules.trigger_words import cron_words, trigger_words

AT: dict[str, Any] = {"hour_of_day": 6, "minute_of_hour": 5}


@pytest.mark.parametrize(
    ("expression", "words"),
    [
        ("0 30 6 * * ?", "every day at 06:30"),
        ("0 30 6 ? * MON-FRI", "Monday to Friday at 06:30"),
        ("0 30 6 ? * 2-6", "Monday to Friday at 06:30"),
        ("0 0 8,20 ? * SUN,3", "on Sundays and Tuesdays at 08:00 and 20:00"),
        ("0 0 4 1,15 * ?", "on days 1 and 15 of each month at 04:00"),
        ("0 0 4 L * ?", "on the last day of each month at 04:00"),
        ("0 * * * * ?", "every minute"),
        ("0 0/5 * * * ?", "every 5 minutes"),
        ("0 */15 * ? * MON-FRI", "every 15 minutes, Monday to Friday"),
        ("0 7 * * * ?", "every hour at :07"),
        ("0 0 0/6 * * ?", "every 6 hours at :00"),
        ("0 21 3/8 * * ?", "every day at 03:21, 11:21 and 19:21"),
        ("0 21 3/2 * * ?", None),
        ("0 0/0 * * * ?", None),
        ("0 0 99/1 * * ?", None),
        ("0 0 4 15W * ?", None),
        ("0 0 4 * JAN ?", None),
        ("0 0 4 ? * FRI#2", None),
        ("30 0 4 * * ?", None),
        ("0 5-9 4 * * ?", None),
        ("0 0 1,2,3,4,5 * * ?", None),
        ("0 0 4 1 * MON", None),
        ("nonsense", None),
    ],
)
def test_a_simple_expression_is_written_in_words(expression: str, words: str | None) -> None:
    """An expression without short words keeps its own text."""
    assert cron_words(expression) == words


@pytest.mark.parametrize(
    ("trigger", "words"),
    [
        (CronTrigger(expression="0 0 4 15W * ?"), "by a cron expression"),
        (HourlyTrigger(minute_of_hour=5), "every hour at :05"),
        (DailyTrigger(**AT, only_working_days=True), "Monday to Friday at 06:05"),
        (
            DailyTrigger(**AT, valid_until=datetime(2026, 12, 24, tzinfo=UTC)),
            "every day at 06:05 until 2026-12-24",
        ),
        (
            WeeklyTrigger(**AT, days_of_week=(Weekday.FRIDAY, Weekday.MONDAY)),
            "on Mondays and Fridays at 06:05",
        ),
        (
            MonthlyTrigger(**AT, days_of_month=(31,), only_working_days=True),
            "on day 31 of each month at 06:05, working days only",
        ),
        (
            MonthlyWeekdayTrigger(**AT, day_of_week=Weekday.FRIDAY, nth_week_day_of_month=2),
            "on the second Friday of each month at 06:05",
        ),
        (OneTimeTrigger(at=datetime(2026, 3, 1, 6, tzinfo=UTC)), "once, 2026-03-01 06:00 UTC"),
        (UnsupportedTrigger(kind="fileWatcher"), "not by the clock (fileWatcher)"),
    ],
)
def test_every_kind_of_trigger_has_words(trigger: ScheduleTrigger, words: str) -> None:
    """Each kind says when it fires, with its limits."""
    assert trigger_words(trigger) == words
