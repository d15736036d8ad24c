"""How many starts are kept while none can be evaluated."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from monitor.alerting.rules.awaited_starts import AwaitedStarts, match_starts, with_start
from monitor.alerting.rules.expected_starts import ScheduleDefinition
from monitor.alerting.rules.observed_starts import ObservedStart
from monitor.model.triggers import CronTrigger

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
