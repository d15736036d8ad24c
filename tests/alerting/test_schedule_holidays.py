"""No start is expected on holidays and dates of one's own, by schedules or by ``expect``."""

from __future__ import annotations

from datetime import UTC, datetime

import msgspec
import pytest

from monitor.model.triggers import DailyTrigger
from tests.alerting.schedule_histories import History, schedule

AT_SIX = DailyTrigger(hour_of_day=6, minute_of_hour=0, timezone="Europe/Berlin")


def days_with_misses(history: History, **keys: object) -> list[int]:
    """Return the days of December from 23 to 27 on which a start was missed."""
    history.rule = msgspec.structs.replace(history.rule, **keys)
    for day in range(23, 28):
        for hour in (4, 5, 6):
            history.evaluate(datetime(2026, 12, day, hour, tzinfo=UTC))
    return sorted(at.day for at in history.missed)


@pytest.mark.parametrize("expect", [None, "0 0 6 * * ?"])
def test_nothing_is_missed_on_days_off(expect: str | None) -> None:
    """By the trigger's own time zone; every other day as ever."""
    begin = datetime(2026, 12, 22, 12, tzinfo=UTC)

    def history() -> History:
        seen = () if expect else (schedule(AT_SIX),)
        return History(*seen, begin=begin, expect=expect, timezone="Europe/Berlin")

    assert days_with_misses(history()) == [23, 24, 25, 26, 27]
    off = {"holidays": "DE-BE", "holiday_dates": ("2026-12-24",)}
    assert days_with_misses(history(), **off) == [23, 27]
