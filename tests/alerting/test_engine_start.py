"""Starts, restarts, other rules and rules that raise: each alert is published once."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import msgspec
from prometheus_client import CollectorRegistry

from monitor.alerting.engine.engine import Engine
from monitor.alerting.rules.rule_settings import Match, RuleKind
from monitor.alerting.rules.table import default_rule
from monitor.alerting.settings import AlertingSettings
from monitor.bus.contract import Retention
from monitor.model.alerts import AlertState
from monitor.model.runs import Pipeline, PipelineKind, RunKind, Status
from monitor.supervisor import Supervisor
from tests.alerting.engine_scenario import WORKSPACE, EngineScenario, engine_scenario, guard
from tests.alerting.failing_steps import Cut, CutBus
from tests.app.eventually import eventually
from tests.pipeline_healths import end_at, health_after, show

_STALE = msgspec.structs.replace(default_rule(RuleKind.NOT_FRESH), threshold=3_600)


def stand(engine_scenario: EngineScenario, flows: int) -> None:
    """Let so many flows have succeeded last two hours ago, and let that be known for certain."""
    now = engine_scenario.clock.now()
    for number in range(flows):
        pipeline = Pipeline(kind=PipelineKind.FLOW, id=str(number), name=f"flow {number}")
        engine_scenario.live_state.name_pipeline(
            WORKSPACE, pipeline.kind, pipeline.id, pipeline.name
        )
        success = end_at(now - timedelta(hours=2))
        health = health_after(success, workspace=WORKSPACE, pipeline=pipeline)
        show(engine_scenario.live_state, health)
    for kind in (RunKind.JOB_GROUP, RunKind.FLOW_RUN):
        engine_scenario.live_state.confirm(WORKSPACE, kind, now, complete_at=now)


class BrokenRule:
    """A guard in which one rule raises while it ``is_broken``."""

    def __init__(self, engine_scenario: EngineScenario) -> None:
        self.is_broken = True
        self._supervisor = Supervisor(clock=engine_scenario.clock, registry=CollectorRegistry())
        engine_scenario.engine = Engine(
            bus=engine_scenario.bus,
            view=engine_scenario.live_state.view,
            clock=engine_scenario.clock,
            settings=AlertingSettings(),
            retention=Retention(),
            guard=self._contain,
        )

    def _contain(
        self, name: str, call: Callable[[], Any], on_failure: Callable[[str], None]
    ) -> Any:
        def break_down() -> Any:
            raise ZeroDivisionError("by design")

        is_chosen = self.is_broken and name == "rule failing_repeatedly"
        return self._supervisor.contain(name, break_down if is_chosen else call, on_failure)


async def test_the_first_start_fires_once_for_what_is_preexisting(tmp_path: Path) -> None:
    """500 flows have long been stale when the rule is evaluated first: one each, marked."""
    async with engine_scenario(tmp_path, AlertingSettings(rules=(_STALE,))) as scenario:
        stand(scenario, 500)
        for _ in range(3):
            await scenario.round()

        told = await scenario.told()
        assert len(told) == len({event.alert.fingerprint for event in told}) == 500
        assert all(event.alert.preexisting for event in told)


async def test_later_failures_are_not_preexisting(tmp_path: Path) -> None:
    """Once a rule has been evaluated, what begins later is not preexisting."""
    async with engine_scenario(tmp_path, AlertingSettings(rules=(_STALE,))) as scenario:
        stand(scenario, 1)
        await scenario.round()
        stand(scenario, 2)
        await scenario.round()
        await scenario.clock.advance(60)
        stand(scenario, 3)
        for _ in range(40):
            await scenario.round()

        assert [event.alert.preexisting for event in await scenario.told()][:1] == [True]
        assert not any(event.alert.preexisting for event in (await scenario.told())[1:])


async def test_a_restart_publishes_nothing_again(tmp_path: Path) -> None:
    """A new process has the same alerts, and publishes the ends that are owed."""
    async with engine_scenario(tmp_path) as scenario:
        await scenario.end_runs(list(range(50)))
        await scenario.round()
        before = scenario.engine.snapshot().alerts
        scenario.engine = Engine(
            bus=scenario.bus,
            view=scenario.live_state.view,
            clock=scenario.clock,
            settings=AlertingSettings(),
            retention=Retention(),
            guard=guard,
        )
        await scenario.engine.restore()
        assert {a.fingerprint: a for a in scenario.engine.snapshot().alerts} == {
            a.fingerprint: a for a in before
        }
        await scenario.round()
        assert await scenario.words() == ["fired"] * 50

        await scenario.end_runs(list(range(50)), Status.SUCCEEDED)
        await scenario.round()
        assert await scenario.words() == ["fired"] * 50 + ["resolved"] * 50


async def test_a_rule_that_goes_ends_what_it_began(tmp_path: Path) -> None:
    """After a reload without it, and after one that matches something else."""
    async with engine_scenario(tmp_path) as scenario:
        await scenario.end_runs([1, 2])
        await scenario.round()
        narrow = msgspec.structs.replace(
            default_rule(RuleKind.RUN_FAILED), match=Match(pipeline=("2",))
        )
        await scenario.engine.reconfigure(AlertingSettings(rules=(narrow,)))
        await scenario.round()
        assert await scenario.words() == ["fired", "fired", "resolved"]
        await scenario.engine.reconfigure(AlertingSettings(rules=()))
        await scenario.round()

        assert await scenario.words() == ["fired", "fired", "resolved", "resolved"]
        assert (await scenario.told())[-1].alert.facts["ended_because"] == "rule removed"
        await scenario.round(3_600)
        for _ in range(30):
            await scenario.round()
        assert scenario.engine.snapshot().alerts == ()


async def test_a_rule_that_stays_keeps_what_it_knows_over_a_reload(tmp_path: Path) -> None:
    """Another threshold of the same rule begins no new alert."""
    rule = default_rule(RuleKind.FAILING_REPEATEDLY)
    async with engine_scenario(tmp_path, AlertingSettings(rules=(rule,))) as scenario:
        for _ in range(2):
            await scenario.end_run(1)
            await scenario.round()
        other = msgspec.structs.replace(rule, repeat_seconds=9.0)
        await scenario.engine.reconfigure(AlertingSettings(rules=(other,)))
        await scenario.end_run(1)
        await scenario.round()

        assert await scenario.words(rule.name) == ["fired"]


async def test_a_rule_that_raises_leaves_the_others_alone(tmp_path: Path) -> None:
    """It is counted and named, and the other rule notifies of the same event."""
    async with engine_scenario(tmp_path) as scenario:
        BrokenRule(scenario)
        await scenario.engine.restore()
        await scenario.end_runs([1, 2])
        await scenario.round()

        snapshot = scenario.engine.snapshot()
        assert await scenario.words() == ["fired", "fired"]
        assert snapshot.failures == {"failing_repeatedly": 2}
        assert "ZeroDivisionError" in snapshot.failing_rules["failing_repeatedly"]


async def test_a_rule_that_recovers_is_not_failing_any_more(tmp_path: Path) -> None:
    """It is shown as failing until it is evaluated for the same subject again."""
    async with engine_scenario(tmp_path) as scenario:
        rule = BrokenRule(scenario)
        await scenario.engine.restore()
        await scenario.end_run(1)
        await scenario.round()
        rule.is_broken = False
        await scenario.end_run(2)
        await scenario.round()
        assert set(scenario.engine.snapshot().failing_rules) == {"failing_repeatedly"}

        await scenario.end_run(1)
        await scenario.round()

        assert scenario.engine.snapshot().failing_rules == {}
        assert scenario.engine.snapshot().failures == {"failing_repeatedly": 1}


async def test_a_failure_for_a_subject_without_new_events_is_cleared(tmp_path: Path) -> None:
    """An hour later a success of the rule for another subject is enough."""
    async with engine_scenario(tmp_path) as scenario:
        rule = BrokenRule(scenario)
        await scenario.engine.restore()
        await scenario.end_run(1)
        await scenario.round()
        rule.is_broken = False
        await scenario.round(3_600)
        await scenario.end_run(2)
        await scenario.round()

        assert scenario.engine.snapshot().failing_rules == {}


async def test_jumps_of_our_clock_raise_nothing(tmp_path: Path) -> None:
    """The wall clock is set an hour on and back while things are well, pending and firing."""
    async with engine_scenario(tmp_path) as scenario:
        await scenario.end_run(1)
        await scenario.round()
        for hours in (1, -2, 1):
            scenario.clock.set_wall(scenario.clock.now() + timedelta(hours=hours))
            await scenario.round()
        assert await scenario.words() == ["fired"]

        scenario.answers(well=False)
        await scenario.round()
        for hours in (1, -1):
            scenario.clock.set_wall(scenario.clock.now() + timedelta(hours=hours))
            await scenario.round()
        assert await scenario.words("workspace_unreachable") == []
        await scenario.round(120)
        assert await scenario.words("workspace_unreachable") == ["fired"]
        assert await scenario.words() == ["fired"]


async def test_alerts_are_not_evaluated_themselves(tmp_path: Path) -> None:
    """The engine reads its own events, and does nothing about them."""
    async with engine_scenario(tmp_path) as scenario:
        await scenario.end_run(1)
        await scenario.round()
        position = scenario.engine.position
        await scenario.round()

        assert scenario.engine.position > position or await scenario.engine.take_some() == 0
        assert await scenario.words() == ["fired"]
        firing = [a for a in scenario.engine.snapshot().alerts if a.state is AlertState.FIRING]
        assert len(firing) == 1


async def test_it_goes_on_when_the_store_answers_again(tmp_path: Path) -> None:
    """A step that the store refuses is taken again from what it holds, by the same task."""
    async with engine_scenario(tmp_path) as scenario:
        cut = CutBus(scenario.bus, Cut(at=1, is_taken=False, is_killed=False))
        engine = Engine(
            bus=cut,
            view=scenario.live_state.view,
            clock=scenario.clock,
            settings=AlertingSettings(evaluation_interval_seconds=0.1),
            retention=Retention(),
            guard=guard,
        )
        await scenario.end_runs([1, 2])

        async def are_told() -> bool:
            return await scenario.words() == ["fired", "fired"]

        supervisor = Supervisor(clock=scenario.clock, registry=CollectorRegistry())
        running = asyncio.create_task(supervisor.supervise("alerting", engine.run))
        try:
            await eventually(lambda: cut.steps == 1, why="nothing was stored")
            await scenario.clock.advance(1)
            await eventually(are_told, why="nothing was told")
        finally:
            running.cancel()
            await asyncio.gather(running, return_exceptions=True)

        assert await are_told()
