"""schedule_disabled: a schedule that was enabled is so no longer."""

from __future__ import annotations

from datetime import datetime

from msgspec import Struct

from monitor.alerting.rules.contract import (
    PIPELINE_REMOVED,
    Firing,
    Ok,
    RuleAnswer,
    RuleDefinition,
    ScheduleFacts,
    StateInput,
    SubjectKind,
    Unknown,
)
from monitor.alerting.rules.expected_starts import may_fire_after
from monitor.alerting.rules.rule_settings import RuleKind, RuleSettings
from monitor.model.live_state import ScheduleKnown


class Switch(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Whether one schedule was enabled when it was read last. Instants are the workspace's."""

    is_enabled: bool
    read_at: datetime
    off_since: datetime | None = None  # where it was disabled while followed


def evaluate(
    state: StateInput[ScheduleFacts], memory: Switch | None, _: RuleSettings
) -> RuleAnswer[Switch]:
    """Evaluate a change from enabled to disabled; one that always was disabled is no problem."""
    schedule, read_at = state.facts.schedule, state.facts.read_at
    if read_at is None:
        why = Unknown("the schedules were not yet read")
        return RuleAnswer(why if memory is not None else None, memory)
    if schedule is None or schedule.is_orphaned:
        # The workspace itself disables what has nothing left to start.
        gone = Ok(at=read_at, reason=None if schedule is None else PIPELINE_REMOVED)
        return RuleAnswer(None if memory is None else gone)
    if memory is None:
        fresh = Switch(is_enabled=schedule.is_enabled, read_at=read_at)
        return RuleAnswer(Ok(at=read_at) if schedule.is_enabled else None, fresh)
    if schedule.is_enabled:
        result = None if memory.is_enabled else Ok(at=_switched_at(schedule, memory, read_at))
        memory = memory if memory.is_enabled else Switch(is_enabled=True, read_at=read_at)
        return RuleAnswer(result, memory)
    if memory.is_enabled:
        memory = _switched_off(schedule, memory, read_at)
    if memory.off_since is None:
        return RuleAnswer(None, memory)
    firing = Firing(
        since=memory.off_since,
        as_of=read_at,
        facts={"schedule": schedule.name, "reason": schedule.disable_reason},
    )
    return RuleAnswer(firing, memory)


def _switched_off(schedule: ScheduleKnown, memory: Switch, read_at: datetime) -> Switch:
    at = _switched_at(schedule, memory, read_at)
    # The workspace itself disables what has fired for the last time.
    is_over = not may_fire_after(schedule.triggers, at)
    return Switch(is_enabled=False, read_at=read_at, off_since=None if is_over else at)


def _switched_at(schedule: ScheduleKnown, memory: Switch, read_at: datetime) -> datetime:
    at = schedule.updated_at
    return at if at is not None and memory.read_at < at <= read_at else read_at


DEFINITION = RuleDefinition(
    rule=RuleKind.SCHEDULE_DISABLED,
    subject_kind=SubjectKind.SCHEDULE,
    memory=Switch,
    evaluate=evaluate,
    about="A schedule that was enabled is so no longer.",
    summary="Schedule {schedule} was disabled in {workspace}",
    description="It starts {pipeline}; reason: {reason}",
    template_fields=("schedule", "reason"),
    reminders_inhibited_by=(RuleKind.WORKSPACE_UNREACHABLE,),
    not_recorded="the event log does not hold when schedules changed",
)
