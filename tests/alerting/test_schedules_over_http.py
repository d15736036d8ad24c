"""The nights of the clock change in a sandbox, with schedules that are skipped and late."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

import pytest

from monitor.alerting.engine.engine import Engine
from monitor.alerting.rules.rule_settings import RuleKind
from monitor.alerting.rules.table import default_rule
from monitor.alerting.settings import AlertingSettings
from monitor.bus.contract import Retention
from monitor.model.events import AlertEvent, EventType
from monitor.model.runs import PipelineKind
from monitor.model.secrets import Secret
from monitor.polling.settings import PollSettings
from monitor.sandbox.sandbox import Sandbox
from monitor.sandbox.settings import SandboxSettings, WorkSettings
from monitor.sandbox.world.records.objects import (
    Flow,
    OutputObject,
    Plan,
    PlanNode,
    Recipe,
    Schedule,
)
from monitor.sandbox.world.records.objects import ScheduleTask as Task
from monitor.sandbox.world.records.runs import RanFrom
from monitor.schedules import times_between
from tests.alerting.engine_scenario import guard
from tests.alerting.scheduled_world import EARLY, GRACE, HOURLY, NIGHTLY, Rhythm
from tests.clocks import ManualClock, advance_together
from tests.polling.conftest import Scenario, asleep
from tests.schedules.minutes import Minutes

_OFTEN = 4  # times an hour
OWNER = 11
ZONE = "Europe/Berlin"
STEP = timedelta(minutes=10)
HOUR = timedelta(hours=1)
RULES = AlertingSettings(rules=(default_rule(RuleKind.SCHEDULE_MISSED),), flap_count=1_000)
POLL = PollSettings(
    active_seconds=600,
    idle_seconds=600,
    progress_seconds=3_600,
    schedules_seconds=600,
    reconcile_seconds=3_600,
    jitter_share=0.0,
    detail_wait_seconds=0.0,
)


class Night:
    """A sandbox and a monitor of it; the test moves the clocks of both."""

    def __init__(self, folder: Path, begin: datetime) -> None:
        self.clock, self.world_clock = ManualClock(begin), ManualClock(begin)
        settings = SandboxSettings(traffic=None, work=WorkSettings(speed=60, cancel_ratio=0.0))
        self.sandbox = Sandbox(settings, self.world_clock)
        for schedule in self.sandbox.world.schedules.live():
            # What fires all the time would make most of the work, and show no more.
            often = times_between(schedule.triggers, begin, begin + HOUR, limit=_OFTEN)
            schedule.enabled = schedule.enabled and len(often) < _OFTEN
        self._folder = folder
        self._tasks: list[asyncio.Task[None]] = []
        self._scenario: Scenario
        self._engine: Engine

    async def begin(self) -> None:
        """Start the monitor, for the first time or again, and let it read everything once."""
        self._scenario = Scenario(
            clock=self.clock,
            folder=self._folder,
            url=self.sandbox.url or "",
            settings=POLL,
            edition=None,
            token=Secret(self.sandbox.token),
        )
        await self._scenario.open()
        self._engine = Engine(
            bus=self._scenario.bus,
            view=self._scenario.live_state.view,
            clock=self.clock,
            settings=RULES,
            retention=Retention(),
            guard=guard,
        )
        await self._engine.restore()
        self._tasks.append(asyncio.create_task(self._scenario.poller().run()))
        await asleep(self.clock)

    async def end(self) -> None:
        for task in self._tasks:
            task.cancel()
        await asyncio.wait(self._tasks)
        self._tasks.clear()
        await self._scenario.close()

    async def live(self, until: datetime) -> None:
        """Run both, and let the engine evaluate whenever everything was polled."""
        while self.clock.now() < until:
            await self.sleep(self.clock.now() + STEP)
            await asleep(self.clock)
            for _ in range(20):
                before = self._engine.snapshot().transitions
                await self._engine.evaluate()
                if self._engine.snapshot().transitions == before:
                    break

    async def sleep(self, until: datetime) -> None:
        """Let only the time pass, as while no daemon runs."""
        seconds = (until - self.clock.now()).total_seconds()
        await advance_together(self.world_clock, self.clock, seconds=seconds)

    async def told(self) -> list[AlertEvent]:
        rows = await self._scenario.bus.events(after=0, limit=10_000)
        return [row.event for row in rows if isinstance(row.event, AlertEvent)]

    def scheduled(self, rhythm: Rhythm, *, in_a_plan: bool = False) -> Flow | Plan:
        """Make a flow, or a plan of one, that a schedule starts."""
        world = self.sandbox.world
        flow = world.create(Flow, by=OWNER, name="timed")
        recipe = world.create(Recipe, by=OWNER, flow_id=flow.id, name="r", upstream_ids=())
        world.create(OutputObject, by=OWNER, recipe_id=recipe.id)
        made: Flow | Plan = flow
        if in_a_plan:
            made = world.create(Plan, by=OWNER, name="timed plan")
            node = {"handle": "n0", "name": "n", "task_type": "flow", "flow_id": flow.id}
            world.create(PlanNode, by=OWNER, plan_id=made.id, **node)
        task = Task(kind="plan" if in_a_plan else "flow", target_id=made.id)
        world.create(
            Schedule, by=OWNER, name="timed", triggers=rhythm.triggers(ZONE), tasks=(task,)
        )
        return made

    def starts(self, kind: PipelineKind, pipeline_id: str) -> list[datetime]:
        """Return when schedules have started a flow or plan, by what the sandbox remembers."""
        world = self.sandbox.world
        runs: list[Any] = list(world.flow_runs if kind is PipelineKind.FLOW else world.plan_runs)
        key = "flow_id" if kind is PipelineKind.FLOW else "plan_id"
        return sorted(
            run.created_at
            for run in runs
            if str(getattr(run, key)) == pipeline_id and run.ran_from is RanFrom.SCHEDULE
        )


@asynccontextmanager
async def night(folder: Path, begin: datetime) -> AsyncIterator[Night]:
    it = Night(folder, begin)
    await it.sandbox.start()
    try:
        await it.begin()
        try:
            yield it
        finally:
            await it.end()
    finally:
        await it.sandbox.stop()


@pytest.mark.parametrize(
    "change", [datetime(2026, 3, 29, 1, tzinfo=UTC), datetime(2026, 10, 25, 1, tzinfo=UTC)]
)
async def test_a_night_in_a_sandbox(tmp_path: Path, change: datetime) -> None:
    """Faults, an hour of 503 and an hour without a monitor: what did not start fires, only that.

    The schedules that the sandbox has of its own are evaluated as well.
    """
    begin, end = change - 4 * HOUR, change + 7 * HOUR
    rhythms = (NIGHTLY, HOURLY, EARLY)
    async with night(tmp_path, begin) as it:
        timed = [it.scheduled(rhythm, in_a_plan=rhythm is EARLY) for rhythm in rhythms]
        it.sandbox.engine.schedules_changed()
        options = it.sandbox.world.options
        await it.live(begin + HOUR)
        options.schedules_skipped, options.schedules_late = 0.25, 0.25
        options.schedules_late_seconds = 900.0
        await it.live(change - HOUR / 2)
        await it.end()
        await it.sleep(change + HOUR / 2)
        await it.begin()
        await it.live(change + 2 * HOUR)
        options.status_503 = 1.0
        await it.live(change + 3 * HOUR)
        options.status_503 = 0.0
        await it.live(change + 4 * HOUR)
        options.schedules_skipped = options.schedules_late = 0.0
        await it.live(end)
        told = await it.told()
        _judge_what_was_told(it, told)
        minutes = Minutes(ZoneInfo(ZONE), begin + HOUR, end - HOUR)
        for other_rhythm, rhythm in zip(timed, rhythms, strict=True):
            times = minutes.times(rhythm.fits, is_every_hour=rhythm.is_every_hour)
            _judge_what_was_due(it, other_rhythm, times, told)


def _judge_what_was_told(it: Night, told: list[AlertEvent]) -> None:
    """No alert names a time at which something started, and every alert is over."""
    fired = [alert_event for alert_event in told if alert_event.type is EventType.ALERT_FIRED]
    ended = {
        alert_event.alert.starts_at
        for alert_event in told
        if alert_event.type is EventType.ALERT_RESOLVED
    }
    assert len(fired) >= 3
    for event in fired:
        alert = event.alert
        assert alert.pipeline is not None
        starts = it.starts(alert.pipeline.kind, alert.pipeline.id)
        in_time = [at for at in starts if alert.starts_at <= at < alert.starts_at + GRACE]
        assert in_time == [], f"{alert.pipeline} did start for {alert.starts_at}"
        assert alert.starts_at in ended or not [at for at in starts if at > alert.starts_at]


def _judge_what_was_due(
    it: Night, made: Flow | Plan, times: list[datetime], told: list[AlertEvent]
) -> None:
    """Each time at which nothing started until the next one is a part of an alert."""
    kind = PipelineKind.PLAN if isinstance(made, Plan) else PipelineKind.FLOW
    starts = it.starts(kind, str(made.id))
    alerts = [
        alert_event.alert
        for alert_event in told
        if alert_event.type is EventType.ALERT_RESOLVED
        and alert_event.alert.pipeline is not None
        and (alert_event.alert.pipeline.kind, alert_event.alert.pipeline.id) == (kind, str(made.id))
    ]
    for at, following in pairwise(times):
        if not any(at <= start < following for start in starts):
            assert any(
                alert.starts_at <= at and alert.ends_at is not None and at <= alert.ends_at
                for alert in alerts
            ), f"nothing was told of {made.name} at {at}"
