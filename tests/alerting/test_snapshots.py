"""What is shown of what alerting remembers."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from datetime import UTC, datetime, timedelta

import msgspec

from monitor.alerting.alerts.pending_step import LEARNED, MEMORY, PendingStep, Tables
from monitor.alerting.engine.evaluation import Evaluator
from monitor.alerting.engine.rule_set import RuleSet
from monitor.alerting.engine.snapshots import Snapshots
from monitor.alerting.rules.awaited_starts import AwaitedStarts
from monitor.alerting.rules.expected_starts import ObservedStart, ScheduleDefinition
from monitor.alerting.rules.rule_settings import RuleKind
from monitor.alerting.rules.table import default_rule
from monitor.alerting.settings import AlertingSettings
from monitor.model.alerts import AlertingSnapshot
from monitor.model.runs import RunKind
from monitor.model.triggers import CronTrigger
from tests.alerting.engine_scenario import guard

BEGAN = datetime(2026, 11, 21, 10, tzinfo=UTC)
FLOW = ("marketing", RunKind.FLOW_RUN, "1")


class Shown:
    """Two rules that await the starts of one flow, and what is shown of them."""

    def __init__(self, *names: str) -> None:
        self.tables: Tables = Tables()
        self.pictures = Snapshots()
        self.evaluator = Evaluator(guard)
        self.keep_rules(names)

    def keep_rules(self, names: Iterable[str]) -> None:
        """Judge by these from now on."""
        missed = default_rule(RuleKind.SCHEDULE_MISSED)
        rules = tuple(msgspec.structs.replace(missed, name=name) for name in names)
        self.rules = RuleSet.of(AlertingSettings(rules=rules))

    async def remember(self, rule: str, hours: int | None, *, missed: int = 0) -> None:
        """Let a rule await a start in so many hours; None: it awaits nothing any more."""
        waiting = AwaitedStarts(judged_until=BEGAN, read_at=BEGAN, count=missed)
        if hours is not None:
            waiting = msgspec.structs.replace(waiting, next_at=BEGAN + timedelta(hours=hours))
        await self.put(rule, None if hours is None else waiting)

    async def put(self, rule: str, waiting: AwaitedStarts | None) -> None:
        """Let a rule remember this."""
        pending = PendingStep(self.tables, wall_now=BEGAN)
        pending.put(MEMORY, f"{rule}:flow_or_plan:marketing:flow_run:1:", waiting)
        await pending.state()
        pending.apply()
        await self.pictures.committed(pending, self.tables, self.rules)

    def now(self) -> AlertingSnapshot:
        return self.pictures.of(self.tables, self.rules, self.evaluator)


async def test_of_two_rules_that_await_one_flow_the_nearer_start_is_shown() -> None:
    """And when one of them awaits it no more, that of the other."""
    shown = Shown("early", "late")
    await shown.remember("early", 1, missed=2)
    await shown.remember("late", 3, missed=5)
    assert shown.now().expected == {FLOW: BEGAN + timedelta(hours=1)}
    assert shown.now().missed == {FLOW: 5}

    await shown.remember("early", None)
    assert shown.now().expected == {FLOW: BEGAN + timedelta(hours=3)}
    assert shown.now().missed == {FLOW: 5}


async def test_a_removed_rule_awaits_nothing() -> None:
    """The awaited start goes with its rule, or a time that is over would be shown forever."""
    shown = Shown("schedule_missed")
    await shown.remember("schedule_missed", 1)
    shown.keep_rules(())
    await shown.remember("schedule_missed", None)

    assert shown.now().expected == {}
    assert shown.now().missed == {}


async def test_a_snapshot_of_a_reading_under_way_does_not_stay() -> None:
    """A reader takes it in between: half of it is shown then, and all of it afterwards."""
    shown = Shown("schedule_missed")
    await shown.remember("schedule_missed", 1)
    shown.tables[LEARNED].update(
        dict.fromkeys((f"pipeline:m:flow_run:{n}:" for n in range(50)), b"{}")
    )

    reading = asyncio.create_task(shown.pictures.learn_all(shown.tables, shown.rules))
    turns = 0
    await asyncio.sleep(0)
    while not reading.done():
        assert shown.now().expected == {}
        turns += 1
        await asyncio.sleep(0)

    assert turns > 1
    assert shown.now().expected == {FLOW: BEGAN + timedelta(hours=1)}


async def test_a_start_that_came_is_awaited_no_more() -> None:
    """Though whether one was missed is only judged when the grace is over, ten minutes later."""
    hourly = ScheduleDefinition(
        schedule="1", name="hourly", since=BEGAN, triggers=(CronTrigger(expression="0 0 * * * ?"),)
    )
    first = BEGAN + timedelta(hours=1)
    waiting = AwaitedStarts(judged_until=BEGAN, read_at=BEGAN, definitions=(hourly,), next_at=first)
    shown = Shown("schedule_missed")
    await shown.put("schedule_missed", waiting)
    late = first + timedelta(minutes=9)

    assert shown.now().expected_start(FLOW, now=BEGAN) == first
    assert shown.now().expected_start(FLOW, now=late) == first
    after_grace = first + timedelta(minutes=10)
    assert shown.now().expected_start(FLOW, now=after_grace) == first + timedelta(hours=1)

    start = ObservedStart(at=first + timedelta(seconds=2), key="7", is_scheduled=True)
    await shown.put("schedule_missed", msgspec.structs.replace(waiting, starts=(start,)))
    assert shown.now().expected_start(FLOW, now=late) == first + timedelta(hours=1)
