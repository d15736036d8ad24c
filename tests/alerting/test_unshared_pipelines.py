"""Flows that are no longer shared with the token's owner: only they are evaluated no more."""

from __future__ import annotations

from collections.abc import AsyncIterator
from datetime import timedelta
from pathlib import Path

import msgspec
import pytest

from monitor.alerting.rules.rule_settings import RuleKind
from monitor.alerting.rules.table import default_rule
from monitor.alerting.settings import AlertingSettings
from monitor.model.alerts import Alert, AlertState
from monitor.model.live_state import ActiveRun, UnsharedPipeline, pipeline_key
from monitor.model.runs import Pipeline, PipelineKind, RunKey, RunKind, RunState, Source, Status
from tests.alerting.engine_scenario import WORKSPACE, EngineScenario, engine_scenario
from tests.alerting.rule_evaluation import EvaluatedRule, at
from tests.alerting.test_workspace_rules import status

SETTINGS = AlertingSettings(
    rules=(
        msgspec.structs.replace(default_rule(RuleKind.RUN_STUCK), threshold=60.0, for_seconds=0.0),
        default_rule(RuleKind.PIPELINES_UNSHARED),
        default_rule(RuleKind.WORKSPACE_UNREACHABLE),
    )
)


@pytest.fixture
async def history(tmp_path: Path) -> AsyncIterator[EngineScenario]:
    async with engine_scenario(tmp_path, SETTINGS) as found:
        yield found


def flow(number: int) -> Pipeline:
    return Pipeline(kind=PipelineKind.FLOW, id=str(number), name=f"flow {number}")


def wait_in_queue(history: EngineScenario, *flows: int) -> None:
    """Let a job group of each flow wait from now on."""
    now = history.clock.now()
    for number in flows:
        run = RunState(
            key=RunKey(WORKSPACE, RunKind.JOB_GROUP, str(number)),
            status=Status.PENDING,
            created_at=now,
            pipeline=flow(number),
            confirmed_at=now,
            confirmed_by=Source.POLL,
        )
        history.live_state.active[run.key] = ActiveRun(
            run=run, confirmed_at=now, confirmed_by=Source.POLL
        )


def unshare(history: EngineScenario, *flows: int) -> None:
    now = history.clock.now()
    hidden = {
        pipeline_key(PipelineKind.FLOW, str(number)): UnsharedPipeline(
            pipeline=flow(number), since=now, hidden_from=now, reason=f"flow {number}: 403"
        )
        for number in flows
    }
    history.live_state.update_workspace(WORKSPACE, unshared=hidden)


async def pass_time(history: EngineScenario, seconds: float) -> None:
    """Let minutes pass, with all lists of runs read in each."""
    for _ in range(round(seconds / 60)):
        now = history.clock.now() + timedelta(seconds=60)
        history.live_state.confirm(WORKSPACE, RunKind.JOB_GROUP, now, complete_at=now)
        await history.round(60)


def alerts(history: EngineScenario, rule: str) -> list[Alert]:
    found = (alert for alert in history.engine.snapshot().alerts if alert.rule == rule)
    return [alert for alert in found if alert.state is AlertState.FIRING]


def firing(history: EngineScenario, rule: str) -> list[str]:
    """Return the flows that alerts of a rule are about."""
    return sorted(alert.pipeline.id if alert.pipeline else "" for alert in alerts(history, rule))


async def test_shared_flows_go_on_being_evaluated(history: EngineScenario) -> None:
    """Five hidden flows inhibit no alert about a sixth, and are an alert of their own."""
    wait_in_queue(history, *range(1, 7))
    await pass_time(history, 60)
    unshare(history, *range(1, 6))
    await pass_time(history, 600)

    assert firing(history, "run_stuck") == ["6"]
    assert firing(history, "pipelines_unshared") == [""]
    assert firing(history, "workspace_unreachable") == []

    unshare(history)
    await pass_time(history, 120)
    assert firing(history, "run_stuck") == ["1", "2", "3", "4", "5", "6"]
    assert await history.words("pipelines_unshared") == ["fired", "resolved"]


