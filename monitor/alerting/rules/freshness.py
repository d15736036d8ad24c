"""Rules about how long ago a pipeline last succeeded."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta

from msgspec import Struct

from monitor.alerting.rules.contract import (
    AnyRuleDefinition,
    Firing,
    Ok,
    RuleAnswer,
    RuleDefinition,
    StateInput,
    SubjectKind,
    Unknown,
)
from monitor.alerting.rules.facts import FlowOrPlanFacts
from monitor.alerting.rules.instants import written
from monitor.alerting.settings.rules import RuleKind, RuleSettings
from monitor.model.live_state import PipelineHealth
from monitor.model.runs import RunKind


class Unproven(Struct, frozen=True, kw_only=True):
    """A pipeline that has run and was never seen to succeed: its age counts from here."""

    since: datetime  # workspace time
    is_old: bool = False  # it was, when last looked at


def evaluate_age(
    looked: StateInput[FlowOrPlanFacts], memory: Unproven | None, rule: RuleSettings
) -> RuleAnswer[Unproven]:
    """Judge the age of the last success against the limit that is set, else the learned one.

    A pipeline that is not known to have run is no matter of this rule.
    """
    facts, as_of = looked.facts, looked.as_of
    limit = rule.threshold or facts.cadence
    if as_of is None:
        return RuleAnswer(result=Unknown(why="runs were not yet read completely"), memory=memory)
    if not facts.pipeline_health:
        return RuleAnswer(result=Ok(at=as_of))
    if limit is None:
        return RuleAnswer(result=None, memory=memory)
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
    wrong = Firing(
        since=old_at,
        as_of=as_of,
        facts={
            "last_success_at": None if success_at is None else written(success_at),
            "age_seconds": (as_of - begin).total_seconds(),
            "limit_seconds": limit,
        },
    )
    return RuleAnswer(result=wrong, memory=memory)


def _not_old(
    success_at: datetime | None, memory: Unproven | None, *, as_of: datetime, old_at: datetime
) -> RuleAnswer[Unproven]:
    result = None if success_at is None else Ok(at=success_at)
    if memory is not None and memory.is_old:
        # It has counted from the same instant before: the limit was raised since.
        result, memory = Ok(at=as_of), Unproven(since=memory.since)
    return RuleAnswer(result=result, memory=memory, again_at=old_at)


def last_success(pipeline_health: Sequence[PipelineHealth]) -> datetime | None:
    """Return when the flow or plan last succeeded, None where it never did.

    Flow runs and plan runs tell it. A job group does where it ended after all of them: it ran by
    itself, or its flow run is not over. Of several recipes the newest success counts.
    """
    whole = [health for health in pipeline_health if health.run_kind is not RunKind.JOB_GROUP]
    finished = [item.last_finished_at for item in whole if item.last_finished_at is not None]
    finished_at = max(finished, default=None)
    successes = [item.last_success_at for item in whole]
    successes += [
        health.last_success_at
        for health in pipeline_health
        if health.run_kind is RunKind.JOB_GROUP
        and health.last_success_at is not None
        and (finished_at is None or health.last_success_at > finished_at)
    ]
    return max((at for at in successes if at is not None), default=None)


NOT_FRESH = RuleDefinition(
    rule=RuleKind.NOT_FRESH,
    subject_kind=SubjectKind.FLOW_OR_PLAN,
    memory=Unproven,
    evaluate=evaluate_age,
    template_fields=("last_success_at", "age_seconds", "limit_seconds"),
)

RULE_DEFINITIONS: tuple[AnyRuleDefinition, ...] = (NOT_FRESH,)
