"""Triggers at random: every kind that repeats, in any zone, with limits or without."""

from __future__ import annotations

from datetime import date, timedelta

from hypothesis import strategies as st
from hypothesis.strategies import DrawFn

from monitor.model.triggers import (
    DailyTrigger,
    HourlyTrigger,
    MonthlyTrigger,
    MonthlyWeekdayTrigger,
    RangedTrigger,
    ScheduleTrigger,
    Weekday,
    WeeklyTrigger,
)

DAYS = tuple(Weekday)
HOURS, MINUTES = st.integers(0, 23), st.integers(0, 59)
RHYTHMS = (HourlyTrigger, DailyTrigger, WeeklyTrigger, MonthlyTrigger, MonthlyWeekdayTrigger)


@st.composite
def rhythms(draw: DrawFn, near: date | None = None) -> RangedTrigger:
    """A trigger of any kind that repeats; its days are near a date where one is given."""
    kind = draw(st.sampled_from(RHYTHMS))
    values: dict[str, object] = {"minute_of_hour": draw(MINUTES)}
    if kind is not HourlyTrigger:
        values |= {"hour_of_day": draw(HOURS), "only_working_days": draw(st.booleans())}
    around = [(near or date(2026, 1, 1)) + timedelta(days=shift) for shift in range(-2, 3)]
    if kind is WeeklyTrigger:
        values["days_of_week"] = tuple(draw(st.sets(st.sampled_from(DAYS), min_size=1)))
    if kind is MonthlyTrigger:
        likely = st.sampled_from([number.day for number in around])
        values["days_of_month"] = tuple(
            draw(st.sets(likely | st.integers(1, 31), min_size=1, max_size=8))
        )
    if kind is MonthlyWeekdayTrigger:
        day = draw(st.sampled_from(around))
        values["day_of_week"] = DAYS[day.weekday()]
        values["nth_week_day_of_month"] = draw(st.just((day.day - 1) // 7 + 1) | st.integers(1, 5))
    made = kind(**values)
    assert isinstance(made, RangedTrigger)
    return made


def within(trigger: RangedTrigger, **limits: object) -> ScheduleTrigger:
    """Return the same trigger with other limits or another zone."""
    values = {name: getattr(trigger, name) for name in trigger.__struct_fields__}
    made: ScheduleTrigger = type(trigger)(**values | limits)  # type: ignore[assignment] # one of the kinds
    return made