async def test_a_clock_set_back_delays_no_evaluation(history: EngineScenario) -> None:
    """A flow is asked about again a minute later, though it was last when a day more was known."""
    wait_in_queue(history, 1)
    unshare(history, 1)
    ahead = history.clock.now() + timedelta(days=1)
    history.live_state.confirm(WORKSPACE, RunKind.JOB_GROUP, history.clock.now(), complete_at=ahead)
    await history.round()
    history.live_state.limit_complete(WORKSPACE, history.clock.now())
    await pass_time(history, 600)
    unshare(history)
    await pass_time(history, 120)

    assert firing(history, "run_stuck") == ["1"]


async def test_an_alert_about_a_hidden_flow_stays_and_says_why(history: EngineScenario) -> None:
    """It cannot be seen whether it is over; that of another flow ends as ever."""
    wait_in_queue(history, 1, 2)
    await pass_time(history, 600)
    assert firing(history, "run_stuck") == ["1", "2"]
    unshare(history, 2)
    history.live_state.active.clear()
    await history.end_run(1, Status.SUCCEEDED)
    await pass_time(history, 300)

    (alert,) = alerts(history, "run_stuck")
    assert alert.pipeline == flow(2)
    assert history.live_state.view.why_unjudged(alert) == "flow 2: 403"


def unshared(*ids: int, kind: PipelineKind = PipelineKind.FLOW) -> dict[str, UnsharedPipeline]:
    return {
        f"{kind}/{id_}": UnsharedPipeline(
            pipeline=Pipeline(kind=kind, id=str(id_)),
            since=at(10 * id_),
            hidden_from=at(0),
            reason=f"{kind} {id_} is no longer shared with the token's owner: 403",
        )
        for id_ in ids
    }


class TestUnshared:
    """`pipelines_unshared`."""

    def test_it_counts_and_names_what_is_hidden(self) -> None:
        """From the first of them on, until all are shown again or forgotten."""
        rule = EvaluatedRule(RuleKind.PIPELINES_UNSHARED)
        hidden = {**unshared(1, 2, 3), **unshared(4, kind=PipelineKind.PLAN)}
        assert rule.evaluate(status(), 0) == "ok"
        assert rule.evaluate(status(unshared=hidden), 60) == "firing"
        assert rule.firing.since == at(10)
        assert rule.firing.facts["pipelines"] == "3 flows and 1 plan"
        assert "flow 1 is no longer shared" in str(rule.firing.facts["reason"])
        assert rule.evaluate(status(unshared=unshared(2)), 70) == "firing"
        assert rule.firing.facts["pipelines"] == "1 flow"
        assert rule.evaluate(status(), 80) == "ok"

    @pytest.mark.parametrize("jump", [-3_600, 3_600])
    def test_a_set_clock_moves_no_start(self, jump: int) -> None:
        """Since when it is hidden is by the wall clock, which the clock of the rules is not."""
        rule = EvaluatedRule(RuleKind.PIPELINES_UNSHARED)
        (hidden,) = unshared(1).values()
        moved = msgspec.structs.replace(hidden, since=at(10 + jump))
        assert rule.evaluate(status(unshared={"flow/1": moved}), 60, wall=60 + jump) == "firing"
        assert rule.firing.since == at(10)

    def test_it_is_no_outage(self) -> None:
        """However many they are, all else is watched."""
        rule = EvaluatedRule(RuleKind.WORKSPACE_UNREACHABLE)
        assert rule.evaluate(status(unshared=unshared(*range(1, 40))), 60) == "ok"

    def test_a_remembered_state_neither_fires_nor_resolves(self) -> None:
        """After a restart no poll has asked yet whether they are shared again."""
        rule = EvaluatedRule(RuleKind.PIPELINES_UNSHARED)
        remembered = status(unshared=unshared(1), is_remembered=True)
        assert rule.evaluate(remembered, 0) == "unknown"
