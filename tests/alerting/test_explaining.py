"""Whoever heard nothing can ask why: by a real engine on a real store, for each step."""

from __future__ import annotations

from collections.abc import AsyncIterator
from datetime import timedelta
from pathlib import Path

import pytest

from monitor.alerting.engine.engine import Engine
from monitor.alerting.explain.explainer import Explainer
from monitor.alerting.explain.explanations import ExplanationStage, StepOutcome
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
from tests.alerting.asking_scene import FAILED, Alerting, alerting_in, call_at_once, failed
from tests.alerting.run_stories import END, key, state


@pytest.fixture
async def alerting(tmp_path: Path) -> AsyncIterator[Alerting]:
    async with alerting_in(tmp_path) as scene:
        yield scene


async def test_a_told_failure_is_shown_from_sighting_to_delivery(alerting: Alerting) -> None:
    """The chain has every station, and the answer names the output that has it."""
    await alerting.happen(failed())
    newest = (await alerting.bus.status()).newest_position
    await alerting.deliver("mqtt", newest)
    why = await alerting.why(failed())
    assert (why.answer, why.swallowed_by) == ("run acme:job_group:1 was told through mqtt", None)
    stages = [step.stage for step in why.steps]
    assert list(dict.fromkeys(stages)) == list(ExplanationStage)
    (alert,) = why.alerts
    of_alert = await alerting.explainer.alert(alert.fingerprint)
    assert of_alert is not None
    assert of_alert.swallowed_by is None
    assert of_alert.answer == f"alert run_failed ({alert.fingerprint}) was told through mqtt"
    assert of_alert.steps[0].event == "acme:job_group:1:failed"


async def test_no_matching_rule(alerting: Alerting) -> None:
    """The field that does not fit is named."""
    await alerting.use(
        RuleSettings(name="sales", rule=RuleKind.RUN_FAILED, match=Match(pipeline=("sales*",)))
    )
    await alerting.happen(failed())
    why = await alerting.why(failed())
    assert why.swallowed_by is StepOutcome.NO_MATCHING_RULE
    assert any("pipeline: 'orders'" in step.detail for step in why.steps)


async def test_nothing_wrong_by_any_rule(alerting: Alerting) -> None:
    """Three in a row are wanted, and this was the first."""
    await alerting.use(
        RuleSettings(name="often", rule=RuleKind.FAILING_REPEATEDLY, threshold=3.0, minimum=4)
    )
    await alerting.happen(failed())
    why = await alerting.why(failed())
    assert why.swallowed_by is StepOutcome.NOT_WRONG
    assert "found nothing wrong" in why.steps[2].detail


