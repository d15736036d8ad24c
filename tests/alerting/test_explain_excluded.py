"""A rule that does not apply to a run, pipeline or workspace is named with what excludes it."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import msgspec
import pytest

from monitor.alerting.explain.explanation import Explanation, StepOutcome
from monitor.alerting.rules.rule_settings import Match, RuleKind, RuleSettings
from monitor.alerting.rules.table import DEFAULT_RULES, default_rule
from monitor.model.runs import PipelineKind, RunState, Status, Trigger
from tests.alerting.explain_scenario import FAILED, Alerting, alerting_in, failed
from tests.alerting.run_samples import END, active, state

SCHEDULED_ONLY = msgspec.structs.replace(FAILED, match=Match(trigger=("schedule",)))
WHY_MANUAL = "trigger: 'manual' fits none of 'schedule'"


@pytest.fixture
async def alerting(tmp_path: Path) -> AsyncIterator[Alerting]:
    async with alerting_in(tmp_path) as scenario:
        yield scenario


def by_hand(run: RunState) -> RunState:
    return msgspec.structs.replace(run, trigger=Trigger.MANUAL)


def with_rule(rule: RuleSettings) -> tuple[RuleSettings, ...]:
    """Return the default rules with this one in the place of the one of its name."""
    return (*(known for known in DEFAULT_RULES if known.name != rule.name), rule)


async def explained(alerting: Alerting, pipeline: str = "7") -> Explanation:
    explanation = await alerting.explainer.pipeline("acme", PipelineKind.FLOW, pipeline)
    assert explanation is not None
    return explanation


async def test_a_failure_that_match_excludes_names_the_rule_and_the_key(
    alerting: Alerting,
) -> None:
    """That failing_repeatedly matches, and needs more failures, is not why it was not notified."""
    await alerting.use(*with_rule(SCHEDULED_ONLY))
    run = by_hand(failed(1))
    await alerting.happen(run)

    explanation = await alerting.explain(run)
    assert explanation.reason is StepOutcome.NO_MATCHING_RULE
    assert explanation.answer == (
        f"run acme:job_group:1: not notified: rule run_failed does not apply ({WHY_MANUAL}), "
        "and no other rule's condition is met"
    )
    (step,) = [step for step in explanation.steps if step.rule == "run_failed"]
    assert (step.outcome, step.detail) == (StepOutcome.NO_MATCHING_RULE, WHY_MANUAL)


async def test_a_rule_that_excludes_beside_one_of_its_kind_is_no_reason(
    alerting: Alerting,
) -> None:
    """Of two rules about repeated failures the one that applies says why nothing fired."""
    often = default_rule(RuleKind.FAILING_REPEATEDLY)
    sales = msgspec.structs.replace(often, name="sales", match=Match(pipeline=("sales*",)))
    await alerting.use(often, sales)
    await alerting.happen(failed(1))

    explanation = await alerting.explain(failed(1))
    assert explanation.reason is StepOutcome.CONDITION_NOT_MET
    assert explanation.answer.endswith("not notified: no rule's condition is met")


async def test_an_active_run_that_match_excludes_is_late_for_no_rule(alerting: Alerting) -> None:
    """Rules about ends say nothing of it; the rule about late runs that leaves it out does."""
    overdue = msgspec.structs.replace(
        default_rule(RuleKind.RUN_OVERDUE), match=Match(trigger=("schedule",))
    )
    await alerting.use(*with_rule(overdue))
    run = by_hand(state(1, Status.RUNNING, created_at=END, started_at=END))
    alerting.live_state.active[run.key] = active(run)
    await alerting.happen(run)

    explanation = await alerting.explain(run)
    assert f"rule run_overdue does not apply ({WHY_MANUAL}), and no other" in explanation.answer
    assert explanation.reason is StepOutcome.CONDITION_NOT_MET


async def test_a_disabled_rule_is_named_as_disabled(alerting: Alerting) -> None:
    """It is no rule that does not exist, and no condition that was not met."""
    disabled = msgspec.structs.replace(FAILED, is_enabled=False)
    for rules, answer in (
        ((disabled,), "no rule about failures matches (run_failed: it is disabled)"),
        (
            with_rule(disabled),
            "rule run_failed does not apply (it is disabled), and no other rule's condition is met",
        ),
    ):
        await alerting.use(*rules)
        await alerting.happen(failed(1))
        explanation = await alerting.explain(failed(1))
        assert explanation.reason is StepOutcome.NO_MATCHING_RULE
        assert explanation.answer.endswith(f"not notified: {answer}")


@pytest.mark.parametrize(
    ("match", "why"),
    [
        (Match(workspace=("prod",)), "workspace: 'acme' fits none of 'prod'"),
        (Match(pipeline=("!ord*",)), "pipeline: 'orders' and '7' is excluded by '!ord*'"),
    ],
    ids=["workspace", "pipeline"],
)
async def test_a_pipeline_that_match_excludes_names_the_rule(
    alerting: Alerting, match: Match, why: str
) -> None:
    """Nothing that happens to it would fire that rule, whatever the others find now."""
    await alerting.use(*with_rule(msgspec.structs.replace(FAILED, match=match)))
    alerting.live_state.name_pipeline("acme", PipelineKind.FLOW, "7", "orders")

    explanation = await explained(alerting)
    assert f"rule run_failed does not apply ({why}), and no other rule's" in explanation.answer
    assert explanation.reason is StepOutcome.CONDITION_NOT_MET


async def test_a_workspace_that_every_rule_excludes_is_said(alerting: Alerting) -> None:
    """The first rule is named with its key, and the others are counted."""
    elsewhere = Match(workspace=("prod",))
    rules = (FAILED, default_rule(RuleKind.RUN_OVERDUE), default_rule(RuleKind.NOT_FRESH))
    await alerting.use(*(msgspec.structs.replace(rule, match=elsewhere) for rule in rules))
    alerting.live_state.name_pipeline("acme", PipelineKind.FLOW, "7", "orders")

    explanation = await explained(alerting)
    assert explanation.reason is StepOutcome.NO_MATCHING_RULE
    assert explanation.answer.endswith(
        "not notified: rule run_failed does not apply (workspace: 'acme' fits none of 'prod'), "
        "nor do 2 more"
    )
