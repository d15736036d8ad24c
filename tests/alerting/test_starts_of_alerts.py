"""An alert starts after what it is about began to exist, whatever stamps are reported of it."""

from __future__ import annotations

from datetime import datetime, timedelta

import msgspec
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from monitor.alerting.rules.contract import Firing, FlowOrPlanFacts, ScheduleFacts, TokenFacts
from monitor.alerting.rules.rule_settings import RuleKind
from monitor.alerting.rules.run_failed import on_event
from monitor.alerting.rules.table import RULE_DEFINITIONS, default_rule
from monitor.model.live_state import PipelineHealth, Reachability, ScheduleKnown
from monitor.model.runs import EndBasis, Implausible, JobDetails, RunKind, Status
from tests.alerting.rule_evaluation import BEGAN, EvaluatedRule, at
from tests.alerting.run_samples import FLOW, event_input, run_event, state, state_input
from tests.alerting.test_workspace_rules import poll, status

LATE_RUN_RULES = (RuleKind.RUN_OVERDUE, RuleKind.QUEUE_SLOW, RuleKind.RUN_STUCK)
DAY = 86_400.0
INSTANTS = st.integers(-200_000, 200_000).map(at)


@given(
    kind=st.sampled_from(LATE_RUN_RULES),
    run_kind=st.sampled_from(RunKind),
    run_status=st.sampled_from([Status.PENDING, Status.RUNNING]),
    created_at=INSTANTS,
    started_at=st.none() | INSTANTS,
    heartbeat_at=st.none() | INSTANTS,
    as_of=INSTANTS,
)
@example(
    kind=RuleKind.RUN_STUCK,
    run_kind=RunKind.JOB_GROUP,
    run_status=Status.RUNNING,
    created_at=at(0),
    started_at=None,
    heartbeat_at=at(-90_000),
    as_of=at(10),
)
@example(
    kind=RuleKind.RUN_OVERDUE,
    run_kind=RunKind.JOB_GROUP,
    run_status=Status.RUNNING,
    created_at=at(0),
    started_at=at(-90_000),
    heartbeat_at=None,
    as_of=at(10),
)
def test_an_active_run_is_not_late_before_it_was_created(
    *,
    kind: RuleKind,
    run_kind: RunKind,
    run_status: Status,
    created_at: datetime,
    started_at: datetime | None,
    heartbeat_at: datetime | None,
    as_of: datetime,
) -> None:
    """Heartbeats and starts are stamps of other machines, whose clocks may be late."""
    jobs = JobDetails(percent_complete=4.0, heartbeat_at=heartbeat_at, read_at=as_of)
    run = state(
        1, run_status, kind=run_kind, created_at=created_at, started_at=started_at, jobs=jobs
    )
    run = msgspec.structs.replace(run, unfinished_at=as_of)
    evaluate = RULE_DEFINITIONS[kind].evaluate
    assert evaluate is not None
    given_state = state_input(run, as_of=as_of, kind=run_kind, limit=600.0)
    result = evaluate(given_state, None, default_rule(kind)).result
    assert not isinstance(result, Firing) or result.since >= created_at


@given(finished_at=INSTANTS, created_at=INSTANTS, seen_after=st.integers(0, 9_000))
def test_a_failure_is_not_older_than_its_run(
    *, finished_at: datetime, created_at: datetime, seen_after: int
) -> None:
    """An end that is reported before the creation is marked, and counts from when it was seen."""
    run = msgspec.structs.replace(
        state(1, Status.FAILED, created_at=created_at, finished_at=finished_at),
        started_at=None,
        finished_by=EndBasis.REPORTED,
        end_seen_at=max(created_at, finished_at) + timedelta(seconds=seen_after),
        implausible=(Implausible.ENDS_BEFORE_START,) if finished_at < created_at else (),
    )
    result = on_event(event_input(run_event(run)), None, default_rule(RuleKind.RUN_FAILED)).result
    assert isinstance(result, Firing)
    assert result.since >= created_at


@given(
    created=st.integers(-200, 10_000),
    lifetime=st.integers(1, 100 * 86_400),
    threshold=st.integers(1, 50 * 86_400),
    used=st.floats(0, 1),
)
@example(created=0, lifetime=3_600, threshold=14 * 86_400, used=0.1)
def test_a_token_does_not_expire_soon_before_it_was_made(
    created: int, lifetime: int, threshold: int, used: float
) -> None:
    """A token that lives for an hour is over the threshold from its first moment on."""
    rule = EvaluatedRule(RuleKind.TOKEN_EXPIRING, thing="7", threshold=float(threshold))
    facts = TokenFacts(
        expires_at=at(created + lifetime), created_at=at(created), until=at(200 * DAY)
    )
    if rule.evaluate(facts, created + used * lifetime) == "firing":
        assert at(created) <= rule.firing.since <= rule.firing.as_of


@given(
    created=st.integers(-1_000, 1_000),
    read_after=st.integers(0, 500),
    updates=st.lists(st.tuples(st.booleans(), st.integers(0, 900)), max_size=6),
)
def test_a_schedule_is_not_disabled_before_it_was_made(
    created: int, read_after: int, updates: list[tuple[bool, int]]
) -> None:
    """Whatever reads show of it, and however late they are."""
    rule = EvaluatedRule(RuleKind.SCHEDULE_DISABLED, thing="s1")
    updated = created
    for is_enabled, seconds in [(True, 0), *updates]:
        updated += seconds
        schedule = ScheduleKnown(
            id="s1",
            name="nightly",
            is_enabled=is_enabled,
            triggers=(),
            pipelines=(FLOW,),
            created_at=at(created),
            updated_at=at(updated),
        )
        read = updated + read_after
        if rule.evaluate(ScheduleFacts(schedule=schedule, read_at=at(read)), read) == "firing":
            assert rule.firing.since >= at(created)


@given(ages=st.lists(st.integers(1, 5_000), min_size=1, max_size=8))
def test_a_pipeline_without_success_is_not_stale_before_it_is_known(ages: list[int]) -> None:
    """Its age counts from when it was first seen to have run, while it was followed."""
    rule = EvaluatedRule(RuleKind.NOT_FRESH, threshold=1_000.0)
    ran = PipelineHealth(workspace="marketing", run_kind=RunKind.FLOW_RUN, pipeline=FLOW)
    now = 0.0
    for seconds in ages:
        now += seconds
        if rule.evaluate(FlowOrPlanFacts(pipeline_health=(ran,)), now) == "firing":
            assert rule.firing.since >= at(ages[0])


@pytest.mark.parametrize(
    "kind",
    [RuleKind.WORKSPACE_UNREACHABLE, RuleKind.CALLBACKS_MISSED, RuleKind.BUDGET_EXHAUSTED],
)
def test_a_workspace_is_in_no_trouble_before_it_is_followed(kind: RuleKind) -> None:
    """Trouble that was there at the first observation starts then."""
    rule = EvaluatedRule(kind)
    rule.first_evaluated_at = None
    late = poll("budget", -9_000, name="names")
    trouble = status(Reachability.UNREACHABLE, late, callbacks_missed=9, reason="no answer")
    for seconds in (0, 600, 1_200):
        later = msgspec.structs.replace(late, last_attempt_at=at(seconds - 5))
        seen = msgspec.structs.replace(trouble, polls=(later,))
        if rule.evaluate(seen, seconds) == "firing":
            assert rule.firing.since >= BEGAN
