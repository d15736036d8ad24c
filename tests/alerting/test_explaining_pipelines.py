"""Whoever heard nothing of a flow or plan can ask why, also where no run came."""

from __future__ import annotations

from collections.abc import AsyncIterator
from datetime import timedelta
from pathlib import Path

import msgspec
import pytest

from monitor.alerting.explain.explanations import StepOutcome
from monitor.alerting.rules.rule_settings import RuleKind, RuleSettings
from monitor.alerting.rules.table import DEFAULT_RULES
from monitor.bus.contract import Change
from monitor.model.runs import (
    Parents,
    Pipeline,
    PipelineKind,
    RunKind,
    Status,
)
from tests.alerting.asking_scene import Alerting, alerting_in, failed
from tests.alerting.run_stories import END, state

HOUR = timedelta(hours=1)


@pytest.fixture
async def alerting(tmp_path: Path) -> AsyncIterator[Alerting]:
    async with alerting_in(tmp_path) as scene:
        yield scene


async def test_a_pipeline_is_explained_without_any_run(alerting: Alerting) -> None:
    """What never ran has no run to ask for: each rule says how it stands to the flow itself."""
    await alerting.use(*DEFAULT_RULES)
    flow = failed().pipeline
    assert flow is not None
    explain = alerting.explainer.pipeline
    assert await explain("acme", flow.kind, flow.id) is None
    alerting.live_state.name_pipeline("acme", flow.kind, flow.id, flow.name)
    quiet = await explain("acme", flow.kind, flow.id)
    assert quiet is not None
    assert quiet.swallowed_by is StepOutcome.NOT_WRONG
    assert {"schedule_missed", "not_fresh"} <= {step.rule for step in quiet.steps}
    await alerting.happen(failed(1))
    await alerting.happen(failed(2))
    told = await explain("acme", flow.kind, flow.id)
    assert told is not None
    assert told.about == "flow 7 (orders) of acme"
    assert (told.swallowed_by, len(told.alerts)) == (StepOutcome.WAITING, 1)


async def test_a_pipeline_whose_alert_is_over_names_it_and_who_has_it(alerting: Alerting) -> None:
    """Just after the end it is no flow of which nobody was told, and what waits is said to wait."""
    flow = failed().pipeline
    assert flow is not None
    alerting.live_state.name_pipeline("acme", flow.kind, flow.id, flow.name)
    await alerting.happen(failed(1))
    (alert,) = alerting.engine.picture().alerts
    await alerting.happen(state(2, Status.SUCCEEDED, finished_at=END + timedelta(minutes=1)))
    waits = await alerting.explainer.pipeline("acme", flow.kind, flow.id)
    assert waits is not None
    over_since = "over since 2026-11-21 10:01:00 UTC"
    named = f"the last, alert run_failed ({alert.fingerprint}), {over_since}, was told"
    assert waits.answer == (
        f"flow 7 (orders) of acme has no open alert; {named}, and alert.resolved waits in mqtt, "
        "3 before it"
    )
    assert waits.swallowed_by is StepOutcome.WAITING
    newest = (await alerting.bus.status()).newest_position
    await alerting.deliver("mqtt", newest)
    told = await alerting.explainer.pipeline("acme", flow.kind, flow.id)
    assert told is not None
    assert (told.answer.endswith(f"{over_since}, was told through mqtt"), told.swallowed_by) == (
        True,
        None,
    )
    of_alert = await alerting.explainer.alert(alert.fingerprint)
    assert of_alert is not None
    assert of_alert.steps[-4:] == told.steps[-4:]
    assert [other_alert.fingerprint for other_alert in told.alerts] == [alert.fingerprint]


async def test_a_pipeline_names_what_was_over_before_anybody_was_told(alerting: Alerting) -> None:
    """That it did not last for long enough is why nobody heard of it."""
    flow = failed().pipeline
    assert flow is not None
    alerting.live_state.name_pipeline("acme", flow.kind, flow.id, flow.name)
    await alerting.use(RuleSettings(name="run_failed", rule=RuleKind.RUN_FAILED, for_seconds=300.0))
    await alerting.happen(failed(1))
    await alerting.happen(state(2, Status.SUCCEEDED, finished_at=END + timedelta(seconds=60)))
    why = await alerting.explainer.pipeline("acme", flow.kind, flow.id)
    assert why is not None
    assert why.swallowed_by is StepOutcome.PENDING
    assert "has no open alert; the last, alert run_failed" in why.answer
    assert "it was over before its time" in why.answer


async def test_a_pipeline_that_is_told_as_another_is_no_healthy_one(alerting: Alerting) -> None:
    """A plan whose flow was told before the plan failed names the alert that has its failure."""
    flow_run = failed(1, kind=RunKind.FLOW_RUN)
    plan = Pipeline(kind=PipelineKind.PLAN, id="52", name="close")
    linked = msgspec.structs.replace(flow_run, parents=Parents(plan_run="5"))
    alerting.live_state.name_pipeline("acme", plan.kind, plan.id, plan.name)
    await alerting.happen(flow_run)
    await alerting.bus.commit(Change(runs=(linked,)), timeout_seconds=5)
    plan_run = failed(5, kind=RunKind.PLAN_RUN)
    await alerting.happen(msgspec.structs.replace(plan_run, pipeline=plan))
    told = await alerting.explainer.pipeline("acme", plan.kind, plan.id)
    assert told is not None
    assert (told.swallowed_by, [alert.kind for alert in told.alerts]) == (
        StepOutcome.DEDUPLICATED,
        [RunKind.FLOW_RUN],
    )
    assert "more evidence of it (2 in all)" in told.answer
    success = state(2, Status.SUCCEEDED, kind=RunKind.FLOW_RUN, finished_at=END + HOUR)
    await alerting.happen(success)
    over = await alerting.explainer.pipeline("acme", plan.kind, plan.id)
    assert over is not None
    assert (over.swallowed_by, over.alerts[0].fingerprint) == (
        StepOutcome.WAITING,
        told.alerts[0].fingerprint,
    )
