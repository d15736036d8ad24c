"""A run is explained by a real engine on a real store, for each reason and stage."""

from __future__ import annotations

from collections.abc import AsyncIterator
from datetime import timedelta
from pathlib import Path

import pytest

from monitor.alerting.engine.engine import Engine
from monitor.alerting.explain.explainer import Explainer
from monitor.alerting.explain.explanation import ExplanationStage, StepOutcome
from monitor.alerting.rules.rule_settings import Match, RuleKind, RuleSettings
from monitor.alerting.rules.table import DEFAULT_RULES
from monitor.alerting.settings import AlertingSettings
from monitor.bus.contract import Change, DeadLetter, Retention, Step
from monitor.model.alerts import Silence
from monitor.model.live_state import ActiveRun, Reachability
from monitor.model.runs import (
    Parents,
    RunKey,
    RunKind,
    RunState,
    Status,
)
from tests.alerting.explain_scenario import FAILED, Alerting, alerting_in, call_at_once, failed
from tests.alerting.run_samples import END, key, state


@pytest.fixture
async def alerting(tmp_path: Path) -> AsyncIterator[Alerting]:
    async with alerting_in(tmp_path) as scenario:
        yield scenario


async def test_a_failure_that_fired_is_shown_from_observation_to_delivery(
    alerting: Alerting,
) -> None:
    """Every stage has its step, and the answer names the output that has it."""
    await alerting.happen(failed())
    newest = (await alerting.bus.status()).newest_position
    await alerting.deliver("mqtt", newest)
    explanation = await alerting.explain(failed())
    (alert,) = explanation.alerts
    by = f"alert run_failed ({alert.fingerprint}), firing since 2026-11-21 10:00:01 UTC"
    assert (explanation.answer, explanation.reason) == (
        f"run acme:job_group:1: reported by {by}: notified through mqtt",
        None,
    )
    stages = [step.stage for step in explanation.steps]
    assert list(dict.fromkeys(stages)) == list(ExplanationStage)
    of_alert = await alerting.explainer.alert(alert.fingerprint)
    assert of_alert is not None
    assert of_alert.reason is None
    assert of_alert.answer == f"alert run_failed ({alert.fingerprint}): notified through mqtt"
    assert of_alert.steps[0].event_id == "acme:job_group:1:failed"


async def test_no_matching_rule(alerting: Alerting) -> None:
    """The field that does not fit is named."""
    await alerting.use(
        RuleSettings(name="sales", rule=RuleKind.RUN_FAILED, match=Match(pipeline=("sales*",)))
    )
    await alerting.happen(failed())
    explanation = await alerting.explain(failed())
    assert explanation.reason is StepOutcome.NO_MATCHING_RULE
    assert any("pipeline: 'orders'" in step.detail for step in explanation.steps)


async def test_condition_not_met(alerting: Alerting) -> None:
    """The rule needs three failures in a row, and this was the first."""
    await alerting.use(
        RuleSettings(name="often", rule=RuleKind.FAILING_REPEATEDLY, threshold=3.0, minimum=4)
    )
    await alerting.happen(failed())
    explanation = await alerting.explain(failed())
    assert explanation.reason is StepOutcome.CONDITION_NOT_MET
    assert "condition not met" in explanation.steps[2].detail


async def test_pending_and_resolved_while_pending(alerting: Alerting) -> None:
    """The answer says when it fires; if it was over before, it says that."""
    await alerting.use(RuleSettings(name="run_failed", rule=RuleKind.RUN_FAILED, for_seconds=300.0))
    await alerting.happen(failed())
    explanation = await alerting.explain(failed())
    assert explanation.reason is StepOutcome.PENDING
    assert "fires after 300 s, at 2026-11-21 10:05:01 UTC" in explanation.answer
    await alerting.happen(state(2, Status.SUCCEEDED, finished_at=END + timedelta(seconds=60)))
    explanation = await alerting.explain(failed())
    assert (explanation.reason, "it ended while it was pending" in explanation.answer) == (
        StepOutcome.PENDING,
        True,
    )


