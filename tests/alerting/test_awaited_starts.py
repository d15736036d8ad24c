"""Which start is awaited next, and how many are kept while none can be evaluated."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from monitor.alerting.rules.awaited_starts import (
    AwaitedStarts,
    first_awaited,
    match_starts,
    with_schedules,
    with_start,
)
from monitor.alerting.rules.contract import FlowOrPlanFacts
from monitor.alerting.rules.expected_starts import ObservedStart, ScheduleDefinition
from monitor.alerting.rules.rule_settings import RuleKind
from monitor.model.live_state import ScheduleKnown
from monitor.model.runs import Pipeline, PipelineKind
from monitor.model.triggers import (
    CronTrigger,
    DailyTrigger,
    HourlyTrigger,
    ScheduleTrigger,
    UnsupportedTrigger,
)
from tests.alerting.run_samples import rule

BEGAN = datetime(2026, 11, 21, 10, tzinfo=UTC)
EVERY_MINUTE = CronTrigger(expression="0 * * * * ?", timezone="UTC")


def test_more_starts_than_are_kept_raise_no_alert() -> None:
    """The oldest are forgotten, and with them what was awaited until then."""
    memory = AwaitedStarts(
        judged_until=BEGAN,
        read_at=BEGAN,
        definitions=(
            ScheduleDefinition(schedule="1", name="often", since=BEGAN, triggers=(EVERY_MINUTE,)),
        ),
    )
    for minute in range(1, 1_501):
        memory = with_start(
            memory, ObservedStart(key=str(minute), at=BEGAN + timedelta(minutes=minute))
        )
    assert len(memory.starts) == 1_000
    assert memory.judged_until == BEGAN + timedelta(minutes=500)

    end = BEGAN + timedelta(minutes=1_500)
    for _ in range(5):
        memory = match_starts(memory, as_of=end, due_at=end).memory
    assert (memory.judged_until, memory.count, memory.missed) == (end, 0, ())


FLOW = Pipeline(kind=PipelineKind.FLOW, id="11", name="Daily sales")
MISSED = rule(RuleKind.SCHEDULE_MISSED)
AT_18 = DailyTrigger(hour_of_day=18, minute_of_hour=0, timezone="Europe/Berlin")
QUARTER_PAST = HourlyTrigger(minute_of_hour=15)


def schedule(
    *triggers: ScheduleTrigger, schedule_id: str = "1", is_enabled: bool = True
) -> ScheduleKnown:
    return ScheduleKnown(
        id=schedule_id, name="s", is_enabled=is_enabled, triggers=triggers, pipelines=(FLOW,)
    )


def awaited(*schedules: ScheduleKnown, at: datetime = BEGAN) -> AwaitedStarts | None:
    """Return what is awaited of the flow at ten o'clock of the workspace, or at ``at``."""
    return first_awaited(FlowOrPlanFacts(schedules=schedules), MISSED, as_of=at, read_at=at)


def next_start(*schedules: ScheduleKnown, at: datetime = BEGAN) -> datetime | None:
    memory = awaited(*schedules, at=at)
    return None if memory is None else memory.next_at


def test_the_earliest_of_all_enabled_triggers_is_awaited() -> None:
    """Several triggers and schedules of one pipeline: the next of them counts."""
    assert next_start(schedule(AT_18)) == BEGAN.replace(hour=17)
    assert next_start(schedule(AT_18, QUARTER_PAST)) == BEGAN.replace(minute=15)
    hourly = schedule(QUARTER_PAST, schedule_id="2")
    assert next_start(schedule(AT_18), hourly) == BEGAN.replace(minute=15)
    disabled = schedule(QUARTER_PAST, schedule_id="2", is_enabled=False)
    assert next_start(schedule(AT_18), disabled) == BEGAN.replace(hour=17)


def test_nothing_is_awaited_without_a_readable_schedule() -> None:
    """No schedule, a disabled one, an unknown trigger and a bad expression name no start."""
    bad, unknown = CronTrigger(expression="every day"), UnsupportedTrigger(kind="fileWatcher")

    assert next_start() is None
    assert next_start(schedule(QUARTER_PAST, is_enabled=False)) is None
    assert next_start(schedule(bad, unknown)) is None
    assert next_start(schedule(bad, QUARTER_PAST)) == BEGAN.replace(minute=15)


def test_starts_follow_the_time_of_the_workspace() -> None:
    """A workspace that is half an hour ahead has already started what is due by our clock."""
    ahead = BEGAN + timedelta(minutes=30)
    assert next_start(schedule(QUARTER_PAST), at=ahead) == BEGAN.replace(hour=11, minute=15)


def test_the_next_start_follows_the_time_and_the_schedules() -> None:
    """Once a start has come the next one is awaited; none of a removed schedule is."""
    memory = awaited(schedule(QUARTER_PAST))
    assert memory is not None
    came_at = BEGAN.replace(minute=15)
    memory = with_start(memory, ObservedStart(key="1", at=came_at, is_scheduled=True))
    later = BEGAN.replace(minute=40)
    memory = match_starts(memory, as_of=later, due_at=later).memory
    assert memory.next_at == BEGAN.replace(hour=11, minute=15)

    removed = FlowOrPlanFacts(schedules=(), schedules_read_before=later)
    memory = with_schedules(memory, removed, MISSED, read_at=later + timedelta(minutes=1))
    assert memory.next_at is None
