"""The triggers of schedules, as a workspace writes them. Computing times is `schedules`."""

from __future__ import annotations

from datetime import datetime
from enum import StrEnum

from msgspec import Struct


class Weekday(StrEnum):
    """A day of the week in the API's spelling."""

    MONDAY = "MONDAY"
    TUESDAY = "TUESDAY"
    WEDNESDAY = "WEDNESDAY"
    THURSDAY = "THURSDAY"
    FRIDAY = "FRIDAY"
    SATURDAY = "SATURDAY"
    SUNDAY = "SUNDAY"


class CronTrigger(Struct, frozen=True, kw_only=True, gc=False, tag="cron"):
    """A Quartz expression: seconds first, 1 = Sunday, ``?`` for "no condition"."""

    expression: str
    timezone: str = "UTC"


class RangedTrigger(Struct, frozen=True, kw_only=True, gc=False):
    """What a rhythm by the wall clock of ``timezone`` has: two limits, both inside."""

    timezone: str = "UTC"
    valid_from: datetime | None = None
    valid_until: datetime | None = None


class HourlyTrigger(RangedTrigger, frozen=True, kw_only=True, gc=False, tag="hourly"):
    """Once an hour at ``minute_of_hour``."""

    minute_of_hour: int


class DailyTrigger(RangedTrigger, frozen=True, kw_only=True, gc=False, tag="daily"):
    """Once a day; Monday to Friday only where so marked."""

    hour_of_day: int
    minute_of_hour: int
    only_working_days: bool = False


class WeeklyTrigger(RangedTrigger, frozen=True, kw_only=True, gc=False, tag="weekly"):
    """On some days of the week; of these Monday to Friday only where so marked."""

    hour_of_day: int
    minute_of_hour: int
    days_of_week: tuple[Weekday, ...]
    only_working_days: bool = False


class MonthlyTrigger(RangedTrigger, frozen=True, kw_only=True, gc=False, tag="monthly"):
    """On some days of the month; of these Monday to Friday only where so marked."""

    hour_of_day: int
    minute_of_hour: int
    days_of_month: tuple[int, ...]
    only_working_days: bool = False


class MonthlyWeekdayTrigger(
    RangedTrigger, frozen=True, kw_only=True, gc=False, tag="monthlyWeekday"
):
    """On the ``nth_week_day_of_month``, 1 to 5, ``day_of_week`` of a month that has so many."""

    hour_of_day: int
    minute_of_hour: int
    day_of_week: Weekday
    nth_week_day_of_month: int
    only_working_days: bool = False


class OneTimeTrigger(Struct, frozen=True, kw_only=True, gc=False, tag="oneTime"):
    """Once, at ``at``. The zone is kept as it was sent and has no say: the instant is UTC."""

    at: datetime
    timezone: str = "UTC"


class UnsupportedTrigger(Struct, frozen=True, kw_only=True, gc=False, tag="unsupported"):
    """A kind of trigger that we cannot compute; ``kind`` is the workspace's word for it."""

    kind: str
    timezone: str = "UTC"


ScheduleTrigger = (
    CronTrigger
    | HourlyTrigger
    | DailyTrigger
    | WeeklyTrigger
    | MonthlyTrigger
    | MonthlyWeekdayTrigger
    | OneTimeTrigger
    | UnsupportedTrigger
)
