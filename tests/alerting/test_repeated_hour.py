"""A wall time that comes twice, in the night in which clocks are set back: either pass counts."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from monitor.alerting.rules.contract import Firing
from monitor.alerting.rules.rule_settings import RuleKind
from monitor.model.runs import RunKind
from monitor.model.triggers import CronTrigger, DailyTrigger
from tests.alerting.engine_fixture import engine_fixture
from tests.alerting.schedule_histories import FLOW, GRACE, History, schedule

NIGHT = datetime(2026, 10, 25, tzinfo=UTC)
FIRST, SECOND = NIGHT.replace(minute=30), NIGHT.replace(hour=1, minute=30)
DAILY = DailyTrigger(hour_of_day=2, minute_of_hour=30, timezone="Europe/Berlin")


def history(*triggers: CronTrigger | DailyTrigger) -> History:
    return History(schedule(*triggers), begin=NIGHT - timedelta(hours=12))


def minutes(count: float) -> datetime:
    return NIGHT + timedelta(minutes=count)


@pytest.mark.parametrize(
    "passes", [(FIRST,), (SECOND,), (FIRST, SECOND)], ids=["first", "second", "both"]
)
def test_either_pass_meets_a_daily_start(passes: tuple[datetime, ...]) -> None:
    """Nothing fires that night, and the next day is judged by its own start."""
    daily = history(DAILY)
    for at in (minutes(count) for count in range(25, 130, 5)):
        for start in passes:
            if at - timedelta(minutes=5) < start <= at:
                daily.start(start + timedelta(seconds=2))
        daily.evaluate(at)
    assert (daily.notices, daily.missed_ever) == ([], 0)
    daily.evaluate(NIGHT + timedelta(days=1, hours=1, minutes=39))
    assert daily.notices == []
    daily.evaluate(NIGHT + timedelta(days=1, hours=1, minutes=40))
    assert daily.notices == ["26 01:30"]


def test_a_start_that_comes_at_neither_is_missed_after_the_second() -> None:
    """It is evaluated when the grace of the second pass is over; a late start ends it."""
    daily = history(DAILY)
    daily.evaluate(minutes(45))
    assert daily.notices == []
    assert daily.again_at == SECOND + GRACE
    daily.evaluate(minutes(99))
    assert daily.notices == []
    daily.evaluate(minutes(100))
    assert isinstance(daily.last, Firing)
    assert daily.last.since == FIRST
    daily.start(minutes(112))
    daily.evaluate(minutes(113))
    assert daily.notices == ["25 00:30", "-25 01:52"]


def test_times_of_the_repeated_hour_each_have_two_passes() -> None:
    """Four starts in the second pass are those of the four times, and one that lacks is missed."""
    quarters = CronTrigger(expression="0 0/15 2 * * ?", timezone="Europe/Berlin")
    for lacking in (None, 30):
        four = history(quarters)
        for minute in (0, 15, 30, 45):
            four.evaluate(minutes(55 + minute))
            if minute != lacking:
                four.start(minutes(60 + minute))
        four.evaluate(minutes(119))
        four.evaluate(minutes(180))
        assert four.missed == (set() if lacking is None else {minutes(lacking)})


def test_a_time_that_another_schedule_names_for_sure_is_awaited_then() -> None:
    """A schedule of real hours fires at the first pass; the other one names the same time."""
    both = history(DAILY, CronTrigger(expression="0 30 0 * * ?"))
    both.evaluate(minutes(40))
    assert both.notices == ["25 00:30"]


async def test_the_expected_start_is_shown_until_the_second_pass_is_over(tmp_path: Path) -> None:
    """Gauge and page show it as due, not the next day's, for as long as it may come."""
    async with engine_fixture(tmp_path, RuleKind.SCHEDULE_MISSED) as fixture:
        of = ("acme", RunKind.FLOW_RUN, FLOW.id)
        fixture.live_state.name_pipeline("acme", FLOW.kind, FLOW.id, FLOW.name)
        for at in (minutes(0), minutes(45)):
            fixture.live_state.update_workspace(
                "acme", schedules=(schedule(DAILY),), schedules_read_at=at
            )
            for kind in RunKind:
                fixture.live_state.confirm("acme", kind, at, complete_at=at)
            await fixture.look_again()
        snapshot = fixture.engine.snapshot()
        assert snapshot.expected_start(of, now=minutes(99)) == FIRST
        tomorrow = SECOND + timedelta(days=1)
        assert snapshot.expected_start(of, now=minutes(100)) == tomorrow
