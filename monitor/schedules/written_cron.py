"""Cron expressions that people write: Quartz expressions, and plain cron converted to Quartz."""

from __future__ import annotations

import re
from datetime import UTC, datetime

from monitor.model.errors import ConfigurationError
from monitor.model.suggestions import did_you_mean
from monitor.model.triggers import CronTrigger
from monitor.schedules.quartz import BadTriggerError
from monitor.schedules.times import check, next_after

FORM = '"0 30 6 ? * MON-FRI" in Quartz or "30 6 * * 1-5" in plain cron'
_PLAIN_FIELDS = 5
_QUARTZ_FIELDS = (6, 7)
_PLAIN_DAYS = ("SUN", "MON", "TUE", "WED", "THU", "FRI", "SAT", "SUN")
_NAMES = (
    *_PLAIN_DAYS[:7],
    *("JAN", "FEB", "MAR", "APR", "MAY", "JUN", "JUL", "AUG", "SEP", "OCT", "NOV", "DEC"),
)
_MARKS = frozenset({"L", "W", "LW", "C"})
_LONG_AGO = datetime(2000, 1, 1, tzinfo=UTC)


def quartz_expression(text: str) -> str:
    """Return a cron expression of six or seven fields, or a plain one of five, in Quartz.

    Raises:
        ConfigurationError: it is invalid or never fires; one sentence with its hint.
    """
    fields = text.upper().split()
    if len(fields) == _PLAIN_FIELDS:
        fields = _quartz_fields(*fields)
    if len(fields) not in _QUARTZ_FIELDS:
        raise ConfigurationError(f"is no cron expression; write it as {FORM}")
    expression = " ".join(fields)
    trigger = CronTrigger(expression=expression)
    try:
        check(trigger)
        first = next_after(trigger, _LONG_AGO)
    except BadTriggerError as exc:
        raise ConfigurationError(f"{exc}{_hint(expression)}") from exc
    if first is None:
        raise ConfigurationError("never comes true; write a day that there is")
    return expression


def _quartz_fields(minute: str, hour: str, day: str, month: str, weekday: str) -> list[str]:
    if weekday in ("*", "?"):
        return ["0", minute, hour, "*" if day == "?" else day, month, "?"]
    if day not in ("*", "?"):
        raise ConfigurationError(
            "gives a day of the month and one of the week, where plain cron means either; "
            "write a rule for each"
        )
    weekday = re.sub(r"(?<!\d)0-7(?!\d)", "*", weekday)  # Sunday is both 0 and 7
    # A number after / or # counts something else.
    named = re.sub(r"(?<![#/\d])[0-7](?!\d)", lambda match: _PLAIN_DAYS[int(match[0])], weekday)
    return ["0", minute, hour, "?", month, named]


def _hint(expression: str) -> str:
    words = [word for word in re.findall(r"[A-Z]+", expression) if word not in (*_NAMES, *_MARKS)]
    return next((hint for word in words if (hint := did_you_mean(word, _NAMES))), "")
