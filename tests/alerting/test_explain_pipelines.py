"""A flow or plan is explained, also where no run came."""

from __future__ import annotations

from collections.abc import AsyncIterator
from datetime import timedelta
from pathlib import Path

import msgspec
import pytest

from monitor.alerting.explain.explanation import StepOutcome
from monitor.alerting.rules.rule_settings import RuleKind, RuleSettings
from monitor.alerting.rules.table import DEFAULT_RULES
from monitor.bus.contract import Change
from monitor.model.live_state import Reachability, RefusedCapability
from monitor.model.runs import (
    Parents,
    Pipeline,
    PipelineKind,
    RunKind,
    Status,
)
from tests.alerting.explain_scenario import Alerting, alerting_in, failed
from tests.alerting.run_samples import END, state

HOUR = timedelta(hours=1)


@pytest.fixture
async def alerting(tmp_path: Path) -> AsyncIterator[Alerting]:
    async with alerting_in(tmp_path) as scenario:
        yield scenario


async def test_a_pipeline_is_explained_without_any_run(alerting: Alerting) -> None:
    """A pipeline that never ran has no run to ask for: each rule says what it finds of the flow."""
    await alerting.use(*DEFAULT_RULES)
    flow = failed().pipeline
    assert flow is not None
    explain = alerting.explainer.pipeline
    assert await explain("acme", flow.kind, flow.id) is None
    alerting.live_state.name_pipeline("acme", flow.kind, flow.id, flow.name)
    explanation = await explain("acme", flow.kind, flow.id)
    assert explanation is not None
    assert explanation.reason is StepOutcome.CONDITION_NOT_MET
    assert {"schedule_missed", "not_fresh"} <= {step.rule for step in explanation.steps}
    await alerting.happen(failed(1))
    await alerting.happen(failed(2))
    explanation = await explain("acme", flow.kind, flow.id)
    assert explanation is not None
    assert explanation.subject == "flow 7 (orders) of acme"
    assert (explanation.reason, len(explanation.alerts)) == (StepOutcome.WAITING, 1)


async def test_an_explanation_names_until_when_the_workspace_allows_no_requests(
    alerting: Alerting,
) -> None:
    """A workspace that is unreachable is named with what it said, not only as that."""
    flow = failed().pipeline
    assert flow is not None
    alerting.live_state.name_pipeline("acme", flow.kind, flow.id, flow.name)
    reason = "changes: listJobLibrary: the workspace allows no requests until 11:00:03Z"
    alerting.live_state.update_workspace(
        "acme", reachability=Reachability.UNREACHABLE, reason=reason
    )
    explanation = await alerting.explainer.pipeline("acme", flow.kind, flow.id)

    assert explanation is not None
    assert f"the workspace is unreachable: {reason}" in explanation.answer


async def test_an_unseen_pipeline_is_not_explained_as_healthy(alerting: Alerting) -> None:
    """While job groups are unwatched, a pipeline is unknown, and an open alert unjudged."""
    flow = failed().pipeline
    assert flow is not None
    alerting.live_state.name_pipeline("acme", flow.kind, flow.id, flow.name)
    refused = RefusedCapability(
        capability="list_changes", since=END, reason="rights withdrawn", unwatched=("job_group",)
    )
    alerting.live_state.update_workspace("acme", refused=(refused,))
    explanation = await alerting.explainer.pipeline("acme", flow.kind, flow.id)
    assert explanation is not None
    assert explanation.reason is StepOutcome.UNKNOWN
    assert "nothing new is seen of job_group now: rights withdrawn" in explanation.answer

    await alerting.happen(failed(1))
    (alert,) = (await alerting.explain(failed(1))).alerts
    unjudged = f"alert run_failed ({alert.fingerprint}) cannot be judged now: rights withdrawn"
    explained = await alerting.explainer.alert(alert.fingerprint)
    assert explained is not None
    assert explained.steps[-1].detail == unjudged
    assert explained.steps[-1].outcome is StepOutcome.UNKNOWN

    alerting.live_state.update_workspace("acme", refused=())
    explained = await alerting.explainer.alert(alert.fingerprint)
    assert explained is not None
    assert "cannot be judged" not in explained.answer


