"""Rules about how long ago a pipeline last succeeded."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta

from msgspec import Struct

from monitor.alerting.conditions.instants import written
from monitor.alerting.facts import FlowOrPlanFacts
from monitor.alerting.settings.rules import RuleKind, RuleSettings
from monitor.alerting.verdicts import (
    About,
    AnyCondition,
    Condition,
    Judged,
    Looked,
    Right,
    Unclear,
    Wrong,
)
from monitor.model.knowledge import PipelineStanding
from monitor.model.runs import RunKind


class Unproven(Struct, frozen=True, kw_only=True):
    """A pipeline that has run and was never seen to succeed: its age counts from here."""

    since: datetime  # workspace time
    is_old: bool = False  # it was, when last looked at


def look_at_age(
    looked: Looked[FlowOrPlanFacts], memory: Unproven | None, rule: RuleSettings
) -> Judged[Unproven]:
    """Judge the age of the last success against the limit that is set, else the learned one.

    A pipeline that is not known to have run is no matter of this rule.
    """
    facts, as_of = looked.facts, looked.as_of
    limit = rule.threshold or facts.cadence
    if as_of is None:
        return Judged(verdict=Unclear(why="runs were not yet read completely"), memory=memory)
    if not facts.standings:
        return Judged(verdict=Right(at=as_of))
    if limit is None:
        return Judged(verdict=None, memory=memory)
    success_at = last_success(facts.standings)
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
    wrong = Wrong(
        since=old_at,
        as_of=as_of,
        facts={
            "last_success_at": None if success_at is None else written(success_at),
            "age_seconds": (as_of - begin).total_seconds(),
            "limit_seconds": limit,
        },
    )
    return Judged(verdict=wrong, memory=memory)


def _not_old(
    success_at: datetime | None, memory: Unproven | None, *, as_of: datetime, old_at: datetime
) -> Judged[Unproven]:
    verdict = None if success_at is None else Right(at=success_at)
    if memory is not None and memory.is_old:
        # It has counted from the same instant before: the limit was raised since.
        verdict, memory = Right(at=as_of), Unproven(since=memory.since)
    return Judged(verdict=verdict, memory=memory, again_at=old_at)


def last_success(standings: Sequence[PipelineStanding]) -> datetime | None:
    """Return when the flow or plan last succeeded, None where it never did.

    Flow runs and plan runs tell it. A job group does where it ended after all of them: it ran by
    itself, or its flow run is not over. Of several recipes the newest success counts.
    """
    whole = [one for one in standings if one.run_kind is not RunKind.JOB_GROUP]
    finished = [one.last_finished_at for one in whole if one.last_finished_at is not None]
    finished_at = max(finished, default=None)
    successes = [one.last_success_at for one in whole]
    successes += [
        one.last_success_at
        for one in standings
        if one.run_kind is RunKind.JOB_GROUP
        and one.last_success_at is not None
        and (finished_at is None or one.last_success_at > finished_at)
    ]
    return max((at for at in successes if at is not None), default=None)


NOT_FRESH = Condition(
    rule=RuleKind.NOT_FRESH,
    about=About.FLOW_OR_PLAN,
    memory=Unproven,
    look=look_at_age,
    template_fields=("last_success_at", "age_seconds", "limit_seconds"),
)

CONDITIONS: tuple[AnyCondition, ...] = (NOT_FRESH,)
