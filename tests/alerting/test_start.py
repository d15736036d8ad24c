"""Starts, restarts, other rules and rules that break: what was told stays told, and no more."""

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
from monitor.model.live_state import PipelineHealth
from monitor.model.runs import Pipeline, PipelineKind, RunKind, Status
from monitor.supervisor import Supervisor
from tests.alerting.cutting import Cut, CutBus
from tests.alerting.judging import WORKSPACE, Judging, guard, judging
from tests.app.eventually import eventually

_STALE = msgspec.structs.replace(default_rule(RuleKind.NOT_FRESH), threshold=3_600)


def stand(judging: Judging, flows: int) -> None:
    """Let so many flows have succeeded last two hours ago, and let that be known for certain."""
    now = judging.clock.now()
    for number in range(flows):
        pipeline = Pipeline(kind=PipelineKind.FLOW, id=str(number), name=f"flow {number}")
        judging.live_state.name_pipeline(WORKSPACE, pipeline.kind, pipeline.id, pipeline.name)
        judging.live_state.pipeline_health[WORKSPACE, RunKind.JOB_GROUP, pipeline.id, None] = (
            PipelineHealth(
                workspace=WORKSPACE,
                run_kind=RunKind.JOB_GROUP,
                pipeline=pipeline,
                last_success_at=now - timedelta(hours=2),
                last_finished_at=now - timedelta(hours=2),
                last_status=Status.SUCCEEDED,
            )
        )
    for kind in (RunKind.JOB_GROUP, RunKind.FLOW_RUN):
        judging.live_state.confirm(WORKSPACE, kind, now, complete_at=now)


