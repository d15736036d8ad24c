"""Triggers as the API writes them, to and from the words that schedules are computed with."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from typing import Any, get_args

from msgspec.structs import asdict, fields

from monitor.model.triggers import CronTrigger, ScheduleTrigger, UnsupportedTrigger, Weekday
from monitor.sandbox.api.errors import ApiError, Json, bad_field, shortened, validation_failed
from monitor.sandbox.api.request.bodies import Body
from monitor.sandbox.api.response.rendering import camel, plain
from monitor.schedules import BadTriggerError, check, next_after

# They fire when data comes, which in this workspace never happens.
WATCHERS = ("fileWatcher", "tableWatcher")
# The API's kinds of time-based triggers; a trigger's tag is its kind.
_KINDS = {
    kind.__struct_config__.tag: kind
    for kind in get_args(ScheduleTrigger)
    if kind is not UnsupportedTrigger
}
# Field of a trigger -> its name in the API, where camel case is not it.
_NAMES = {"at": "utcDateTime", "valid_from": "utcStartDateTime", "valid_until": "utcEndDateTime"}


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
    if kind not in _KINDS:
        raise bad_field(
            time_based.name_of(shortened(kind)),
            f"is no kind of trigger; use one of {', '.join(map(str, _KINDS))}",
        )
    timezone = time_based.text("timezone") if time_based.has("timezone") else "UTC"
    values = _values(_KINDS[kind], time_based.object(kind))
    trigger: ScheduleTrigger = _KINDS[kind](timezone=timezone, **values)
    _refuse_what_cannot_fire(trigger, body, now=now)
    return trigger


def will_fire(trigger: ScheduleTrigger, *, now: datetime) -> bool:
    """True for a trigger that has a time to come, and for one that waits for data."""
    return isinstance(trigger, UnsupportedTrigger) or next_after(trigger, now) is not None


def _values(kind: type[Any], body: Body) -> dict[str, Any]:
    """Return the fields of a kind of trigger, but for its time zone.

    Raises:
        ApiError: 400, naming the field that is missing or cannot be.
    """
    attributes = [field.name for field in fields(kind) if field.name != "timezone"]
    return {name: _READERS[name](body, _name_of(name)) for name in attributes}


def _name_of(attribute: str) -> str:
    return _NAMES.get(attribute) or camel(attribute)


def _weekdays(body: Body, field: str) -> tuple[Weekday, ...]:
    return tuple(
        _weekday(day, f"{body.name_of(field)}[{index}]")
        for index, day in enumerate(body.array(field))
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


def _days_of_month(body: Body, field: str) -> tuple[int, ...]:
    body.raw(field)
    return body.integers(field)


_READERS: Mapping[str, Callable[[Body, str], Any]] = {
    "expression": Body.text,
    "at": _instant,
    "valid_from": _limit,
    "valid_until": _limit,
    "minute_of_hour": lambda body, name: body.integer(name, least=0, most=59),
    "hour_of_day": lambda body, name: body.integer(name, least=0, most=23),
    "only_working_days": Body.boolean,
    "days_of_week": _weekdays,
    "days_of_month": _days_of_month,
    "day_of_week": lambda body, name: _weekday(body.raw(name), body.name_of(name)),
    "nth_week_day_of_month": lambda body, name: body.integer(name, least=1, most=5),
}


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
    inner = {
        _name_of(attribute): plain(value)
        for attribute, value in asdict(trigger).items()
        if attribute != "timezone" and value is not None
    }
    kind = str(trigger.__struct_config__.tag)
    return {"timeBased": {kind: inner, "timezone": trigger.timezone}}
