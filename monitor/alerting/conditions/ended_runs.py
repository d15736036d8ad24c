"""Rules about how runs end: run_failed, canceled, failing_repeatedly.

An alert is about a pipeline and a kind of run, not about one run: the first failure begins it,
further ones are its evidence, the next success ends it. The recipes of job groups that run by
themselves are *parts* of their flow: each has to succeed again.
"""

from __future__ import annotations

from datetime import datetime

from msgspec import Struct

from monitor.alerting.conditions.parts import (
    Told,
    error_of,
    is_own,
    newest_error,
    part_of,
    told_at,
    without,
)
from monitor.alerting.conditions.repeated_failures import FAILING_REPEATEDLY
from monitor.alerting.facts import PipelineFacts
from monitor.alerting.settings.rules import RuleKind, RuleSettings
from monitor.alerting.verdicts import (
    About,
    AnyCondition,
    Condition,
    Heard,
    Judged,
    Right,
    Wrong,
)
from monitor.model.events import EventType, RunEvent, run_event_id
from monitor.model.runs import Status

_PARTS_KEPT = 100

Facts = dict[str, str | float | None]
Parts = dict[str, tuple[datetime, str]]  # part -> when it went wrong last, and the event's id


class Failing(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The parts of one subject whose newest end is a failure, or a cancel."""

    parts: Parts = {}
    told: Told | None = None


def hear_failure(
    heard: Heard[PipelineFacts], memory: Failing | None, _: RuleSettings
) -> Judged[Failing]:
    event = heard.event
    if not isinstance(event, RunEvent):
        return Judged(verdict=None, memory=memory)
    held = memory or Failing()
    if event.type is EventType.RUN_DETAILED:
        return _late_error(heard, event, held)
    if event.run.status is Status.FAILED:
        told = newest_error(heard, event, held.told)
        failing = Failing(parts=_with_part(heard, event, held), told=told)
        return Judged(
            verdict=_wrong(heard, event, _facts(heard, event, failing), failing), memory=failing
        )
    if event.run.status is not Status.SUCCEEDED or not is_own(heard, event):
        # What succeeds inside a run that goes on ends nothing.
        return Judged(verdict=None, memory=memory)
    return _gone_well(event, held)


def _late_error(heard: Heard[PipelineFacts], event: RunEvent, held: Failing) -> Judged[Failing]:
    """The job records came after the failure had been told: it is explained, not told again."""
    failures = [event.run.key] if heard.outermost is None else [event.run.key, heard.outermost]
    known = {event_id: at for at, event_id in held.parts.values()}
    ids = [run_event_id(one, EventType.RUN_FAILED) for one in failures]
    failure = next((one for one in ids if one in known), None)
    told = newest_error(heard, event, held.told)
    if failure is None or not event.run.error:
        return Judged(verdict=None, memory=held if held.parts else None)
    failing = Failing(parts=held.parts, told=told)
    wrong = Wrong(
        since=min(known.values()),
        as_of=known[failure],
        evidence=(failure,),
        run=heard.outermost,
        facts=_facts(heard, event, failing),
    )
    return Judged(verdict=wrong, memory=failing)


def _facts(heard: Heard[PipelineFacts], event: RunEvent, failing: Failing) -> Facts:
    return {
        "error": error_of(heard.outermost, failing.told),
        "run": event.run.key.id,
        "failing": len(failing.parts),
    }


def hear_cancel(
    heard: Heard[PipelineFacts], memory: Failing | None, _: RuleSettings
) -> Judged[Failing]:
    event = heard.event
    if not isinstance(event, RunEvent) or not is_own(heard, event):
        return Judged(verdict=None, memory=memory)
    held = memory or Failing()
    if event.run.status is Status.CANCELED:
        canceled = Failing(parts=_with_part(heard, event, held))
        facts: Facts = {"run": event.run.key.id, "owner": event.run.owner}
        return Judged(verdict=_wrong(heard, event, facts, canceled), memory=canceled)
    return _gone_well(event, held)


def _with_part(heard: Heard[PipelineFacts], event: RunEvent, held: Failing) -> Parts:
    part = part_of(event, own=is_own(heard, event))
    parts = {**held.parts, part: (told_at(event), event.id)}
    return dict(sorted(parts.items(), key=lambda one: one[1])[-_PARTS_KEPT:])


def _wrong(heard: Heard[PipelineFacts], event: RunEvent, facts: Facts, failing: Failing) -> Wrong:
    return Wrong(
        since=min(when for when, _ in failing.parts.values()),
        as_of=told_at(event),
        # What ended before we followed made no event that could be shown.
        evidence=() if event.run.historical else (event.id,),
        run=heard.outermost,
        facts=facts,
    )


def _gone_well(event: RunEvent, held: Failing) -> Judged[Failing]:
    at = told_at(event)
    # A good end that is told late says nothing of what went wrong after it.
    later = {part: one for part, one in held.parts.items() if one[0] > at}
    left = {**without(held.parts, event), **later}
    if left:
        return Judged(verdict=None, memory=Failing(parts=left, told=held.told))
    return Judged(verdict=Right(at=at, evidence=(event.id,)), memory=None)


RUN_FAILED = Condition(
    rule=RuleKind.RUN_FAILED,
    about=About.PIPELINE,
    memory=Failing,
    hears=(EventType.RUN_FAILED, EventType.RUN_SUCCEEDED, EventType.RUN_DETAILED),
    hear=hear_failure,
    template_fields=("error", "run", "failing"),
    looks_back=True,
)

CANCELED = Condition(
    rule=RuleKind.CANCELED,
    about=About.PIPELINE,
    memory=Failing,
    hears=(EventType.RUN_CANCELED, EventType.RUN_SUCCEEDED, EventType.RUN_FAILED),
    hear=hear_cancel,
    template_fields=("run", "owner"),
)

CONDITIONS: tuple[AnyCondition, ...] = (RUN_FAILED, CANCELED, FAILING_REPEATEDLY)