async def test_a_pipeline_whose_alert_is_resolved_names_it_and_its_outputs(
    alerting: Alerting,
) -> None:
    """The last alert answers, and a delivery that waits is named."""
    flow = failed().pipeline
    assert flow is not None
    alerting.live_state.name_pipeline("acme", flow.kind, flow.id, flow.name)
    await alerting.happen(failed(1))
    (alert,) = alerting.engine.snapshot().alerts
    await alerting.happen(state(2, Status.SUCCEEDED, finished_at=END + timedelta(minutes=1)))
    explanation = await alerting.explainer.pipeline("acme", flow.kind, flow.id)
    assert explanation is not None
    resolved = "resolved 2026-11-21 10:01:00 UTC"
    last = f"no open alert; last was alert run_failed ({alert.fingerprint}), {resolved}"
    assert explanation.answer == (
        f"flow 7 (orders) of acme: {last}: fired, but alert.resolved waits in mqtt "
        "after 3 other events"
    )
    assert explanation.reason is StepOutcome.WAITING
    newest = (await alerting.bus.status()).newest_position
    await alerting.deliver("mqtt", newest)
    explanation = await alerting.explainer.pipeline("acme", flow.kind, flow.id)
    assert explanation is not None
    assert (
        explanation.answer.endswith(f"{resolved}: notified through mqtt"),
        explanation.reason,
    ) == (
        True,
        None,
    )
    of_alert = await alerting.explainer.alert(alert.fingerprint)
    assert of_alert is not None
    assert of_alert.steps[-4:] == explanation.steps[-4:]
    assert [shown.fingerprint for shown in explanation.alerts] == [alert.fingerprint]


async def test_a_pipeline_names_an_alert_that_ended_while_pending(alerting: Alerting) -> None:
    """That it did not last long enough is why it was not notified."""
    flow = failed().pipeline
    assert flow is not None
    alerting.live_state.name_pipeline("acme", flow.kind, flow.id, flow.name)
    await alerting.use(RuleSettings(name="run_failed", rule=RuleKind.RUN_FAILED, for_seconds=300.0))
    await alerting.happen(failed(1))
    await alerting.happen(state(2, Status.SUCCEEDED, finished_at=END + timedelta(seconds=60)))
    explanation = await alerting.explainer.pipeline("acme", flow.kind, flow.id)
    assert explanation is not None
    assert explanation.reason is StepOutcome.PENDING
    assert ": no open alert; last was alert run_failed" in explanation.answer
    assert "it ended while it was pending" in explanation.answer


async def test_a_pipeline_whose_failure_is_evidence_elsewhere_is_not_healthy(
    alerting: Alerting,
) -> None:
    """A plan whose flow fired before the plan failed names the alert that it waits for."""
    flow_run = failed(1, kind=RunKind.FLOW_RUN)
    plan = Pipeline(kind=PipelineKind.PLAN, id="52", name="close")
    linked = msgspec.structs.replace(flow_run, parents=Parents(plan_run="5"))
    alerting.live_state.name_pipeline("acme", plan.kind, plan.id, plan.name)
    await alerting.happen(flow_run)
    await alerting.bus.commit(Change(runs=(linked,)), timeout_seconds=5)
    plan_run = failed(5, kind=RunKind.PLAN_RUN)
    await alerting.happen(msgspec.structs.replace(plan_run, pipeline=plan))
    explanation = await alerting.explainer.pipeline("acme", plan.kind, plan.id)
    assert explanation is not None
    assert (explanation.reason, [alert.kind for alert in explanation.alerts]) == (
        StepOutcome.INHIBITED,
        [RunKind.PLAN_RUN],
    )
    assert "inhibited by alert" in explanation.answer
    success = state(2, Status.SUCCEEDED, kind=RunKind.FLOW_RUN, finished_at=END + HOUR)
    await alerting.happen(success)
    await alerting.engine.evaluate()  # the plan still fails, so now its own alert fires
    last = await alerting.explainer.pipeline("acme", plan.kind, plan.id)
    assert last is not None
    assert (last.reason, last.alerts[0].fingerprint) == (
        StepOutcome.WAITING,
        explanation.alerts[0].fingerprint,
    )
