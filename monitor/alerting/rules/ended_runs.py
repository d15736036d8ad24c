"""Rules about how runs end: run_failed, canceled, failing_repeatedly.

An alert is about a pipeline and a kind of run, not about one run: the first failure begins it,
further ones are its evidence, the next success ends it. The recipes of job groups that run by
themselves are *parts* of their flow: each has to succeed again.
"""

from __future__ import annotations

from datetime import datetime

from msgspec import Struct

from monitor.alerting.rules.contract import (
    AnyRuleDefinition,
    EventInput,
    Firing,
    Ok,
    RuleAnswer,
    RuleDefinition,
    SubjectKind,
)
from monitor.alerting.rules.facts import PipelineFacts
from monitor.alerting.rules.parts import (
    FailedPart,
    error_of,
    is_own,
    newest_error,
    part_of,
    told_at,
    without,
)
from monitor.alerting.rules.repeated_failures import FAILING_REPEATEDLY
from monitor.alerting.settings.rules import RuleKind, RuleSettings
from monitor.model.events import EventType, RunEvent, run_event_id
from monitor.model.runs import Status

_PARTS_KEPT = 100

Facts = dict[str, str | float | None]
Parts = dict[str, tuple[datetime, str]]  # part -> when it went wrong last, and the event's id


class Failing(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The parts of one subject whose newest end is a failure, or a cancel."""

    parts: Parts = {}
    told: FailedPart | None = None


def on_failure_event(
    heard: EventInput[PipelineFacts], memory: Failing | None, _: RuleSettings
) -> RuleAnswer[Failing]:
    event = heard.event
    if not isinstance(event, RunEvent):
        return RuleAnswer(result=None, memory=memory)
    held = memory or Failing()
    if event.type is EventType.RUN_DETAILED:
        return _late_error(heard, event, held)
    if event.run.status is Status.FAILED:
        told = newest_error(heard, event, held.told)
        failing = Failing(parts=_with_part(heard, event, held), told=told)
        return RuleAnswer(
            result=_firing(heard, event, _facts(heard, event, failing), failing), memory=failing
        )
    if event.run.status is not Status.SUCCEEDED or not is_own(heard, event):
        # What succeeds inside a run that goes on ends nothing.
        return RuleAnswer(result=None, memory=memory)
    return _gone_well(event, held)


def _late_error(
    heard: EventInput[PipelineFacts], event: RunEvent, held: Failing
) -> RuleAnswer[Failing]:
    """The job records came after the failure had been told: it is explained, not told again."""
    failures = [event.run.key] if heard.root_run is None else [event.run.key, heard.root_run]
    known = {event_id: at for at, event_id in held.parts.values()}
    ids = [run_event_id(other_failure, EventType.RUN_FAILED) for other_failure in failures]
    failure = next((id_ for id_ in ids if id_ in known), None)
    told = newest_error(heard, event, held.told)
    if failure is None or not event.run.error:
        return RuleAnswer(result=None, memory=held if held.parts else None)
    failing = Failing(parts=held.parts, told=told)
    wrong = Firing(
        since=min(known.values()),
        as_of=known[failure],
        evidence=(failure,),
        run=heard.root_run,
        facts=_facts(heard, event, failing),
    )
    return RuleAnswer(result=wrong, memory=failing)


def _facts(heard: EventInput[PipelineFacts], event: RunEvent, failing: Failing) -> Facts:
    return {
        "error": error_of(heard.root_run, failing.told),
        "run": event.run.key.id,
        "failing": len(failing.parts),
    }


def on_cancel_event(
    heard: EventInput[PipelineFacts], memory: Failing | None, _: RuleSettings
) -> RuleAnswer[Failing]:
    event = heard.event
    if not isinstance(event, RunEvent) or not is_own(heard, event):
        return RuleAnswer(result=None, memory=memory)
    held = memory or Failing()
    if event.run.status is Status.CANCELED:
        canceled = Failing(parts=_with_part(heard, event, held))
        facts: Facts = {"run": event.run.key.id, "owner": event.run.owner}
        return RuleAnswer(result=_firing(heard, event, facts, canceled), memory=canceled)
    return _gone_well(event, held)


def _with_part(heard: EventInput[PipelineFacts], event: RunEvent, held: Failing) -> Parts:
    part = part_of(event, own=is_own(heard, event))
    parts = {**held.parts, part: (told_at(event), event.id)}
    return dict(sorted(parts.items(), key=lambda other_part: other_part[1])[-_PARTS_KEPT:])


def _firing(
    heard: EventInput[PipelineFacts], event: RunEvent, facts: Facts, failing: Failing
) -> Firing:
    return Firing(
        since=min(when for when, _ in failing.parts.values()),
        as_of=told_at(event),
        # What ended before we followed made no event that could be shown.
        evidence=() if event.run.historical else (event.id,),
        run=heard.root_run,
        facts=facts,
    )


def _gone_well(event: RunEvent, held: Failing) -> RuleAnswer[Failing]:
    at = told_at(event)
    # A good end that is told late says nothing of what went wrong after it.
    later = {part: other_part for part, other_part in held.parts.items() if other_part[0] > at}
    left = {**without(held.parts, event), **later}
    if left:
        return RuleAnswer(result=None, memory=Failing(parts=left, told=held.told))
    return RuleAnswer(result=Ok(at=at, evidence=(event.id,)), memory=None)


RUN_FAILED = RuleDefinition(
    rule=RuleKind.RUN_FAILED,
    subject_kind=SubjectKind.PIPELINE,
    memory=Failing,
    event_types=(EventType.RUN_FAILED, EventType.RUN_SUCCEEDED, EventType.RUN_DETAILED),
    on_event=on_failure_event,
    template_fields=("error", "run", "failing"),
    considers_past=True,
)

CANCELED = RuleDefinition(
    rule=RuleKind.CANCELED,
    subject_kind=SubjectKind.PIPELINE,
    memory=Failing,
    event_types=(EventType.RUN_CANCELED, EventType.RUN_SUCCEEDED, EventType.RUN_FAILED),
    on_event=on_cancel_event,
    template_fields=("run", "owner"),
)

RULE_DEFINITIONS: tuple[AnyRuleDefinition, ...] = (RUN_FAILED, CANCELED, FAILING_REPEATEDLY)
