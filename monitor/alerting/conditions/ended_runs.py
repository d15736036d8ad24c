"""Rules about how runs end: run_failed, canceled, failing_repeatedly.

An alert is about a pipeline and a kind of run, not about one run: the first failure begins it,
further ones are its evidence, the next success ends it. The recipes of job groups that run by
themselves are *parts* of their flow: each has to succeed again.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime

from msgspec import Struct

from monitor.alerting.conditions.repeated_failures import FAILING_REPEATEDLY
from monitor.alerting.facts import PipelineFacts
from monitor.alerting.parts import is_own, part_of, told_at, without
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
from monitor.model.runs import RunState, Status

_PARTS_KEPT = 100

Parts = dict[str, tuple[datetime, str]]  # part -> when it went wrong last, and the event's id


class Failing(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The parts of one subject whose newest end is a failure, or a cancel."""

    parts: Parts = {}


def hear_failure(
    heard: Heard[PipelineFacts], memory: Failing | None, _: RuleSettings
) -> Judged[Failing]:
    event = heard.event
    if not isinstance(event, RunEvent):
        return Judged(verdict=None, memory=memory)
    parts = dict(memory.parts) if memory is not None else {}
    if event.type is EventType.RUN_DETAILED:
        return Judged(verdict=_late_error(heard, event, parts), memory=memory)
    if event.run.status is Status.FAILED:
        return _gone_wrong(heard, event, parts)
    if event.run.status is not Status.SUCCEEDED or not is_own(heard, event):
        # What succeeds inside a run that goes on ends nothing.
        return Judged(verdict=None, memory=memory)
    return _gone_well(event, parts)


def _late_error(heard: Heard[PipelineFacts], event: RunEvent, parts: Parts) -> Wrong | None:
    """The job records came after the failure had been told: it is explained, not told again."""
    failure = run_event_id(event.run.key, EventType.RUN_FAILED)
    ends = {event_id: at for at, event_id in parts.values()}
    if failure not in ends or event.run.error is None:
        return None
    return Wrong(
        since=min(ends.values()),
        as_of=ends[failure],
        evidence=(failure,),
        run=heard.outermost,
        facts=_facts_of_failure(event.run, parts),
    )


def _facts_of_failure(run: RunState, parts: Parts) -> dict[str, str | float | None]:
    return {"error": run.error, "run": run.key.id, "failing": len(parts)}


def hear_cancel(
    heard: Heard[PipelineFacts], memory: Failing | None, _: RuleSettings
) -> Judged[Failing]:
    event = heard.event
    if not isinstance(event, RunEvent) or not is_own(heard, event):
        return Judged(verdict=None, memory=memory)
    parts = dict(memory.parts) if memory is not None else {}
    if event.run.status is Status.CANCELED:
        return _gone_wrong(heard, event, parts)
    return _gone_well(event, parts)


def _gone_wrong(heard: Heard[PipelineFacts], event: RunEvent, parts: Parts) -> Judged[Failing]:
    at = told_at(event)
    parts[part_of(event, own=is_own(heard, event))] = (at, event.id)
    parts = dict(sorted(parts.items(), key=lambda one: one[1])[-_PARTS_KEPT:])
    run = event.run
    facts: Mapping[str, str | float | None] = (
        _facts_of_failure(run, parts)
        if run.status is Status.FAILED
        else {"run": run.key.id, "owner": run.owner}
    )
    wrong = Wrong(
        since=min(when for when, _ in parts.values()),
        as_of=at,
        evidence=(event.id,),
        run=heard.outermost,
        facts=dict(facts),
    )
    return Judged(verdict=wrong, memory=Failing(parts=parts))


def _gone_well(event: RunEvent, parts: Parts) -> Judged[Failing]:
    at = told_at(event)
    # A good end that is told late says nothing of what went wrong after it.
    later = {part: one for part, one in parts.items() if one[0] > at}
    left = {**without(parts, event), **later}
    if left:
        return Judged(verdict=None, memory=Failing(parts=left))
    return Judged(verdict=Right(at=at, evidence=(event.id,)), memory=None)


RUN_FAILED = Condition(
    rule=RuleKind.RUN_FAILED,
    about=About.PIPELINE,
    memory=Failing,
    hears=(EventType.RUN_FAILED, EventType.RUN_SUCCEEDED, EventType.RUN_DETAILED),
    hear=hear_failure,
    template_fields=("error", "run", "failing"),
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
