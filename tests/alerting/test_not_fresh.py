"""How old the last success of a flow or plan may be."""

from __future__ import annotations

import msgspec

from monitor.alerting.rules.contract import FlowOrPlanFacts, Ok
from monitor.alerting.rules.not_fresh import last_success
from monitor.alerting.rules.rule_settings import RuleKind
from monitor.model.live_state import PipelineHealth
from monitor.model.runs import RunKind, Status
from tests.alerting.rule_evaluation import EvaluatedRule, at
from tests.alerting.schedule_histories import FLOW
from tests.pipeline_healths import end_at, health_after

HOUR = 3_600.0


def health(
    kind: RunKind = RunKind.FLOW_RUN,
    *,
    success: float | None = None,
    finished: float | None = None,
    recipe: str | None = None,
) -> PipelineHealth:
    ends = [] if success is None else [end_at(at(success))]
    if finished is not None:
        ends.append(end_at(at(finished), Status.FAILED, run_id="2"))
    return health_after(*ends, workspace="marketing", kind=kind, pipeline=FLOW, recipe_id=recipe)


def facts(*pipeline_health: PipelineHealth, cadence: float | None = None) -> FlowOrPlanFacts:
    return FlowOrPlanFacts(pipeline_health=pipeline_health, cadence=cadence)


def test_a_pipeline_is_stale_when_its_last_success_is_too_old() -> None:
    """From when it grew too old until the next success; not evaluated sooner."""
    rule = EvaluatedRule(RuleKind.NOT_FRESH, threshold=HOUR)
    assert rule.evaluate(facts(health(success=0)), 60) == "ok"
    assert rule.again_at == at(HOUR)
    assert rule.evaluate(facts(health(success=0)), HOUR) == "firing"
    assert rule.firing.since == at(HOUR)
    assert rule.firing.facts == {
        "last_success_at": "2026-11-21T10:00:00Z",
        "no_success_since": "2026-11-21T10:00:00Z",
        "limit_seconds": HOUR,
    }
    assert rule.evaluate(facts(health(success=0, finished=HOUR + 50)), HOUR + 60) == "firing"
    assert rule.evaluate(facts(health(success=HOUR + 90)), HOUR + 100) == "ok"
    assert rule.last == Ok(at=at(HOUR + 90))


def test_without_a_limit_nothing_is_evaluated_until_one_is_learned() -> None:
    """The learned one counts where none is set; a set one wins."""
    rule = EvaluatedRule(RuleKind.NOT_FRESH)
    assert rule.evaluate(facts(health(success=0)), 30 * HOUR) == "none"
    assert rule.evaluate(facts(health(success=0), cadence=20 * HOUR), 30 * HOUR) == "firing"
    assert rule.firing.since == at(20 * HOUR)
    own = EvaluatedRule(RuleKind.NOT_FRESH, threshold=40 * HOUR)
    assert own.evaluate(facts(health(success=0), cadence=20 * HOUR), 30 * HOUR) == "ok"


def test_one_that_never_succeeded_counts_from_the_first_evaluation() -> None:
    """Its last success is unknown; what never ran is not evaluated."""
    rule = EvaluatedRule(RuleKind.NOT_FRESH, threshold=HOUR)
    assert rule.evaluate(facts(), 0) == "ok"
    assert rule.evaluate(facts(health(finished=10)), 100) == "none"
    assert rule.again_at == at(100 + HOUR)
    assert rule.evaluate(facts(health(finished=HOUR)), 100 + HOUR) == "firing"
    assert rule.firing.facts["last_success_at"] is None
    assert rule.evaluate(facts(), 200 + HOUR) == "ok"  # forgotten with the pipeline
    assert rule.memory_bytes == b""


def test_a_raised_limit_ends_what_never_succeeded() -> None:
    """A subject within the new limit resolves, and grows too old once more by that limit."""
    rule = EvaluatedRule(RuleKind.NOT_FRESH, threshold=HOUR)
    never = facts(health(finished=10))
    rule.evaluate(never, 0)
    assert rule.evaluate(never, HOUR) == "firing"
    rule.rule = msgspec.structs.replace(rule.rule, threshold=3 * HOUR)
    assert rule.evaluate(never, HOUR + 60) == "ok"
    assert rule.evaluate(never, HOUR + 120) == "none"
    assert rule.evaluate(never, 3 * HOUR) == "firing"
    assert rule.firing.since == at(3 * HOUR)


def test_while_runs_are_unknown_nothing_changes() -> None:
    """An outage makes nothing old, and nothing fresh."""
    rule = EvaluatedRule(RuleKind.NOT_FRESH, threshold=HOUR)
    rule.evaluate(facts(health(success=0)), 60)
    assert rule.evaluate(facts(health(success=0)), None) == "unknown"


def test_flow_runs_count_and_job_groups_where_they_ran_by_themselves() -> None:
    """A job group inside a flow run that failed is no success of the flow."""
    group = health(RunKind.JOB_GROUP, success=100, recipe="1")
    other = health(RunKind.JOB_GROUP, success=50, recipe="2")

    assert last_success([health(success=10, finished=120), group]) == at(10)
    assert last_success([health(success=10), group, other]) == at(100)
    assert last_success([group, other]) == at(100)
    assert last_success([health(finished=5)]) is None
    assert last_success([]) is None
