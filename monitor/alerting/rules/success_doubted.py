"""success_doubted: a run is reported as succeeded, and what else is reported speaks against it.

Such a success may hide a failure, so it is neither repaired nor passed over in silence: its jobs or
a part of it failed, or what is reported of it cannot be true.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime
from types import MappingProxyType

from msgspec import Struct

from monitor.alerting.rules.contract import (
    EvaluationResult,
    EventInput,
    Firing,
    Ok,
    RuleAnswer,
    RuleDefinition,
    SubjectKind,
)
from monitor.alerting.rules.part_ends import part_of
from monitor.alerting.rules.rule_settings import RuleKind, RuleSettings
from monitor.model.ends import RunEnd
from monitor.model.events import EventType, run_event_id
from monitor.model.runs import FailedPart, Implausible, RunKey, RunState, Status

_PARTS_KEPT = 100
_ERROR_KEPT = 1_000  # characters
# What may hide a failure, in words for the texts of the alert.
REASONS = MappingProxyType(
    {
        Implausible.COMPLETE_WITH_FAILED_JOBS: "some of its jobs failed",
        Implausible.IN_THE_FUTURE: "its times lie in the future",
        Implausible.PIPELINE_CHANGED: "it was first reported of another pipeline",
        Implausible.CONTAINS_ITSELF: "it is reported to contain itself",
    }
)


class DoubtedSuccess(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The newest success of a part that may hide a failure, and why."""

    at: datetime
    run_id: str
    reasons: tuple[Implausible, ...] = ()
    failed_part: FailedPart | None = None
    correction: int = 0  # of the run, which its event's id names


class DoubtedParts(Struct, frozen=True, kw_only=True, omit_defaults=True):
    parts: dict[str, DoubtedSuccess] = {}


def on_event(
    event_input: EventInput, memory: DoubtedParts | None, _: RuleSettings
) -> RuleAnswer[DoubtedParts]:
    run, before = event_input.event.run, (memory or DoubtedParts()).parts
    end = event_input.end
    if end is None or run.unconfirmed_end is not None:
        return RuleAnswer(None, memory)
    if not event_input.is_own or event_input.cleared:
        return RuleAnswer(None, memory)
    part, parts = part_of(event_input), dict(before)
    known, doubted = before.get(part), _doubted(run, end)
    is_same = known is not None and known.run_id == run.key.id
    if run.status is not Status.SUCCEEDED:
        if is_same:
            del parts[part]  # the workspace has changed its end: it is a success no more
    elif doubted is not None:
        if known is None or is_same or end.at >= known.at:
            parts[part] = doubted
    elif known is not None and (is_same or end.at >= known.at) and _is_sure(run, known):
        del parts[part]
    result: EvaluationResult | None = None
    if parts and parts != before:
        result = _firing(event_input, parts)
    elif before and not parts:
        result = Ok(at=end.at, evidence=(event_input.event.id,))
    kept = sorted(parts.items(), key=lambda named: named[1].at)[-_PARTS_KEPT:]
    return RuleAnswer(result, DoubtedParts(parts=dict(kept)) if kept else None)


def _doubted(run: RunState, end: RunEnd) -> DoubtedSuccess | None:
    reasons = tuple(sorted(REASONS.keys() & set(run.implausible)))
    if not reasons and run.failed_part is None:
        return None
    return DoubtedSuccess(
        at=end.at,
        run_id=run.key.id,
        reasons=reasons,
        failed_part=run.failed_part,
        correction=run.corrections,
    )


def _is_sure(run: RunState, known: DoubtedSuccess) -> bool:
    """True where the job records could show another doubt no more, if they were the reason."""
    return run.detailed or Implausible.COMPLETE_WITH_FAILED_JOBS not in known.reasons


def _firing(event_input: EventInput, parts: dict[str, DoubtedSuccess]) -> Firing:
    newest = max(parts.values(), key=lambda success: success.at)
    failed = newest.failed_part
    run = event_input.root_run
    key = RunKey(run.workspace, run.kind, newest.run_id)
    return Firing(
        since=min(success.at for success in parts.values()),
        as_of=newest.at,
        evidence=(run_event_id(key, EventType.RUN_SUCCEEDED, correction=newest.correction),),
        run=key,
        facts={
            "run": newest.run_id,
            "reason": ", ".join((*map(REASONS.__getitem__, newest.reasons), *_words(failed))),
            "part": None if failed is None else _name(failed),
        },
    )


def _words(failed: FailedPart | None) -> Iterator[str]:
    if failed is not None:
        why = f": {failed.error[:_ERROR_KEPT]}" if failed.error else ""
        yield f"its part {_name(failed)} failed{why}"


def _name(failed: FailedPart) -> str:
    return failed.name or f"{failed.key.kind} {failed.key.id}"


DEFINITION: RuleDefinition[DoubtedParts, None] = RuleDefinition(
    rule=RuleKind.SUCCESS_DOUBTED,
    subject_kind=SubjectKind.PIPELINE,
    memory=DoubtedParts,
    event_types=(
        *(EventType.RUN_SUCCEEDED, EventType.RUN_DETAILED, EventType.RUN_CONFIRMED),
        *(EventType.RUN_FAILED, EventType.RUN_CANCELED),  # of a run that had been a success
    ),
    on_event=on_event,
    about="A run is reported as succeeded and may hide a failure: its jobs or a part of it failed, "
    "or what is reported of it cannot be true; over at the next success without doubt.",
    summary="A success of {pipeline} in {workspace} {is|was} doubtful",
    description="Run {run} is reported as succeeded, but {reason}.",
    template_fields=("run", "reason", "part"),
    reminders_inhibited_by=(RuleKind.WORKSPACE_UNREACHABLE,),
)
