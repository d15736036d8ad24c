"""Read the triggers of schedules. What cannot be computed is kept by its kind, never dropped."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from typing import TypedDict

import msgspec
from msgspec import Raw

from monitor.model.errors import PayloadError
from monitor.model.triggers import (
    CronTrigger,
    DailyTrigger,
    HourlyTrigger,
    MonthlyTrigger,
    MonthlyWeekdayTrigger,
    OneTimeTrigger,
    ScheduleTrigger,
    UnsupportedTrigger,
    WeeklyTrigger,
)
from monitor.workspace import wire
from monitor.workspace.decoding import RowKind, instant, read_as

UNREADABLE = "unreadable"

_PARTS = msgspec.json.Decoder(dict[str, Raw])
_NAME = msgspec.json.Decoder(str)
_CRON = RowKind(wire.Cron, lambda shape: shape)
_HOURLY = RowKind(wire.Hourly, lambda shape: shape)
_DAILY = RowKind(wire.Daily, lambda shape: shape)
_WEEKLY = RowKind(wire.Weekly, lambda shape: shape)
_MONTHLY = RowKind(wire.Monthly, lambda shape: shape)
_MONTHLY_WEEKDAY = RowKind(wire.MonthlyWeekday, lambda shape: shape)
_ONE_TIME = RowKind(wire.OneTime, lambda shape: shape)


class _Hours(TypedDict):
    timezone: str
    valid_from: datetime | None
    valid_until: datetime | None
    minute_of_hour: int


class _Days(_Hours):
    hour_of_day: int
    only_working_days: bool


def _hours(shape: wire.Hourly, timezone: str) -> _Hours:
    return _Hours(
        timezone=timezone,
        valid_from=instant(shape.utc_start_date_time),
        valid_until=instant(shape.utc_end_date_time),
        minute_of_hour=shape.minute_of_hour,
    )


def _days(shape: wire.Daily, timezone: str) -> _Days:
    return _Days(
        **_hours(shape, timezone),
        hour_of_day=shape.hour_of_day,
        only_working_days=shape.only_working_days,
    )


def _cron(raw: Raw, timezone: str) -> ScheduleTrigger:
    return CronTrigger(expression=_CRON.decode(raw).expression, timezone=timezone)


def _hourly(raw: Raw, timezone: str) -> ScheduleTrigger:
    return HourlyTrigger(**_hours(_HOURLY.decode(raw), timezone))


def _daily(raw: Raw, timezone: str) -> ScheduleTrigger:
    return DailyTrigger(**_days(_DAILY.decode(raw), timezone))


def _weekly(raw: Raw, timezone: str) -> ScheduleTrigger:
    shape = _WEEKLY.decode(raw)
    return WeeklyTrigger(**_days(shape, timezone), days_of_week=shape.days_of_week)


def _monthly(raw: Raw, timezone: str) -> ScheduleTrigger:
    shape = _MONTHLY.decode(raw)
    return MonthlyTrigger(**_days(shape, timezone), days_of_month=shape.days_of_month)


def _monthly_weekday(raw: Raw, timezone: str) -> ScheduleTrigger:
    shape = _MONTHLY_WEEKDAY.decode(raw)
    return MonthlyWeekdayTrigger(
        **_days(shape, timezone),
        day_of_week=shape.day_of_week,
        nth_week_day_of_month=shape.nth_week_day_of_month,
    )


def _one_time(raw: Raw, timezone: str) -> ScheduleTrigger:
    at = instant(_ONE_TIME.decode(raw).utc_date_time)
    if at is None:
        raise PayloadError("utcDateTime is no time that a schedule could mean")
    return OneTimeTrigger(at=at, timezone=timezone)


_COMPUTABLE: dict[str, Callable[[Raw, str], ScheduleTrigger]] = {
    "cron": _cron,
    "hourly": _hourly,
    "daily": _daily,
    "weekly": _weekly,
    "monthly": _monthly,
    "monthlyWeekday": _monthly_weekday,
    "oneTime": _one_time,
}


def _trigger(raw: Raw) -> ScheduleTrigger:
    kind = UNREADABLE
    try:
        parts = read_as(_PARTS, raw)
        if "timeBased" not in parts:
            # A file or table watcher: it fires when data comes, not at a time.
            kind = next((name for name in parts if name != "id"), UNREADABLE)
            return UnsupportedTrigger(kind=kind)
        timed = read_as(_PARTS, parts["timeBased"])
        zone = timed.pop("timezone", None)
        timezone = "UTC" if zone is None else read_as(_NAME, zone)
        kind = next(iter(timed), UNREADABLE)
        if kind not in _COMPUTABLE:
            return UnsupportedTrigger(kind=kind, timezone=timezone)
        return _COMPUTABLE[kind](timed[kind], timezone)
    except (PayloadError, ValueError, OverflowError):
        return UnsupportedTrigger(kind=kind)


TRIGGER: RowKind[ScheduleTrigger] = RowKind(Raw, _trigger)
