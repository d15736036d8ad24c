"""When a schedule fires, as a workspace writes it down. Computing the times is `schedules`."""

from __future__ import annotations

from datetime import datetime

from msgspec import Struct


class CronTrigger(Struct, frozen=True, kw_only=True, gc=False, tag="cron"):
    """A Quartz expression: seconds first, 1 = Sunday, ``?`` for "no condition"."""

    expression: str
    timezone: str = "UTC"


class HourlyTrigger(Struct, frozen=True, kw_only=True, gc=False, tag="hourly"):
    """Once an hour at ``minute_of_hour``, between the two limits where they are given."""

    minute_of_hour: int
    timezone: str = "UTC"
    valid_from: datetime | None = None
    valid_until: datetime | None = None


class DailyTrigger(Struct, frozen=True, kw_only=True, gc=False, tag="daily"):
    """Once a day by the wall clock of ``timezone``; Monday to Friday where so marked."""

    hour_of_day: int
    minute_of_hour: int
    only_working_days: bool = False
    timezone: str = "UTC"
    valid_from: datetime | None = None
    valid_until: datetime | None = None


class UnsupportedTrigger(Struct, frozen=True, kw_only=True, gc=False, tag="unsupported"):
    """A kind of trigger that we cannot compute; ``kind`` is the workspace's word for it."""

    kind: str
    timezone: str = "UTC"


Trigger = CronTrigger | HourlyTrigger | DailyTrigger | UnsupportedTrigger