async def test_silenced(alerting: Alerting) -> None:
    """Who silenced it, until when and why, stands in the answer."""
    now = alerting.clock.now()
    await alerting.engine.add_silence(
        Silence(
            id="5d3c",
            matchers=("pipeline=ord*",),
            author="ann",
            comment="planned reload",
            starts_at=now,
            ends_at=now + timedelta(hours=2),
            origin="api",
        )
    )
    await alerting.happen(failed())
    explanation = await alerting.explain(failed())
    assert explanation.reason is StepOutcome.SILENCED
    assert "silence 5d3c by ann until 2026-11-21 12:00:00 UTC" in explanation.answer
    assert "planned reload" in explanation.answer


async def test_muted(alerting: Alerting) -> None:
    """The rule's own mute times are named; the day is a Saturday."""
    await alerting.use(RuleSettings(name="run_failed", rule=RuleKind.RUN_FAILED, mute=("Sat UTC",)))
    await alerting.happen(failed())
    explanation = await alerting.explain(failed())
    assert (explanation.reason, "mute times" in explanation.answer) == (StepOutcome.MUTED, True)


async def test_inhibited(alerting: Alerting) -> None:
    """An alert inhibited by an unreachable workspace names the alert of that."""
    await alerting.use(
        RuleSettings(name="away", rule=RuleKind.WORKSPACE_UNREACHABLE),
        RuleSettings(name="late", rule=RuleKind.RUN_OVERDUE, threshold=60.0),
    )
    begun = alerting.clock.now()
    run = state(1, Status.RUNNING, created_at=begun, started_at=begun)
    await alerting.happen(run)
    active = ActiveRun(run=run, confirmed_at=begun, confirmed_by=run.confirmed_by)
    alerting.live_state.active[run.key] = active
    alerting.live_state.update_workspace(
        "acme", reachability=Reachability.UNREACHABLE, since=begun, reason="no answer"
    )
    for _ in range(4):
        await alerting.clock.advance(100)
        now = alerting.clock.now()
        alerting.live_state.confirm("acme", RunKind.JOB_GROUP, now, complete_at=now)
        await alerting.engine.evaluate()
    explanation = await alerting.explain(run)
    (away,) = [alert for alert in alerting.engine.snapshot().alerts if alert.name == "away"]
    assert explanation.reason is StepOutcome.INHIBITED
    assert f"inhibited by alert {away.name} ({away.fingerprint})" in explanation.answer


async def test_deduplicated(alerting: Alerting) -> None:
    """The second failure is evidence of the alert that the first one fired."""
    await alerting.happen(failed(1))
    await alerting.happen(failed(2))
    assert (await alerting.explain(failed(1))).reason is StepOutcome.WAITING
    explanation = await alerting.explain(failed(2))
    assert explanation.reason is StepOutcome.DEDUPLICATED
    assert "more evidence of it (2 in all)" in explanation.answer


async def test_waiting_in_an_output_and_refused_by_it(alerting: Alerting) -> None:
    """An output with a backlog is named with its length, and a refusal with its reason."""
    await alerting.happen(failed())
    explanation = await alerting.explain(failed())
    assert explanation.reason is StepOutcome.WAITING
    assert explanation.answer.endswith("alert.fired waits in mqtt after 1 other event")
    (fired,) = await alerting.bus.events(after=1, limit=1)
    letter = DeadLetter(
        position=fired.position, event=fired.event, reason="too large", refused_at=END
    )
    step = Step(consumer="mqtt", position=fired.position, dead_letters=(letter,))
    await alerting.bus.advance(step, timeout_seconds=5)
    explanation = await alerting.explain(failed())
    assert (explanation.reason, "too large" in explanation.answer) == (
        StepOutcome.DEAD_LETTER,
        True,
    )


async def test_not_evaluated_yet(alerting: Alerting) -> None:
    """An event that alerting has not read is no event whose condition is not met."""
    await alerting.happen(failed(), judged=False)
    assert (await alerting.explain(failed())).reason is StepOutcome.NOT_EVALUATED