class BrokenRule:
    """A guard behind which one rule raises while it ``is_broken``."""

    def __init__(self, judging: Judging) -> None:
        self.is_broken = True
        self._supervisor = Supervisor(clock=judging.clock, registry=CollectorRegistry())
        judging.engine = Engine(
            bus=judging.bus,
            view=judging.live_state.view,
            clock=judging.clock,
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


async def test_the_first_start_tells_what_was_there_once_and_as_such(tmp_path: Path) -> None:
    """500 flows have long been stale when the rule is judged first: one each, marked."""
    async with judging(tmp_path, AlertingSettings(rules=(_STALE,))) as one:
        stand(one, 500)
        for _ in range(3):
            await one.round()

        told = await one.told()
        assert len(told) == len({event.alert.fingerprint for event in told}) == 500
        assert all(event.alert.preexisting for event in told)


async def test_what_goes_wrong_later_was_not_there(tmp_path: Path) -> None:
    """Once a rule has been judged, what begins is told as beginning."""
    async with judging(tmp_path, AlertingSettings(rules=(_STALE,))) as one:
        stand(one, 1)
        await one.round()
        stand(one, 2)
        await one.round()
        await one.clock.advance(60)
        stand(one, 3)
        for _ in range(40):
            await one.round()

        assert [event.alert.preexisting for event in await one.told()][:1] == [True]
        assert not any(event.alert.preexisting for event in (await one.told())[1:])


async def test_a_restart_tells_nothing_again(tmp_path: Path) -> None:
    """A new process holds the same alerts, and tells the ends that are owed."""
    async with judging(tmp_path) as one:
        await one.end_runs(list(range(50)))
        await one.round()
        before = one.engine.snapshot().alerts
        one.engine = Engine(
            bus=one.bus,
            view=one.live_state.view,
            clock=one.clock,
            settings=AlertingSettings(),
            retention=Retention(),
            guard=guard,
        )
        await one.engine.restore()
        assert {a.fingerprint: a for a in one.engine.snapshot().alerts} == {
            a.fingerprint: a for a in before
        }
        await one.round()
        assert await one.words() == ["fired"] * 50

        await one.end_runs(list(range(50)), Status.SUCCEEDED)
        await one.round()
        assert await one.words() == ["fired"] * 50 + ["resolved"] * 50


async def test_a_rule_that_goes_ends_what_it_began(tmp_path: Path) -> None:
    """After a reload without it, and after one that matches something else."""
    async with judging(tmp_path) as one:
        await one.end_runs([1, 2])
        await one.round()
        narrow = msgspec.structs.replace(
            default_rule(RuleKind.RUN_FAILED), match=Match(pipeline=("2",))
        )
        await one.engine.reconfigure(AlertingSettings(rules=(narrow,)))
        await one.round()
        assert await one.words() == ["fired", "fired", "resolved"]
        await one.engine.reconfigure(AlertingSettings(rules=()))
        await one.round()

        assert await one.words() == ["fired", "fired", "resolved", "resolved"]
        assert (await one.told())[-1].alert.facts["reason"] == "rule removed"
        await one.round(3_600)
        for _ in range(30):
            await one.round()
        assert one.engine.snapshot().alerts == ()


async def test_a_rule_that_stays_keeps_what_it_knows_over_a_reload(tmp_path: Path) -> None:
    """Another threshold of the same rule begins no new episode."""
    rule = default_rule(RuleKind.FAILING_REPEATEDLY)
    async with judging(tmp_path, AlertingSettings(rules=(rule,))) as one:
        for _ in range(2):
            await one.end_run(1)
            await one.round()
        other = msgspec.structs.replace(rule, repeat_seconds=9.0)
        await one.engine.reconfigure(AlertingSettings(rules=(other,)))
        await one.end_run(1)
        await one.round()

        assert await one.words(rule.name) == ["fired"]


async def test_a_rule_that_raises_leaves_the_others_alone(tmp_path: Path) -> None:
    """It is counted and named, and the other rule notifies of the same event."""
    async with judging(tmp_path) as one:
        BrokenRule(one)
        await one.engine.restore()
        await one.end_runs([1, 2])
        await one.round()

        snapshot = one.engine.snapshot()
        assert await one.words() == ["fired", "fired"]
        assert snapshot.failures == {"failing_repeatedly": 2}
        assert "ZeroDivisionError" in snapshot.failing_rules["failing_repeatedly"]


async def test_a_rule_that_recovers_is_not_failing_any_more(tmp_path: Path) -> None:
    """It is shown as failing until it is evaluated for the same subject again."""
    async with judging(tmp_path) as one:
        rule = BrokenRule(one)
        await one.engine.restore()
        await one.end_run(1)
        await one.round()
        rule.is_broken = False
        await one.end_run(2)
        await one.round()
        assert set(one.engine.snapshot().failing_rules) == {"failing_repeatedly"}

        await one.end_run(1)
        await one.round()

        assert one.engine.snapshot().failing_rules == {}
        assert one.engine.snapshot().failures == {"failing_repeatedly": 1}


async def test_a_failure_for_a_subject_without_new_events_is_cleared(tmp_path: Path) -> None:
    """An hour later a success of the rule for another subject is enough."""
    async with judging(tmp_path) as one:
        rule = BrokenRule(one)
        await one.engine.restore()
        await one.end_run(1)
        await one.round()
        rule.is_broken = False
        await one.round(3_600)
        await one.end_run(2)
        await one.round()

        assert one.engine.snapshot().failing_rules == {}


async def test_jumps_of_our_clock_raise_nothing(tmp_path: Path) -> None:
    """The wall clock is set an hour on and back while things are well, pending and firing."""
    async with judging(tmp_path) as one:
        await one.end_run(1)
        await one.round()
        for hours in (1, -2, 1):
            one.clock.set_wall(one.clock.now() + timedelta(hours=hours))
            await one.round()
        assert await one.words() == ["fired"]

        one.answers(well=False)
        await one.round()
        for hours in (1, -1):
            one.clock.set_wall(one.clock.now() + timedelta(hours=hours))
            await one.round()
        assert await one.words("workspace_unreachable") == []
        await one.round(120)
        assert await one.words("workspace_unreachable") == ["fired"]
        assert await one.words() == ["fired"]


async def test_alerts_are_not_judged_themselves(tmp_path: Path) -> None:
    """The engine reads what it has told, and is moved by it to nothing."""
    async with judging(tmp_path) as one:
        await one.end_run(1)
        await one.round()
        position = one.engine.position
        await one.round()

        assert one.engine.position > position or await one.engine.take_some() == 0
        assert await one.words() == ["fired"]
        firing = [a for a in one.engine.snapshot().alerts if a.state is AlertState.FIRING]
        assert len(firing) == 1


async def test_it_goes_on_when_the_store_answers_again(tmp_path: Path) -> None:
    """A step that the store refuses is taken again from what it holds, by the same task."""
    async with judging(tmp_path) as one:
        cut = CutBus(one.bus, Cut(at=1, is_taken=False, is_killed=False))
        engine = Engine(
            bus=cut,
            view=one.live_state.view,
            clock=one.clock,
            settings=AlertingSettings(evaluation_interval_seconds=0.1),
            retention=Retention(),
            guard=guard,
        )
        await one.end_runs([1, 2])

        async def are_told() -> bool:
            return await one.words() == ["fired", "fired"]

        running = asyncio.create_task(engine.run())
        try:
            await eventually(lambda: cut.steps == 1, why="nothing was stored")
            await one.clock.advance(1)
            await eventually(are_told, why="nothing was told")
        finally:
            running.cancel()
            await asyncio.gather(running, return_exceptions=True)

        assert await are_told()
