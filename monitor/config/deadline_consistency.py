"""Finds contradictions in the deadlines of rules."""

from __future__ import annotations

from datetime import UTC, datetime
from itertools import islice
from zoneinfo import ZoneInfo

from monitor.alerting.settings import (
    RULE_DEFINITIONS,
    AnyRuleDefinition,
    parse_days,
    parse_time,
)
from monitor.config.days_off_consistency import OF_DAYS_OFF
from monitor.config.problems import Problems
from monitor.config.reading import ReadTable
from monitor.model.days_off import DaysOff
from monitor.schedules.daily_deadlines import DailyDeadline

_OF_DEADLINES = ("deadline", "deadline_timezone", "deadline_days", "counts", "counts_from")
_YEAR_DAYS = 366


def find_deadline_contradictions(
    part: ReadTable, definition: AnyRuleDefinition, problems: Problems
) -> None:
    """Add a problem for every key of a deadline that does not fit, or that is absent."""
    with_deadline = [rule for rule, other in RULE_DEFINITIONS.items() if other.has_deadline]
    for name in _OF_DEADLINES:
        if name in part.fields and definition.rule not in with_deadline:
            kinds = ", ".join(with_deadline)
            hint = f"is for {kinds}, and this rule is {definition.rule}; remove it"
            problems.add(f"{part.path}.{name}", part.fields[name], hint)
    if definition.has_deadline:
        _deadline(part, definition, problems)


def _deadline(part: ReadTable, definition: AnyRuleDefinition, problems: Problems) -> None:
    key = f"{part.path}.deadline"
    if "deadline" not in part.fields:
        if not problems.holds(key):
            hint = f'is needed for {definition.rule}, such as deadline = "07:00"'
            problems.add_absent(key, hint)
        return
    if "match" in part.parts and not part.parts["match"].get("pipeline"):
        hint = "does not say whose deadline; add pipeline to [alerts.match]"
        problems.add(key, part.fields["deadline"], hint)
    if not any(problems.holds(f"{part.path}.{name}") for name in (*_OF_DEADLINES, *OF_DAYS_OFF)):
        _skipped(part, problems)


def _skipped(part: ReadTable, problems: Problems) -> None:
    """Warn of the next day on which daylight saving skips one of the times."""
    daily = DailyDeadline(
        minute=parse_time(part.get("deadline")),
        opens=parse_time(part.get("counts_from")),
        zone=ZoneInfo(part.get("deadline_timezone")),
        days=parse_days(part.get("deadline_days")),
        days_off=DaysOff(region=part.get("holidays"), dates=part.get("holiday_dates")),
    )
    today = datetime.now(UTC).astimezone(daily.zone).date()
    for day, minute in islice(daily.skipped_on(today, days=_YEAR_DAYS), 1):
        name = "deadline" if minute == daily.minute else "counts_from"
        hint = (
            f"daylight saving skips this time on {day.isoformat()}; it counts there when the "
            "clock has moved on"
        )
        problems.warn(f"{part.path}.{name}", part.get(name), hint)
