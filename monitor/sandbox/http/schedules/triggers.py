"""Triggers as the API writes them, to and from the words that schedules are computed with."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime

from monitor.model.triggers import CronTrigger, DailyTrigger, HourlyTrigger, Trigger
from monitor.sandbox.http.errors import ApiError, Json, bad_field, validation_failed
from monitor.sandbox.http.reading.bodies import Body
from monitor.sandbox.http.showing.rendering import stamp
from monitor.schedules import BadTriggerError, check, next_after

ACCEPTED = ("cron", "hourly", "daily")


def read_trigger(body: Body, *, now: datetime) -> Trigger:
    """Return what one item of ``triggers`` says.

    Raises:
        ApiError: 400; its code tells a bad expression from a trigger that will never fire.
    """
    time_based = body.object("timeBased")
    kinds = [name for name in time_based.names() if name != "timezone"]
    if len(kinds) != 1:
        raise bad_field(time_based.name_of("timezone"), "must stand beside exactly one kind")
    kind = kinds[0]
    if kind not in ACCEPTED:
        raise validation_failed(
            f'"{time_based.name_of(kind)}" is not a trigger that this workspace accepts; '
            f"use one of {', '.join(ACCEPTED)}",
            code="TRIGGER_WILL_NEVER_FIRE",
        )
    timezone = time_based.text("timezone") if time_based.has("timezone") else "UTC"
    trigger = _read(kind, time_based.object(kind), timezone)
    _refuse_what_cannot_fire(trigger, body, now=now)
    return trigger


def _read(kind: str, body: Body, timezone: str) -> Trigger:
    if kind == "cron":
        return CronTrigger(expression=body.text("expression"), timezone=timezone)
    minute = body.integer("minuteOfHour", least=0, most=59)
    valid_from, valid_until = _instant(body, "utcStartDateTime"), _instant(body, "utcEndDateTime")
    if kind == "hourly":
        return HourlyTrigger(
            minute_of_hour=minute,
            timezone=timezone,
            valid_from=valid_from,
            valid_until=valid_until,
        )
    return DailyTrigger(
        hour_of_day=body.integer("hourOfDay", least=0, most=23),
        minute_of_hour=minute,
        only_working_days=body.boolean("onlyWorkingDays"),
        timezone=timezone,
        valid_from=valid_from,
        valid_until=valid_until,
    )


def _instant(body: Body, field: str) -> datetime | None:
    if not body.has(field):
        return None
    try:
        found = datetime.fromisoformat(body.text(field))
        return found.astimezone(UTC) if found.tzinfo else found.replace(tzinfo=UTC)
    except (ValueError, OverflowError) as exc:
        raise bad_field(body.name_of(field), "must be a date and time of ISO 8601") from exc


def _refuse_what_cannot_fire(trigger: Trigger, body: Body, *, now: datetime) -> None:
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


def trigger_document(trigger: Trigger) -> Mapping[str, Json]:
    """Return a trigger as the API writes it."""
    inner: dict[str, Json] = {}
    match trigger:
        case CronTrigger():
            kind, inner = "cron", {"expression": trigger.expression}
        case HourlyTrigger():
            kind, inner = "hourly", {"minuteOfHour": trigger.minute_of_hour, **_limits(trigger)}
        case DailyTrigger():
            kind = "daily"
            inner = {
                "hourOfDay": trigger.hour_of_day,
                "minuteOfHour": trigger.minute_of_hour,
                "onlyWorkingDays": trigger.only_working_days,
                **_limits(trigger),
            }
        case _:
            kind = trigger.kind
    return {"timeBased": {kind: inner, "timezone": trigger.timezone}}


def _limits(trigger: HourlyTrigger | DailyTrigger) -> dict[str, Json]:
    limits = {"utcStartDateTime": trigger.valid_from, "utcEndDateTime": trigger.valid_until}
    return {name: stamp(limit) for name, limit in limits.items() if limit is not None}
