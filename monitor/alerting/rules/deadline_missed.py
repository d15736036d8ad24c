"""deadline_missed: a flow or plan has not succeeded by a time of the day.

It is judged as of the last complete poll: an outage is no missed deadline, and a success that is
seen late meets the deadline if it ended in time.
"""

from __future__ import annotations

from datetime import datetime

from monitor.alerting.rules.contract import (
    OUTAGES,
    EvaluationResult,
    EventInput,
    Facts,
    Firing,
    FlowOrPlanFacts,
    Ok,
    OverWhenSeen,
    RuleAnswer,
    RuleDefinition,
    StateInput,
    SubjectKind,
)
from monitor.alerting.rules.deadlines import (
    EVENT_TYPES,
    AwaitedDeadlines,
    CountedSuccess,
    DecidedDeadlines,
    deadline_of,
    decided,
    first_awaited,
    known_successes,
    not_judged,
    terms_of,
    with_event,
)
from monitor.alerting.rules.rule_settings import RuleKind, RuleSettings
from monitor.model.alerts import Severity
from monitor.model.words import iso
from monitor.schedules.daily_deadlines import Deadline

_IN_TIME = "a success that ended in time was seen later"


def on_event(
    event_input: EventInput, memory: AwaitedDeadlines | None, rule: RuleSettings
) -> RuleAnswer[AwaitedDeadlines]:
    """Keep what the event says of a success until the next evaluation."""
    return RuleAnswer(None, None if memory is None else with_event(memory, event_input, rule))


def evaluate(
    state: StateInput[FlowOrPlanFacts], memory: AwaitedDeadlines | None, rule: RuleSettings
) -> RuleAnswer[AwaitedDeadlines]:
    """Decide the deadlines until then, while the flow or plan exists."""
    facts, as_of = state.facts, state.as_of
    if as_of is None or rule.deadline is None or facts.is_deleted:
        return not_judged(state, memory)
    result: EvaluationResult | None = None
    if memory is None or memory.terms != terms_of(rule):
        # An alert of a memory that is gone, or by other terms, is over.
        memory, result = first_awaited(facts, rule, as_of=as_of, before=memory), Ok(at=as_of)
    after = decided(
        memory,
        known_successes(memory, facts, rule),
        deadline_of(rule),
        known_until=min(as_of, facts.ends_known_until or as_of),
    )
    return RuleAnswer(
        _result(after, as_of) or result,
        after.memory,
        again_at=_again_at(after, as_of),
        met=after.met,
    )


def _result(after: DecidedDeadlines, as_of: datetime) -> EvaluationResult | None:
    missed = after.memory.missed
    if after.ended is not None and after.was_missed is not None:
        return _over(after, after.was_missed, after.ended)
    if missed is None:
        return None
    return Firing(since=missed.at, as_of=as_of, facts=_facts(after.memory.missed_in_a_row, missed))


def _over(after: DecidedDeadlines, missed: Deadline, success: CountedSuccess) -> EvaluationResult:
    evidence = (success.event,) if success.event else ()
    if after.is_over_when_seen:
        facts = _facts(1, missed)
        return OverWhenSeen(since=missed.at, until=success.ended_at, evidence=evidence, facts=facts)
    if success.meets(missed):
        return Ok(at=missed.at, evidence=evidence, reason=_IN_TIME)
    return Ok(at=success.ended_at, evidence=evidence)


def _facts(missed_in_a_row: int, missed: Deadline) -> Facts:
    return {
        "deadline_at": iso(missed.at),
        "counts_from_at": iso(missed.opens_at),
        "missed": missed_in_a_row,
    }


def _again_at(after: DecidedDeadlines, as_of: datetime) -> datetime | None:
    if after.has_more:
        return as_of
    due = after.memory.next
    return None if due is None else max(due.at, as_of)


DEFINITION = RuleDefinition(
    rule=RuleKind.DEADLINE_MISSED,
    subject_kind=SubjectKind.FLOW_OR_PLAN,
    memory=AwaitedDeadlines,
    event_types=EVENT_TYPES,
    on_event=on_event,
    needs_memory=True,
    evaluate=evaluate,
    about="A pipeline has not succeeded by `deadline`; over at its next success.",
    is_default=False,
    has_deadline=True,
    severity=Severity.CRITICAL,
    summary="{pipeline} {is|was} late in {workspace}",
    description="The deadline was {deadline_at:time}, and no success {has come|had come} by then; "
    "late {deadline_at:since}.",
    template_fields=("deadline_at", "counts_from_at", "missed"),
    inhibited_by=OUTAGES,
)
