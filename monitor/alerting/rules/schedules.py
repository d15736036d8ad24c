"""Rules about schedules: a start that did not come, and a schedule that was switched off.

A missed start is judged when its grace is over as of the last complete poll, and a reading of the
schedules lies behind it: an outage, or a schedule that was just switched off, is no missed start.
Of what was deleted nothing is expected, though its schedules may stay.
File and table watchers name no time, so nothing is missed of them; but what they start cannot be
told from what the other triggers of the same schedule start.
"""

from __future__ import annotations

from datetime import datetime, timedelta

from msgspec import Struct

from monitor.alerting.rules.awaited_starts import (
    AwaitedStarts,
    begun,
    expectation,
    next_look,
    over,
    read,
    settled,
    with_active,
    with_start,
)
from monitor.alerting.rules.contract import (
    PIPELINE_REMOVED,
    AnyRuleDefinition,
    EventInput,
    Firing,
    Ok,
    RuleAnswer,
    RuleDefinition,
    StateInput,
    SubjectKind,
    Unknown,
    Verdict,
)
from monitor.alerting.rules.defaults import threshold_of
from monitor.alerting.rules.expected_starts import may_fire_after
from monitor.alerting.rules.facts import FlowOrPlanFacts, ScheduleFacts
from monitor.alerting.rules.instants import written
from monitor.alerting.rules.observed_starts import start_of
from monitor.alerting.settings.rules import RuleKind, RuleSettings
from monitor.model.events import EventType, RunEvent
from monitor.model.live_state import ScheduleKnown

_ANY_OF_A_RUN = (
    EventType.RUN_QUEUED,
    EventType.RUN_STARTED,
    EventType.RUN_SUCCEEDED,
    EventType.RUN_FAILED,
    EventType.RUN_CANCELED,
    EventType.RUN_LOST,
)


def on_start_event(
    heard: EventInput[FlowOrPlanFacts], memory: AwaitedStarts | None, _: RuleSettings
) -> RuleAnswer[AwaitedStarts]:
    """Remember a start until its expected time is judged."""
    event = heard.event
    start = start_of(event.run, event=event) if isinstance(event, RunEvent) else None
    if memory is not None and start is not None:
        memory = with_start(memory, start)
    return RuleAnswer(result=None, memory=memory)


def evaluate_starts(
    looked: StateInput[FlowOrPlanFacts], memory: AwaitedStarts | None, rule: RuleSettings
) -> RuleAnswer[AwaitedStarts]:
    """Judge what is expected of a flow or plan, while it is there and can be judged."""
    facts, as_of = looked.facts, looked.as_of
    read_at = facts.schedules_read_at if rule.expect is None else as_of
    if as_of is None or read_at is None:
        why = Unknown(why="runs and schedules were not yet read completely")
        return RuleAnswer(result=why if memory is not None else None, memory=memory)
    if facts.is_deleted:
        over_for_good = Ok(at=read_at, reason=PIPELINE_REMOVED)
        return RuleAnswer(result=None if memory is None else over_for_good)
    return _evaluate(facts, memory, rule, as_of=as_of, read_at=read_at)


def _evaluate(
    facts: FlowOrPlanFacts,
    memory: AwaitedStarts | None,
    rule: RuleSettings,
    *,
    as_of: datetime,
    read_at: datetime,
) -> RuleAnswer[AwaitedStarts]:
    """Judge the expected times whose grace is over, up to the first that changes the verdict."""
    grace = timedelta(seconds=threshold_of(rule))
    if memory is None or memory.expect != expectation(rule):
        memory = begun(facts, rule, as_of=as_of, read_at=read_at)
        again_at = None if memory is None else next_look(memory, grace, as_of=as_of)
        # What was told by a memory that is gone, or by another expression, is over.
        return RuleAnswer(result=Ok(at=as_of), memory=memory, again_at=again_at)
    memory = read(memory, facts, rule, read_at=read_at)
    if memory.is_over:
        return RuleAnswer(result=None)
    due_at = min(as_of - grace, read_at)
    if not (memory.missed or memory.starts or memory.is_due(due_at)):
        return RuleAnswer(
            result=None, memory=memory, again_at=next_look(memory, grace, as_of=as_of)
        )
    memory = with_active(memory, facts.active)
    if (ended := over(memory)) is not None:
        memory, start_at = ended
        return RuleAnswer(result=Ok(at=start_at), memory=memory, again_at=as_of)
    after = settled(memory, as_of=as_of, due_at=due_at)
    again_at = as_of if after.has_more else next_look(after.memory, grace, as_of=as_of)
    result = _result(after.memory, as_of=as_of)
    if memory.missed and not after.memory.missed and after.ended_by is not None:
        start = after.ended_by
        result = Ok(at=start.at, evidence=(start.event,) if start.event else ())
    return RuleAnswer(result=result, memory=after.memory, again_at=again_at)


