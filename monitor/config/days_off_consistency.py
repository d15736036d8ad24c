"""Finds contradictions between holidays and what needs them: rules that expect, and mute times."""

from __future__ import annotations

from monitor.alerting.settings import RULE_DEFINITIONS, AnyRuleDefinition
from monitor.config.problems import Problems
from monitor.config.reading import ReadTable
from monitor.model.mute_windows import HOLIDAYS, parse_mute_window

OF_DAYS_OFF = ("holidays", "holiday_dates")
_ABSENT = (
    f'names {HOLIDAYS}, and nothing says which; add holidays = "DE-BE", or holiday_dates with '
    "days of your own"
)


def find_days_off_of_rule(
    part: ReadTable, definition: AnyRuleDefinition, problems: Problems
) -> None:
    """Add a problem for holidays of a rule that nothing uses, and for those that are absent."""
    kinds = [
        rule for rule, other in RULE_DEFINITIONS.items() if other.has_deadline or other.may_expect
    ]
    unused = None
    if definition.rule not in kinds:
        unused = (
            f"is for {', '.join(kinds)} and for mute times that name {HOLIDAYS}; this "
            f"{definition.rule} has none; remove it"
        )
    _days_off(part, problems, unused=unused)


def find_days_off_of_channel(part: ReadTable, problems: Problems) -> None:
    """Add the same problems for a channel, where mute times alone name holidays."""
    unused = f'is for mute times that name {HOLIDAYS}, such as mute = ["{HOLIDAYS} UTC"]; remove it'
    _days_off(part, problems, unused=unused)


def _days_off(part: ReadTable, problems: Problems, *, unused: str | None) -> None:
    """``unused`` is why the keys do nothing where no mute time names holidays."""
    # What follows from another problem of these keys is no further one.
    if any(problems.holds(f"{part.path}.{name}") for name in ("mute", *OF_DAYS_OFF)):
        return
    given = [name for name in OF_DAYS_OFF if part.get(name)]
    mute = part.get("mute")
    if any(parse_mute_window(text).names_holidays for text in mute):
        if not given:
            problems.add(f"{part.path}.mute", list(mute), _ABSENT)
    elif unused is not None:
        for name in given:
            problems.add(f"{part.path}.{name}", part.get(name), unused)
