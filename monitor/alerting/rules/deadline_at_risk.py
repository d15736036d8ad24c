"""deadline_at_risk: a deadline is not missed yet, but what a run usually takes no longer fits.

It is over when the deadline is met or missed; from then on `deadline_missed` is about it.
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime, timedelta

from monitor.alerting.rules.contract import (
    OUTAGES,
    EvaluationResult,
    Firing,
    FlowOrPlanFacts,
    Ok,
    Quantity,
    RuleAnswer,
    RuleDefinition,
    StateInput,
    SubjectKind,
    seconds,
)
from monitor.alerting.rules.deadline_missed import on_event
from monitor.alerting.rules.deadline_settings import Counts
from monitor.alerting.rules.deadlines import (
    EVENT_TYPES,
    AwaitedDeadlines,
    deadline_of,
    decided,
    first_awaited,
    known_successes,
    not_judged,
    terms_of,
)
from monitor.alerting.rules.rule_settings import RuleKind, RuleSettings
from monitor.model.live_state import ActiveRun
from monitor.model.runs import RunKind
from monitor.model.words import iso
from monitor.schedules.daily_deadlines import Deadline


def evaluate(
    state: StateInput[FlowOrPlanFacts], memory: AwaitedDeadlines | None, rule: RuleSettings
) -> RuleAnswer[AwaitedDeadlines]:
    """Compare what is left until the next deadline with what a run usually takes."""
    facts, as_of = state.facts, state.as_of
    if as_of is None or rule.deadline is None or facts.is_deleted:
        return not_judged(state, memory)
    if memory is None or memory.terms != terms_of(rule):
        memory = first_awaited(facts, rule, as_of=as_of, before=None)
    after = decided(
        memory, known_successes(memory, facts, rule), deadline_of(rule), known_until=as_of
    )
    if after.has_more:
        return RuleAnswer(None, after.memory, again_at=as_of)
    due = after.memory.next
    if due is None:
        return RuleAnswer(Ok(at=as_of), after.memory)
    result = _at_risk(due, facts, rule, as_of=as_of)
    if result is None:
        usual = timedelta(seconds=rule.threshold or facts.usual_seconds or 0.0)
        again_at = due.at - usual if due.at - usual > as_of else due.at
        return RuleAnswer(_over(memory, after.memory, as_of), after.memory, again_at)
    return RuleAnswer(result, after.memory, again_at=due.at)


def _at_risk(
    due: Deadline, facts: FlowOrPlanFacts, rule: RuleSettings, *, as_of: datetime
) -> Firing | None:
    usual_seconds = rule.threshold or facts.usual_seconds
    if usual_seconds is None:
        return None
    usual = timedelta(seconds=usual_seconds)
    begun_at = min(_begun(facts.active, due, rule), default=None)
    latest_start = due.at - usual
    # One that began in time and takes longer than usual may still end at any moment.
    if as_of < latest_start or (begun_at is not None and begun_at <= latest_start):
        return None
    return Firing(
        since=begun_at or latest_start,
        as_of=as_of,
        facts={
            "deadline_at": iso(due.at),
            "limit_seconds": usual_seconds,
            "expected_end_at": None if begun_at is None else iso(begun_at + usual),
        },
    )


def _begun(active: Iterable[ActiveRun], due: Deadline, rule: RuleSettings) -> Iterable[datetime]:
    """Yield when runs began that may still meet the deadline."""
    for run in (known.run for known in active):
        begun_at = run.started_at or run.created_at
        is_part = run.key.kind is RunKind.JOB_GROUP and run.parents.flow_run is not None
        if begun_at is None or is_part:
            continue
        if rule.counts is Counts.ENDED or begun_at >= due.opens_at:
            yield begun_at


def _over(before: AwaitedDeadlines, after: AwaitedDeadlines, as_of: datetime) -> EvaluationResult:
    """Return since when the deadline is out of danger, or decided."""
    if before.next is not None and after.next != before.next:
        is_met = after.met == before.next
        return Ok(at=as_of) if is_met else Ok(at=before.next.at, reason="the deadline has passed")
    return Ok(at=as_of)


DEFINITION = RuleDefinition(
    rule=RuleKind.DEADLINE_AT_RISK,
    subject_kind=SubjectKind.FLOW_OR_PLAN,
    memory=AwaitedDeadlines,
    event_types=EVENT_TYPES,
    on_event=on_event,
    needs_memory=True,
    evaluate=evaluate,
    about="What a run of a pipeline usually takes no longer fits before `deadline`; over when the "
    "deadline is met or missed.",
    is_default=False,
    has_deadline=True,
    summary="{pipeline} {will|would} be late in {workspace}",
    description="A run usually {needs|needed} {limit_seconds:duration}, and the deadline "
    "{deadline_at:is|was}. {expected_end_at:The present one should end|The one that had "
    "started should have ended|None has started that counts}.",
    template_fields=("deadline_at", "limit_seconds", "expected_end_at"),
    threshold=seconds("seconds that a run takes; without it half of its runs took less", None),
    minimum=Quantity(
        about="runs that the usual time is learned from", default=10, least=10, most=200
    ),
    inhibited_by=OUTAGES,
)