def _result(memory: AwaitedStarts, *, as_of: datetime) -> Verdict | None:
    if not memory.missed:
        return None
    first = memory.missed[0]
    return Firing(
        since=first.at,
        as_of=as_of,
        facts={
            "schedule": first.schedules,
            "expected_at": written(first.at),
            "missed": len(memory.missed),
        },
    )


class Switch(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """How one schedule was switched when it was read last. Instants are the workspace's."""

    is_enabled: bool
    read_at: datetime
    off_since: datetime | None = None  # where it was seen being switched off


def evaluate_switch(
    looked: StateInput[ScheduleFacts], memory: Switch | None, _: RuleSettings
) -> RuleAnswer[Switch]:
    """Judge a change from enabled to disabled; one that always was disabled is meant to be so."""
    schedule, read_at = looked.facts.schedule, looked.facts.read_at
    if read_at is None:
        why = Unknown(why="the schedules were not yet read")
        return RuleAnswer(result=why if memory is not None else None, memory=memory)
    if schedule is None or schedule.is_orphaned:
        # The workspace itself switches off what has nothing left to start.
        gone = Ok(at=read_at, reason=None if schedule is None else PIPELINE_REMOVED)
        return RuleAnswer(result=None if memory is None else gone)
    if memory is None:
        fresh = Switch(is_enabled=schedule.is_enabled, read_at=read_at)
        return RuleAnswer(result=Ok(at=read_at) if schedule.is_enabled else None, memory=fresh)
    if schedule.is_enabled:
        result = None if memory.is_enabled else Ok(at=_switched_at(schedule, memory, read_at))
        fresh = memory if memory.is_enabled else Switch(is_enabled=True, read_at=read_at)
        return RuleAnswer(result=result, memory=fresh)
    if memory.is_enabled:
        memory = _switched_off(schedule, memory, read_at)
    if memory.off_since is None:
        return RuleAnswer(result=None, memory=memory)
    facts: dict[str, str | float | None] = {
        "schedule": schedule.name,
        "reason": schedule.disable_reason,
    }
    wrong = Firing(since=memory.off_since, as_of=read_at, facts=facts)
    return RuleAnswer(result=wrong, memory=memory)


def _switched_off(schedule: ScheduleKnown, memory: Switch, read_at: datetime) -> Switch:
    at = _switched_at(schedule, memory, read_at)
    # What has fired for the last time is switched off by the workspace itself.
    is_over = not may_fire_after(schedule.triggers, at)
    return Switch(is_enabled=False, read_at=read_at, off_since=None if is_over else at)


def _switched_at(schedule: ScheduleKnown, memory: Switch, read_at: datetime) -> datetime:
    at = schedule.updated_at
    return at if at is not None and memory.read_at < at <= read_at else read_at


SCHEDULE_MISSED = RuleDefinition(
    rule=RuleKind.SCHEDULE_MISSED,
    subject_kind=SubjectKind.FLOW_OR_PLAN,
    memory=AwaitedStarts,
    event_types=_ANY_OF_A_RUN,
    on_event=on_start_event,
    evaluate=evaluate_starts,
    template_fields=("schedule", "expected_at", "missed"),
)
SCHEDULE_DISABLED = RuleDefinition(
    rule=RuleKind.SCHEDULE_DISABLED,
    subject_kind=SubjectKind.SCHEDULE,
    memory=Switch,
    evaluate=evaluate_switch,
    template_fields=("schedule", "reason"),
)

RULE_DEFINITIONS: tuple[AnyRuleDefinition, ...] = (SCHEDULE_MISSED, SCHEDULE_DISABLED)
