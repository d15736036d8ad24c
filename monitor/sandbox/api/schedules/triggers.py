"""Triggers as the API writes them, to and from the words that schedules are computed with."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from typing import TypedDict

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
from monitor.sandbox.api.errors import ApiError, Json, bad_field, shortened, validation_failed
from monitor.sandbox.api.request.bodies import Body
from monitor.sandbox.api.response.rendering import stamp
from monitor.schedules import BadTriggerError, check, next_after

# They fire when data comes, which in this workspace never happens.
WATCHERS = ("fileWatcher", "tableWatcher")


class _Hours(TypedDict):
    timezone: str
    valid_from: datetime | None
    valid_until: datetime | None
    minute_of_hour: int


class _Days(_Hours):
    hour_of_day: int
    only_working_days: bool


def read_trigger(body: Body, *, now: datetime) -> ScheduleTrigger:
    """Return what one item of ``triggers`` says.

    Raises:
        ApiError: 400; its code separates a bad expression from a trigger that never fires.
    """
    watchers = [name for name in body.names() if name in WATCHERS]
    if watchers and not body.has("timeBased"):
        body.object(watchers[0])
        return UnsupportedTrigger(kind=watchers[0])
    time_based = body.object("timeBased")
    kinds = [name for name in time_based.names() if name != "timezone"]
    if len(kinds) != 1:
        raise bad_field(time_based.name_of("timezone"), "must stand beside exactly one kind")
    kind = kinds[0]
    if kind not in _READERS:
        raise bad_field(
            time_based.name_of(shortened(kind)),
            f"is no kind of trigger; use one of {', '.join(_READERS)}",
        )
    timezone = time_based.text("timezone") if time_based.has("timezone") else "UTC"
    trigger = _READERS[kind](time_based.object(kind), timezone)
    _refuse_what_cannot_fire(trigger, body, now=now)
    return trigger


def will_fire(trigger: ScheduleTrigger, *, now: datetime) -> bool:
    """True for a trigger that has a time to come, and for one that waits for data."""
    return isinstance(trigger, UnsupportedTrigger) or next_after(trigger, now) is not None


def _cron(body: Body, timezone: str) -> ScheduleTrigger:
    return CronTrigger(expression=body.text("expression"), timezone=timezone)


def _hourly(body: Body, timezone: str) -> ScheduleTrigger:
    return HourlyTrigger(**_hours(body, timezone))


def _daily(body: Body, timezone: str) -> ScheduleTrigger:
    return DailyTrigger(**_days(body, timezone))


def _weekly(body: Body, timezone: str) -> ScheduleTrigger:
    days = [
        _weekday(day, f"{body.name_of('daysOfWeek')}[{index}]")
        for index, day in enumerate(body.array("daysOfWeek"))
    ]
    return WeeklyTrigger(**_days(body, timezone), days_of_week=tuple(days))


def _monthly(body: Body, timezone: str) -> ScheduleTrigger:
    body.raw("daysOfMonth")
    return MonthlyTrigger(**_days(body, timezone), days_of_month=body.integers("daysOfMonth"))


def _monthly_weekday(body: Body, timezone: str) -> ScheduleTrigger:
    return MonthlyWeekdayTrigger(
        **_days(body, timezone),
        day_of_week=_weekday(body.raw("dayOfWeek"), body.name_of("dayOfWeek")),
        nth_week_day_of_month=body.integer("nthWeekDayOfMonth", least=1, most=5),
    )


def _one_time(body: Body, timezone: str) -> ScheduleTrigger:
    return OneTimeTrigger(at=_instant(body, "utcDateTime"), timezone=timezone)


_READERS: Mapping[str, Callable[[Body, str], ScheduleTrigger]] = {
    "cron": _cron,
    "hourly": _hourly,
    "daily": _daily,
    "weekly": _weekly,
    "monthly": _monthly,
    "monthlyWeekday": _monthly_weekday,
    "oneTime": _one_time,
}


def _hours(body: Body, timezone: str) -> _Hours:
    return _Hours(
        timezone=timezone,
        valid_from=_limit(body, "utcStartDateTime"),
        valid_until=_limit(body, "utcEndDateTime"),
        minute_of_hour=body.integer("minuteOfHour", least=0, most=59),
    )


def _days(body: Body, timezone: str) -> _Days:
    return _Days(
        **_hours(body, timezone),
        hour_of_day=body.integer("hourOfDay", least=0, most=23),
        only_working_days=body.boolean("onlyWorkingDays"),
    )


def _weekday(value: Json, name: str) -> Weekday:
    if not isinstance(value, str) or value not in list(Weekday):
        raise bad_field(name, f"must be one of [{', '.join(Weekday)}]")
    return Weekday(value)


def _limit(body: Body, field: str) -> datetime | None:
    return _instant(body, field) if body.has(field) else None


def _instant(body: Body, field: str) -> datetime:
    try:
        found = datetime.fromisoformat(body.text(field))
        return found.astimezone(UTC) if found.tzinfo else found.replace(tzinfo=UTC)
    except (ValueError, OverflowError) as exc:
        raise bad_field(body.name_of(field), "must be a date and time of ISO 8601") from exc


def _refuse_what_cannot_fire(trigger: ScheduleTrigger, body: Body, *, now: datetime) -> None:
    try:
        check(trigger)
        upcoming = next_after(trigger, now)
    except BadTriggerError as exc:
        is_cron = isinstance(trigger, CronTrigger) and "time zone" not in str(exc)
        raise ApiError(
            400,
            "ValidationFailed",
            "Input validation failed",
            f'"{body.name_of("timeBased")}" is not valid: {exc}',
            code="INVALID_CRON_EXPRESSION" if is_cron else None,
        ) from exc
    if upcoming is None:
        raise validation_failed(
            f'"{body.name_of("timeBased")}" will never fire', code="TRIGGER_WILL_NEVER_FIRE"
        )


def trigger_document(trigger: ScheduleTrigger) -> Mapping[str, Json]:
    """Return a trigger as the API writes it."""
    if isinstance(trigger, UnsupportedTrigger):
        return {trigger.kind: {}}
    inner: dict[str, Json] = {}
    match trigger:
        case CronTrigger():
            kind, inner = "cron", {"expression": trigger.expression}
        case OneTimeTrigger():
            kind, inner = "oneTime", {"utcDateTime": stamp(trigger.at)}
        case HourlyTrigger():
            kind, inner = "hourly", _range(trigger)
        case DailyTrigger():
            kind, inner = "daily", _time_of_day(trigger)
        case WeeklyTrigger():
            days: list[Json] = list(map(str, trigger.days_of_week))
            kind, inner = "weekly", {**_time_of_day(trigger), "daysOfWeek": days}
        case MonthlyTrigger():
            days = list(trigger.days_of_month)
            kind, inner = "monthly", {**_time_of_day(trigger), "daysOfMonth": days}
        case MonthlyWeekdayTrigger():
            kind = "monthlyWeekday"
            inner = {
                **_time_of_day(trigger),
                "dayOfWeek": str(trigger.day_of_week),
                "nthWeekDayOfMonth": trigger.nth_week_day_of_month,
            }
    return {"timeBased": {kind: inner, "timezone": trigger.timezone}}


def _time_of_day(
    trigger: DailyTrigger | WeeklyTrigger | MonthlyTrigger | MonthlyWeekdayTrigger,
) -> dict[str, Json]:
    return {
        "hourOfDay": trigger.hour_of_day,
        "onlyWorkingDays": trigger.only_working_days,
        **_range(trigger),
    }


def _range(
    trigger: HourlyTrigger | DailyTrigger | WeeklyTrigger | MonthlyTrigger | MonthlyWeekdayTrigger,
) -> dict[str, Json]:
    limits = {"utcStartDateTime": trigger.valid_from, "utcEndDateTime": trigger.valid_until}
    shown: dict[str, Json] = {"minuteOfHour": trigger.minute_of_hour}
    return shown | {name: stamp(limit) for name, limit in limits.items() if limit is not None}
