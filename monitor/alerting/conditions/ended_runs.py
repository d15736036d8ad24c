"""Rules about how runs end."""

from __future__ import annotations

from datetime import datetime

from msgspec import Struct

from monitor.alerting.facts import PipelineFacts
from monitor.alerting.settings.rules import RuleKind, RuleSettings
from monitor.alerting.verdicts import About, AnyCondition, Condition, Heard, Judged, Right, Wrong
from monitor.model.events import EventType, RunEvent
from monitor.model.runs import Status


class Failing(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The parts of one subject whose newest end is a failure: part -> when, and its event."""

    parts: dict[str, tuple[datetime, str]] = {}


def hear_failure(
    heard: Heard[PipelineFacts], memory: Failing | None, _: RuleSettings
) -> Judged[Failing]:
    event = heard.event
    if not isinstance(event, RunEvent):
        return Judged(verdict=None, memory=memory)
    parts = dict(memory.parts) if memory is not None else {}
    at = event.occurred_at or event.recorded_at
    is_own = heard.outermost == event.run.key
    part = _part(event, is_own=is_own)
    if event.run.status is Status.FAILED:
        parts[part] = (at, event.id)
        since = min(when for when, _ in parts.values())
        wrong = Wrong(
            since=since,
            as_of=at,
            evidence=(event.id,),
            run=heard.outermost,
            facts={"error": event.run.error, "run": event.run.key.id, "failing": len(parts)},
        )
        return Judged(verdict=wrong, memory=Failing(parts=parts))
    if event.run.status is not Status.SUCCEEDED or not is_own:
        return Judged(verdict=None, memory=memory)
    parts = {} if not event.run.recipe else {k: v for k, v in parts.items() if k != part}
    if parts:
        return Judged(verdict=None, memory=Failing(parts=parts))
    return Judged(verdict=Right(at=at, evidence=(event.id,)), memory=None)


def _part(event: RunEvent, *, is_own: bool) -> str:
    return event.run.recipe.id if is_own and event.run.recipe is not None else ""


RUN_FAILED = Condition(
    rule=RuleKind.RUN_FAILED,
    about=About.PIPELINE,
    memory=Failing,
    hears=(EventType.RUN_FAILED, EventType.RUN_SUCCEEDED),
    hear=hear_failure,
    template_fields=("error", "run", "failing"),
)

CONDITIONS: tuple[AnyCondition, ...] = (RUN_FAILED,)
