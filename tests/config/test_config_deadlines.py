"""Deadlines: what they need, what they exclude, and what `check` warns of."""

from __future__ import annotations

import re
import sys
from datetime import date
from typing import Any

import pytest

from monitor.alerting.rules.deadline_settings import Counts
from monitor.model import days_off
from tests.config.settings_tables import parsed, problems, validated, with_rules

ORDERS = {"pipeline": "Orders"}


def deadline(rule: str = "deadline_missed", **changes: Any) -> dict[str, Any]:
    return {"rule": rule, "deadline": "07:00", "match": ORDERS, **changes}


@pytest.mark.parametrize(
    ("rule", "problem"),
    [
        (
            {"rule": "deadline_missed", "match": ORDERS},
            'deadline: (absent): is needed for deadline_missed, such as deadline = "07:00"',
        ),
        (
            {"rule": "deadline_at_risk", "match": ORDERS},
            'deadline: (absent): is needed for deadline_at_risk, such as deadline = "07:00"',
        ),
        (
            {"rule": "deadline_missed", "deadline": "07:00"},
            'deadline: "07:00": does not say whose deadline; add pipeline to [alerts.match]',
        ),
        (
            {"rule": "not_fresh", "deadline": "07:00"},
            (
                'deadline: "07:00": is for deadline_missed, deadline_at_risk, and this rule is '
                "not_fresh; remove it"
            ),
        ),
        (
            {"rule": "run_failed", "holidays": "DE"},
            (
                'holidays: "DE": is for schedule_missed, deadline_missed, deadline_at_risk and '
                "for mute times that name holidays; this run_failed has none; remove it"
            ),
        ),
    ],
)
def test_a_deadline_needs_a_time_and_a_pipeline(rule: dict[str, Any], problem: str) -> None:
    """And no other kind of rule has one; each problem is one sentence with the way out."""
    assert problems(with_rules(rule)) == [f"alerts[0].{problem}"]


def test_a_deadline_is_as_it_was_written() -> None:
    """All of its keys, and holidays also of a rule about schedules."""
    missed = deadline(
        deadline_timezone="Europe/Berlin",
        deadline_days="Mon-Fri",
        holidays="DE-BE",
        holiday_dates=["2026-12-24"],
        counts="ended",
        counts_from="18:00",
    )
    started = {"rule": "schedule_missed", "holidays": "DE-BE"}
    rules = {rule.name: rule for rule in parsed(with_rules(missed, started)).alerting.rules}
    rule = rules["deadline_missed"]
    assert (rule.deadline, rule.deadline_timezone, rule.deadline_days) == (
        "07:00",
        "Europe/Berlin",
        "Mon-Fri",
    )
    assert (rule.counts, rule.counts_from) == (Counts.ENDED, "18:00")
    assert rule.days_off.has(date(2026, 12, 24))
    assert rule.days_off.has(date(2026, 12, 25))
    assert rules["schedule_missed"].days_off.has(date(2026, 3, 8))


def test_a_time_that_daylight_saving_skips_is_warned_of() -> None:
    """With the next such day; the configuration can be used."""
    skipped = deadline(deadline="02:30", deadline_timezone="Europe/Berlin")
    result = validated(with_rules(skipped))
    assert result.configuration is not None
    (warning,) = [each for each in result.warnings if each.key.startswith("alerts")]
    found = re.search(r"skips this time on (\d{4}-03-\d\d);", warning.hint)
    assert found is not None
    assert date.fromisoformat(found[1]).strftime("%a") == "Sun"
    workdays = deadline(
        deadline="02:30", deadline_timezone="Europe/Berlin", deadline_days="Mon-Fri"
    )
    result = validated(with_rules(workdays))
    assert [each for each in result.warnings if each.key.startswith("alerts")] == []


def test_without_the_library_holidays_say_what_installs_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A configuration without holidays needs nothing."""
    monkeypatch.setitem(sys.modules, "holidays", None)
    days_off.parse_region.cache_clear()
    assert problems(with_rules(deadline(holidays="DE-BE"))) == [
        (
            'alerts[0].holidays: "DE-BE": needs the library holidays, which is not installed: '
            "run pip install 'dataprep-monitor[calendars]'"
        )
    ]
    assert problems(with_rules(deadline(holiday_dates=["2026-12-24"]))) == []
