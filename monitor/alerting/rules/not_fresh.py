"""not_fresh: a flow or plan has not succeeded for longer than a limit, set or learned."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta

from msgspec import Struct

from monitor.alerting.rules.contract import (
    DAY,
    OUTAGES,
    Firing,
    FlowOrPlanFacts,
    Ok,
    Quantity,
    RuleAnswer,
    RuleDefinition,
    StateInput,
    SubjectKind,
    Unknown,
    seconds,
)
from monitor.alerting.rules.rule_settings import RuleKind, RuleSettings
from monitor.model.live_state import PipelineHealth
from monitor.model.runs import RunKind
from monitor.model.words import iso


class Unproven(Struct, frozen=True, kw_only=True):
    """A pipeline that has run and has not succeeded while followed: its age counts from here."""

    since: datetime  # workspace time
    is_old: bool = False  # it was, at the last evaluation


def evaluate(
    state: StateInput[FlowOrPlanFacts], memory: Unproven | None, rule: RuleSettings
) -> RuleAnswer[Unproven]:
    """Compare the age of the last success with the limit that is set, else the learned one.

    A pipeline that is not known to have run is not evaluated.
    """
    facts, as_of = state.facts, state.as_of
    limit = rule.threshold or facts.cadence
    if as_of is None:
        return RuleAnswer(Unknown("runs were not yet read completely"), memory)
    if not facts.pipeline_health:
        return RuleAnswer(Ok(at=as_of))
    if limit is None:
        return RuleAnswer(None, memory)
    success_at = last_success(facts.pipeline_health)
    if success_at is None:
        memory = memory or Unproven(since=as_of)
        begin = memory.since
    else:
        memory, begin = None, success_at
    old_at = begin + timedelta(seconds=limit)
    if as_of < old_at:
        return _not_old(success_at, memory, as_of=as_of, old_at=old_at)
    if memory is not None:
        memory = Unproven(since=memory.since, is_old=True)
    result = Firing(
        since=old_at,
        as_of=as_of,
        facts={
            "last_success_at": None if success_at is None else iso(success_at),
            "no_success_since": iso(begin),
            "limit_seconds": limit,
        },
    )
    return RuleAnswer(result, memory)


def _not_old(
    success_at: datetime | None, memory: Unproven | None, *, as_of: datetime, old_at: datetime
) -> RuleAnswer[Unproven]:
    result = None if success_at is None else Ok(at=success_at)
    if memory is not None and memory.is_old:
        # It has counted from the same instant before: the limit was raised since.
        result, memory = Ok(at=as_of), Unproven(since=memory.since)
    return RuleAnswer(result, memory, again_at=old_at)


def last_success(pipeline_health: Sequence[PipelineHealth]) -> datetime | None:
    """Return when the flow or plan last succeeded, None where it never did.

    Flow runs and plan runs count, a job group where it ended after all of them: it ran by
    itself, or its flow run is not over. Of several recipes the newest success counts.
    """
    whole = [health for health in pipeline_health if health.run_kind is not RunKind.JOB_GROUP]
    finished = [health.last_finished_at for health in whole if health.last_finished_at is not None]
    finished_at = max(finished, default=None)
    successes = [health.last_success_at for health in whole]
    successes += [
        health.last_success_at
        for health in pipeline_health
        if health.run_kind is RunKind.JOB_GROUP
        and health.last_success_at is not None
        and (finished_at is None or health.last_success_at > finished_at)
    ]
    return max((at for at in successes if at is not None), default=None)


DEFINITION = RuleDefinition(
    rule=RuleKind.NOT_FRESH,
    subject_kind=SubjectKind.FLOW_OR_PLAN,
    memory=Unproven,
    evaluate=evaluate,
    about="A pipeline has not succeeded for longer than a time, or than it ever needs.",
    summary="{pipeline} {has|had} no fresh result in {workspace}",
    # Also where it has never succeeded since it is followed.
    description="No success {no_success_since:since}; {limit_seconds:duration} {is|was} the limit.",
    template_fields=("last_success_at", "no_success_since", "limit_seconds"),
    threshold=seconds(
        "seconds since the last success; without it three times its own cadence",
        None,
        most=400 * DAY,
    ),
    minimum=Quantity(
        about="successes that a cadence is learned from", default=10, least=10, most=200
    ),
    inhibited_by=OUTAGES,
)
