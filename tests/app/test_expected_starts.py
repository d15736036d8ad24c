"""When a pipeline should start next, as retained topics tell it."""

from __future__ import annotations

from datetime import UTC, datetime

from monitor.app.expected import ExpectedStarts
from monitor.model.live_state import ScheduleKnown
from monitor.model.runs import Pipeline, PipelineKind
from monitor.model.triggers import (
    CronTrigger,
    DailyTrigger,
    HourlyTrigger,
    ScheduleTrigger,
    UnsupportedTrigger,
)
from monitor.tracking.live_state import LiveState
from tests.clocks import ManualClock

FLOW = Pipeline(kind=PipelineKind.FLOW, id="11", name="Daily sales")
PLAN = Pipeline(kind=PipelineKind.PLAN, id="11", name="Month end")


def schedule(*triggers: ScheduleTrigger, is_enabled: bool = True) -> ScheduleKnown:
    return ScheduleKnown(
        id="1", name="s", is_enabled=is_enabled, triggers=triggers, pipelines=(FLOW,)
    )


def expected(*schedules: ScheduleKnown, skew_seconds: float = 0.0) -> datetime | None:
    """Return the flow's next start at ten o'clock of our clock."""
    live_state = LiveState(["acme"])
    live_state.update_workspace("acme", schedules=schedules, clock_skew_seconds=skew_seconds)
    return ExpectedStarts(live_state.view, clock=ManualClock()).next_start("acme", FLOW)


def at(hour: int, minute: int) -> datetime:
    return datetime(2026, 11, 21, hour, minute, tzinfo=UTC)


def test_the_earliest_of_all_enabled_triggers_is_expected() -> None:
    """Several triggers and schedules of one pipeline: the next of them counts."""
    daily = schedule(DailyTrigger(hour_of_day=18, minute_of_hour=0, timezone="Europe/Berlin"))
    hourly = schedule(HourlyTrigger(minute_of_hour=15))

    assert expected(daily) == at(17, 0)
    assert expected(daily, hourly) == at(10, 15)
    assert expected(daily, schedule(HourlyTrigger(minute_of_hour=15), is_enabled=False)) == at(
        17, 0
    )


def test_nothing_is_expected_without_a_schedule_that_can_be_read() -> None:
    """No schedule, a disabled one, an unknown kind and a bad expression tell no start."""
    bad, unknown = CronTrigger(expression="every day"), UnsupportedTrigger(kind="fileWatcher")

    assert expected() is None
    assert expected(schedule(bad, unknown)) is None
    assert expected(schedule(bad, HourlyTrigger(minute_of_hour=15))) == at(10, 15)


def test_starts_follow_the_clock_of_the_workspace() -> None:
    """A workspace that is half an hour ahead has already started what is due by ours."""
    assert expected(schedule(HourlyTrigger(minute_of_hour=15)), skew_seconds=1800) == at(11, 15)


async def test_an_answer_is_renewed_when_it_has_passed_or_schedules_changed() -> None:
    """A start of the past is never told, nor one of a schedule that is no longer there."""
    clock, live_state = ManualClock(), LiveState(["acme"])
    starts = ExpectedStarts(live_state.view, clock=clock)
    live_state.update_workspace("acme", schedules=(schedule(HourlyTrigger(minute_of_hour=15)),))
    assert starts.next_start("acme", FLOW) == at(10, 15)
    assert starts.next_start("acme", PLAN) is None

    await clock.advance(900)
    assert starts.next_start("acme", FLOW) == at(11, 15)
    live_state.update_workspace("acme", schedules=())
    assert starts.next_start("acme", FLOW) is None
    live_state.remove_workspace("acme")
    assert starts.next_start("acme", FLOW) is None
