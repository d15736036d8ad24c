"""Holidays that mute times of rules and channels name: what they need, and what is said of it."""

from __future__ import annotations

from datetime import date
from typing import Any

import pytest

from monitor.alerting.settings import RuleSettings
from monitor.outputs.notify.settings import ChannelSettings, NotifySettings
from tests.config.settings_tables import channel, file, parsed, problems, with_rules

ABSENT = (
    'names holidays, and nothing says which; add holidays = "DE-BE", or holiday_dates with days '
    "of your own"
)
UNUSED = 'is for mute times that name holidays, such as mute = ["holidays UTC"]; remove it'
FAILED: dict[str, Any] = {"rule": "run_failed"}


def with_channel(**changes: Any) -> dict[str, Any]:
    return file(notify=[channel("a", **changes)])


@pytest.mark.parametrize(
    ("mapping", "expected"),
    [
        (
            with_rules({**FAILED, "mute": ["holidays UTC"]}),
            [f'alerts[0].mute: ["holidays UTC"]: {ABSENT}'],
        ),
        (
            with_channel(mute=["Sat UTC", "Mon-Fri,!holidays UTC"]),
            [f'notify[0].mute: ["Sat UTC", "Mon-Fri,!holidays UTC"]: {ABSENT}'],
        ),
        (
            with_rules({**FAILED, "mute": ["Sat UTC"], "holiday_dates": ["2026-12-24"]}),
            [
                (
                    'alerts[0].holiday_dates: ["2026-12-24"]: is for schedule_missed, '
                    "deadline_missed, deadline_at_risk and for mute times that name holidays; this "
                    "run_failed has none; remove it"
                )
            ],
        ),
        (
            with_channel(holidays="DE", holiday_dates=["2026-12-24"]),
            [
                f'notify[0].holidays: "DE": {UNUSED}',
                f'notify[0].holiday_dates: ["2026-12-24"]: {UNUSED}',
            ],
        ),
        (
            with_rules({**FAILED, "mute": ["holidays UTC"], "holidays": "Germany"}),
            [
                (
                    "alerts[0].holidays: \"Germany\": 'Germany' is no country; did you mean DE?; "
                    "write its two letters by ISO 3166, such as DE or DE-BE"
                )
            ],
        ),
        (
            with_channel(mute=["holiday UTC"], holidays="DE"),
            ["notify[0].mute: [\"holiday UTC\"]: 'holiday' is no day; did you mean holidays?"],
        ),
    ],
)
def test_holidays_and_mute_times_need_each_other(
    mapping: dict[str, Any], expected: list[str]
) -> None:
    """What is absent, or does nothing, is one sentence; what follows from another one is none."""
    assert problems(mapping) == expected


def test_mute_times_name_holidays_in_the_words_of_deadlines() -> None:
    """Rules and channels have the same keys; a rule about schedules needs no mute time for them."""
    keys = {"mute": ["holidays UTC"], "holidays": "DE-BY", "holiday_dates": ["2026-12-24"]}
    missed = {"rule": "schedule_missed", "holidays": "DE-BY"}
    mapping = {**with_rules({**FAILED, **keys}, missed), "notify": [channel("a", **keys)]}
    configuration = parsed(mapping)
    notify = configuration.output(NotifySettings)
    assert notify is not None
    rules = {rule.name: rule for rule in configuration.alerting.rules}
    muted: list[RuleSettings | ChannelSettings] = [rules["run_failed"], *notify.channels]
    for settings in muted:
        assert settings.mute == ("holidays UTC",)
        assert settings.days_off.has(date(2026, 1, 6))
        assert settings.days_off.has(date(2026, 12, 24))
        assert not settings.days_off.has(date(2026, 12, 23))
