"""schedule_missed: a schedule should have started a run, and none came.

A missed start is evaluated when its grace is over as of the last complete poll, and the schedules
were read after it: an outage, or a schedule that was just switched off, is no missed start.
Of what was deleted nothing is expected, though its schedules may stay. Nor is anything on days off
by the rule, though a workspace knows no holidays and starts what its schedules name.
File and table watchers name no time, so nothing is missed of them; but what they start cannot be
distinguished from what the other triggers of the same schedule start.
"""

from __future__ import annotations

from datetime import datetime, timedelta

from monitor.alerting.rules.awaited_starts import (
    AwaitedStarts,
    expectation,
    first_awaited,
    match_starts,
    next_evaluation,
    with_run,
    with_schedules,
)
from monitor.alerting.rules.contract import (
    MINUTE,
    OUTAGES,
    PIPELINE_REMOVED,
    EventInput,
    Firing,
    FlowOrPlanFacts,
    Ok,
    RuleAnswer,
    RuleDefinition,
    StateInput,
    SubjectKind,
    Unknown,
    seconds,
)
from monitor.alerting.rules.rule_settings import RuleKind, RuleSettings
from monitor.model.alerts import Severity
from monitor.model.events import STATUS_EVENTS
from monitor.model.words import iso


def on_event(
    event_input: EventInput, memory: AwaitedStarts | None, _: RuleSettings
) -> RuleAnswer[AwaitedStarts]:
    """Remember a start until its expected time is evaluated."""
    if memory is not None:
        memory = with_run(memory, event_input.event.run, event=event_input.event)
    return RuleAnswer(None, memory)


def evaluate(
    state: StateInput[FlowOrPlanFacts], memory: AwaitedStarts | None, rule: RuleSettings
) -> RuleAnswer[AwaitedStarts]:
    """Evaluate what is expected of a flow or plan, while it exists and was read."""
    facts, as_of = state.facts, state.as_of
    read_at = facts.schedules_read_at if rule.expect is None else as_of
    if as_of is None or read_at is None:
        why = Unknown("runs and schedules were not yet read completely")
        return RuleAnswer(why if memory is not None else None, memory)
    if facts.is_deleted:
        over_for_good = Ok(at=read_at, reason=PIPELINE_REMOVED)
        return RuleAnswer(None if memory is None else over_for_good)
    return _evaluate(facts, memory, rule, as_of=as_of, read_at=read_at)


def _evaluate(
    facts: FlowOrPlanFacts,
    memory: AwaitedStarts | None,
    rule: RuleSettings,
    *,
    as_of: datetime,
    read_at: datetime,
) -> RuleAnswer[AwaitedStarts]:
    """Evaluate expected times whose grace is over, up to the first that changes the result."""
    grace = timedelta(seconds=rule.threshold)
    if memory is None or (memory.expect, memory.days_off) != (expectation(rule), rule.days_off):
        memory = first_awaited(facts, rule, as_of=as_of, read_at=read_at)
        again_at = None if memory is None else next_evaluation(memory, grace, as_of=as_of)
        # An alert of a memory that is gone, or of another expression, is over.
        return RuleAnswer(Ok(at=as_of), memory, again_at=again_at)
    memory = with_schedules(memory, facts, rule, read_at=read_at)
    if memory.is_over:
        return RuleAnswer(None)
    due_at = min(as_of - grace, read_at)
    if not (memory.missed or memory.starts or memory.is_due(due_at)):
        return RuleAnswer(None, memory, again_at=next_evaluation(memory, grace, as_of=as_of))
    for active in facts.active:
        # Its pipeline or trigger may have become known after its last event.
        memory = with_run(memory, active.run)
    after = match_starts(memory, as_of=as_of, due_at=due_at)
    again_at = as_of if after.has_more else next_evaluation(after.memory, grace, as_of=as_of)
    return RuleAnswer(after.ok or _firing(after.memory, as_of), after.memory, again_at)


def _firing(memory: AwaitedStarts, as_of: datetime) -> Firing | None:
    if not memory.missed:
        return None
    first = memory.missed[0]
    return Firing(
        since=first.at,
        as_of=as_of,
        facts={
            "schedule": first.schedules,
            "expected_at": iso(first.at),
            "missed": len(memory.missed),
        },
    )


DEFINITION = RuleDefinition(
    rule=RuleKind.SCHEDULE_MISSED,
    subject_kind=SubjectKind.FLOW_OR_PLAN,
    memory=AwaitedStarts,
    event_types=tuple(STATUS_EVENTS.values()),
    on_event=on_event,
    needs_memory=True,
    evaluate=evaluate,
    about="A schedule should have fired, and no run came within grace.",
    severity=Severity.CRITICAL,
    summary="{pipeline} did not start in {workspace}",
    description="Schedule {schedule} was due at {expected_at:time}, and no run {has come|came in "
    "time}.",
    template_fields=("schedule", "expected_at", "missed"),
    threshold=seconds("seconds of grace after the expected time", 10 * MINUTE),
    may_expect=True,
    inhibited_by=OUTAGES,
)
