"""Read the triggers of schedules. What cannot be computed is kept by its kind, never dropped."""

from __future__ import annotations

from collections.abc import Callable

import msgspec
from msgspec import Raw

from monitor.model.errors import PayloadError
from monitor.model.triggers import (
    CronTrigger,
    DailyTrigger,
    HourlyTrigger,
    Trigger,
    UnsupportedTrigger,
)
from monitor.workspace import wire
from monitor.workspace.decoding import RowKind, instant, read_as

UNREADABLE = "unreadable"

_PARTS = msgspec.json.Decoder(dict[str, Raw])
_NAME = msgspec.json.Decoder(str)
_CRON = RowKind(wire.Cron, lambda shape: shape)
_HOURLY = RowKind(wire.Hourly, lambda shape: shape)
_DAILY = RowKind(wire.Daily, lambda shape: shape)


def _cron(raw: Raw, timezone: str) -> Trigger:
    return CronTrigger(expression=_CRON.decode(raw).expression, timezone=timezone)


def _hourly(raw: Raw, timezone: str) -> Trigger:
    shape = _HOURLY.decode(raw)
    return HourlyTrigger(
        minute_of_hour=shape.minute_of_hour,
        timezone=timezone,
        valid_from=instant(shape.utc_start_date_time),
        valid_until=instant(shape.utc_end_date_time),
    )


def _daily(raw: Raw, timezone: str) -> Trigger:
    shape = _DAILY.decode(raw)
    return DailyTrigger(
        hour_of_day=shape.hour_of_day,
        minute_of_hour=shape.minute_of_hour,
        only_working_days=shape.only_working_days,
        timezone=timezone,
        valid_from=instant(shape.utc_start_date_time),
        valid_until=instant(shape.utc_end_date_time),
    )


_COMPUTABLE: dict[str, Callable[[Raw, str], Trigger]] = {
    "cron": _cron,
    "hourly": _hourly,
    "daily": _daily,
}


def _trigger(raw: Raw) -> Trigger:
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


TRIGGER: RowKind[Trigger] = RowKind(Raw, _trigger)