async def test_pending_and_over_before_its_time(alerting: Alerting) -> None:
    """Until when it must last is told; if it did not, that is told too."""
    await alerting.use(RuleSettings(name="run_failed", rule=RuleKind.RUN_FAILED, for_seconds=300.0))
    await alerting.happen(failed())
    why = await alerting.why(failed())
    assert why.swallowed_by is StepOutcome.PENDING
    assert "it is told when it lasts for 300 s, at 2026-11-21 10:05:01 UTC" in why.answer
    await alerting.happen(state(2, Status.SUCCEEDED, finished_at=END + timedelta(seconds=60)))
    why = await alerting.why(failed())
    assert (why.swallowed_by, "it was over before its time" in why.answer) == (
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
    why = await alerting.why(failed())
    assert why.swallowed_by is StepOutcome.SILENCED
    assert "silence 5d3c of ann until 2026-11-21 12:00:00 UTC" in why.answer
    assert "planned reload" in why.answer


async def test_muted(alerting: Alerting) -> None:
    """The rule's own mute times are named; the day is a Saturday."""
    await alerting.use(RuleSettings(name="run_failed", rule=RuleKind.RUN_FAILED, mute=("Sat UTC",)))
    await alerting.happen(failed())
    why = await alerting.why(failed())
    assert (why.swallowed_by, "mute times" in why.answer) == (StepOutcome.MUTED, True)


async def test_inhibited(alerting: Alerting) -> None:
    """What an unreachable workspace explains names the alert that does."""
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
    why = await alerting.why(run)
    (away,) = [alert for alert in alerting.engine.picture().alerts if alert.name == "away"]
    assert why.swallowed_by is StepOutcome.INHIBITED
    assert f"alert {away.fingerprint} explains it" in why.answer


async def test_deduplicated(alerting: Alerting) -> None:
    """The second failure is evidence of what was told at the first."""
    await alerting.happen(failed(1))
    await alerting.happen(failed(2))
    assert (await alerting.why(failed(1))).swallowed_by is StepOutcome.WAITING
    why = await alerting.why(failed(2))
    assert why.swallowed_by is StepOutcome.DEDUPLICATED
    assert "more evidence of it (2 in all)" in why.answer


async def test_waiting_in_an_output_and_refused_by_it(alerting: Alerting) -> None:
    """An output that is behind is named with how many are in front; a refusal with its reason."""
    await alerting.happen(failed())
    why = await alerting.why(failed())
    assert why.swallowed_by is StepOutcome.WAITING
    assert why.answer.endswith("alert.fired waits in mqtt, 1 before it")
    (told,) = await alerting.bus.events(after=1, limit=1)
    letter = DeadLetter(
        position=told.position, event=told.event, reason="too large", refused_at=END
    )
    step = Step(consumer="mqtt", position=told.position, dead_letters=(letter,))
    await alerting.bus.advance(step, timeout_seconds=5)
    why = await alerting.why(failed())
    assert (why.swallowed_by, "too large" in why.answer) == (StepOutcome.REFUSED, True)


async def test_not_judged_yet(alerting: Alerting) -> None:
    """An event that alerting has not come to is no event that it found harmless."""
    await alerting.happen(failed(), judged=False)
    assert (await alerting.why(failed())).swallowed_by is StepOutcome.NOT_JUDGED


async def test_a_run_inside_another_is_told_as_that_one(alerting: Alerting) -> None:
    """The alert of the outermost run is shown for the run inside it."""
    plan = state(5, Status.RUNNING, kind=RunKind.PLAN_RUN)
    inside = failed(1, parents=Parents(plan_run="5"))
    await alerting.happen(plan, inside)
    why = await alerting.why(inside)
    (inner,) = [step for step in why.steps if step.word is StepOutcome.INSIDE]
    assert inner.detail.startswith("it is part of acme:plan_run:5")
    (alert,) = why.alerts
    assert (alert.kind, why.swallowed_by) == (RunKind.PLAN_RUN, StepOutcome.WAITING)


async def test_a_parent_that_became_known_later_is_evidence_of_what_was_told(
    alerting: Alerting,
) -> None:
    """The flow run was told; its plan's failure belongs to that, and both say so."""
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
    for run, swallowed_by in ((linked, StepOutcome.WAITING), (plan_run, StepOutcome.DEDUPLICATED)):
        why = await alerting.why(run)
        assert (why.swallowed_by, len(why.alerts)) == (swallowed_by, 1), why.answer


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
    assert (await alerting.why(before)).swallowed_by is StepOutcome.HISTORICAL
    await alerting.bus.commit(Change(runs=(failed(8),)), timeout_seconds=5)
    assert (await alerting.why(failed(8))).swallowed_by is StepOutcome.NO_EVENT
    assert await alerting.explainer.run(RunKey("acme", RunKind.JOB_GROUP, "404")) is None
    assert await alerting.explainer.alert("0" * 16) is None


async def test_a_restart_forgets_no_answer(alerting: Alerting) -> None:
    """What was told, or is held back, is explained from the store alone."""
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
    assert (first.swallowed_by, second.swallowed_by) == (None, StepOutcome.DEDUPLICATED)


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
    why = await alerting.why(failed())
    assert len(why.steps) < 80
    assert why.steps[-1].stage is ExplanationStage.DELIVERY
    assert any(step.detail.startswith("950 more rules") for step in why.steps)