async def test_a_run_that_is_part_of_another_fires_as_that_one(alerting: Alerting) -> None:
    """The alert of the root run is shown for the run inside it."""
    plan = state(5, Status.RUNNING, kind=RunKind.PLAN_RUN)
    inside = failed(1, parents=Parents(plan_run="5"))
    await alerting.happen(plan, inside)
    explanation = await alerting.explain(inside)
    (inner,) = [step for step in explanation.steps if step.outcome is StepOutcome.PART_OF_RUN]
    assert inner.detail.startswith("it is part of acme:plan_run:5")
    (alert,) = explanation.alerts
    assert (alert.kind, explanation.reason) == (RunKind.PLAN_RUN, StepOutcome.WAITING)


async def test_a_parent_that_became_known_later_waits_for_the_alert(
    alerting: Alerting,
) -> None:
    """The flow run fired; its plan's alert waits for that one, and both say so."""
    begun = END - timedelta(minutes=5)
    flow_run = failed(1, kind=RunKind.FLOW_RUN, created_at=begun)
    await alerting.happen(flow_run)
    linked = state(
        1,
        Status.FAILED,
        kind=RunKind.FLOW_RUN,
        created_at=begun,
        finished_at=flow_run.finished_at,
        parents=Parents(plan_run="5"),
    )
    plan_run = failed(5, kind=RunKind.PLAN_RUN, created_at=begun - timedelta(seconds=5))
    await alerting.bus.commit(Change(runs=(linked,)), timeout_seconds=5)
    await alerting.happen(plan_run)
    for run, reason in ((linked, StepOutcome.WAITING), (plan_run, StepOutcome.INHIBITED)):
        explanation = await alerting.explain(run)
        assert (explanation.reason, len(explanation.alerts)) == (reason, 1), explanation.answer


async def test_historical_and_unknown(alerting: Alerting) -> None:
    """A run from before is historical, one without events says so, an unknown one is None."""
    before = RunState(
        key=key(7),
        status=Status.FAILED,
        historical=True,
        confirmed_at=END,
        confirmed_by=failed().confirmed_by,
    )
    await alerting.happen(before)
    assert (await alerting.explain(before)).reason is StepOutcome.HISTORICAL
    await alerting.bus.commit(Change(runs=(failed(8),)), timeout_seconds=5)
    assert (await alerting.explain(failed(8))).reason is StepOutcome.NO_EVENT
    assert await alerting.explainer.run(RunKey("acme", RunKind.JOB_GROUP, "404")) is None
    assert await alerting.explainer.alert("0" * 16) is None


async def test_a_restart_loses_no_answer(alerting: Alerting) -> None:
    """Each alert that fired, or is held back, is explained from the store alone."""
    await alerting.happen(failed(1))
    await alerting.happen(failed(2))
    again = Engine(
        bus=alerting.bus,
        view=alerting.live_state.view,
        clock=alerting.clock,
        settings=AlertingSettings(rules=(FAILED,)),
        retention=Retention(),
        guard=call_at_once,
    )
    await again.restore()
    explainer = Explainer(
        bus=alerting.bus, view=alerting.live_state.view, engine=again, outputs=dict
    )
    first = await explainer.run(failed(1).key)
    second = await explainer.run(failed(2).key)
    assert first is not None
    assert second is not None
    assert (first.reason, second.reason) == (
        StepOutcome.NO_OUTPUT,  # as before, but for its outputs
        StepOutcome.DEDUPLICATED,
    )


async def test_many_rules_that_do_not_match_are_counted(alerting: Alerting) -> None:
    """A thousand rules about others do not bury the answer."""
    others = [
        RuleSettings(
            name=f"rule-{number}", rule=RuleKind.RUN_FAILED, match=Match(pipeline=(f"p{number}",))
        )
        for number in range(1_000)
    ]
    await alerting.use(*DEFAULT_RULES, *others)
    await alerting.happen(failed())
    explanation = await alerting.explain(failed())
    assert len(explanation.steps) < 80
    assert explanation.steps[-1].stage is ExplanationStage.DELIVERY
    assert any(step.detail.startswith("950 more rules") for step in explanation.steps)
