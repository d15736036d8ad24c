"""Where a workspace never shows what a rule needs, its condition is unknown, not unmet."""

from __future__ import annotations

from collections.abc import AsyncIterator
from datetime import timedelta
from pathlib import Path

import msgspec
import pytest

from monitor.alerting.explain.explanation import Explanation, StepOutcome
from monitor.alerting.rules.rule_settings import RuleKind
from monitor.alerting.rules.table import DEFAULT_RULES, default_rule
from monitor.model.runs import JobDetails, PipelineKind, RunState, Status
from tests.alerting.explain_scenario import CAPABILITIES, FAILED, Alerting, alerting_in, failed
from tests.alerting.run_samples import END, active, state


@pytest.fixture
async def alerting(tmp_path: Path) -> AsyncIterator[Alerting]:
    async with alerting_in(tmp_path) as scenario:
        yield scenario


def lack(alerting: Alerting, *capabilities: str, edition: str = "LE") -> None:
    left = CAPABILITIES.difference(capabilities)
    alerting.live_state.update_workspace("acme", capabilities=left, edition=edition)


async def explained(alerting: Alerting) -> Explanation:
    """Explain a flow without any events, by the default rules."""
    await alerting.use(*DEFAULT_RULES)
    alerting.live_state.name_pipeline("acme", PipelineKind.FLOW, "7", "orders")
    explanation = await alerting.explainer.pipeline("acme", PipelineKind.FLOW, "7")
    assert explanation is not None
    return explanation


def outcome(explanation: Explanation, rule: str) -> tuple[StepOutcome, str]:
    return next(
        (step.outcome, step.detail)
        for step in reversed(explanation.steps)
        if step.rule == rule and step.event_id is None
    )


async def running(alerting: Alerting, jobs: JobDetails | None, *, hours: float = 3) -> Explanation:
    """Explain a job group with such job records, active for so long."""
    begun = END - timedelta(hours=hours)
    run: RunState = state(1, Status.RUNNING, created_at=begun, started_at=begun, jobs=jobs)
    alerting.live_state.active[run.key] = active(run)
    await alerting.use(default_rule(RuleKind.RUN_STUCK))
    await alerting.happen(run)
    return await alerting.explain(run)


async def test_schedules_that_are_never_shown_are_not_met(alerting: Alerting) -> None:
    """Unless the rule itself says what is expected."""
    assert (await explained(alerting)).reason is StepOutcome.CONDITION_NOT_MET
    lack(alerting, "read_schedules")
    explanation = await explained(alerting)
    why = "edition LE lists no schedules"
    assert outcome(explanation, "schedule_missed") == (StepOutcome.UNKNOWN, why)
    assert explanation.reason is StepOutcome.UNKNOWN
    assert explanation.answer.endswith(f"not notified, unknown: rule schedule_missed: {why}")

    own = msgspec.structs.replace(default_rule(RuleKind.SCHEDULE_MISSED), expect="0 30 6 * * ?")
    await alerting.use(own)
    answer = await alerting.explainer.pipeline("acme", PipelineKind.FLOW, "7")
    assert answer is not None
    assert outcome(answer, "schedule_missed")[0] is StepOutcome.CONDITION_NOT_MET


async def test_runs_that_are_never_shown_are_not_well(alerting: Alerting) -> None:
    """Of an edition without runs nothing is known; of one without lists, what is named."""
    lack(alerting, "list_changes")
    explanation = await explained(alerting)
    assert explanation.reason is StepOutcome.UNKNOWN
    assert (
        "only those are followed that a callback, `track` or the configuration names"
        in explanation.answer
    )
    run = state(1, Status.RUNNING, created_at=END, started_at=END)
    alerting.live_state.active[run.key] = active(run)
    await alerting.happen(run)
    # That very run is followed.
    assert (await alerting.explain(run)).reason is StepOutcome.CONDITION_NOT_MET
    lack(alerting, "list_changes", "follow_by_id", edition="PC")
    why = "edition PC lists no runs"
    assert outcome(await explained(alerting), "run_failed") == (StepOutcome.UNKNOWN, why)


async def test_a_run_without_progress_is_not_judged_by_run_stuck(alerting: Alerting) -> None:
    """Job records that are not shown, or that show neither heartbeat nor percentage."""
    silent = await running(alerting, JobDetails(read_at=END))
    why = "job records show neither heartbeat nor percentage"
    assert outcome(silent, "run_stuck") == (StepOutcome.UNKNOWN, why)
    moving = await running(alerting, JobDetails(read_at=END, percent_complete=10.0))
    assert outcome(moving, "run_stuck")[0] is not StepOutcome.UNKNOWN
    begun = await running(alerting, JobDetails(read_at=END), hours=0)
    assert outcome(begun, "run_stuck")[0] is not StepOutcome.UNKNOWN  # it may show nothing yet
    lack(alerting, "read_jobs", edition="PC")
    hidden = await running(alerting, None)
    why = "edition PC shows no job records"
    assert outcome(hidden, "run_stuck") == (StepOutcome.UNKNOWN, why)


async def test_a_judged_failure_is_explained_in_any_edition(
    alerting: Alerting,
) -> None:
    """A failure that fired is explained by its alert in any edition."""
    await alerting.happen(failed(1))
    lack(alerting, "list_changes", "follow_by_id")
    assert (await alerting.explain(failed(1))).reason is StepOutcome.WAITING


async def test_a_muted_alert_says_by_which_times_and_that_it_is_over(alerting: Alerting) -> None:
    """An alert that ended within the mute times is not held back any more."""
    await alerting.use(msgspec.structs.replace(FAILED, mute=("Sat UTC",)))
    await alerting.happen(failed(1))
    assert (await alerting.explain(failed(1))).answer.endswith(
        "within the rule's mute times (Sat UTC)"
    )
    await alerting.happen(state(2, Status.SUCCEEDED, finished_at=END + timedelta(minutes=1)))
    explanation = await alerting.explain(failed(1))
    assert explanation.reason is StepOutcome.MUTED
    assert "firing from 2026-11-21 10:00:01 UTC, resolved " in explanation.answer
    assert explanation.answer.endswith(
        "within the rule's mute times (Sat UTC); it ended before anybody was notified"
    )
