"""What rules about ends of runs share: the time of an end, its part, its error. Pure.

An alert is about a pipeline and a kind of run, not about one run: the first failure begins it,
further ones are its evidence, the next success ends it. The recipes of job groups that run by
themselves are *parts* of their flow: each has to succeed again.
"""

from __future__ import annotations

from datetime import datetime
from typing import Any

from msgspec import Struct

from monitor.alerting.rules.contract import EventInput, Facts, Firing, Ok, RuleAnswer
from monitor.model.events import RunEvent
from monitor.model.runs import RunKey, Status

_ERROR_KEPT = 1_000  # characters
_PARTS_KEPT = 100
_WHOLE = ""  # the part that stands for a pipeline without parts, and for an unknown part

Parts = dict[str, tuple[datetime, str]]  # part -> when it failed last, and the event's id


class RunError(Struct, frozen=True, kw_only=True):
    """The newest error inside a root run. The run itself mostly has none."""

    run: str
    error: str


class FailedParts(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The parts of one subject whose newest end is a failure, or a cancel."""

    parts: Parts = {}
    error: RunError | None = None


def newest_error(
    event_input: EventInput[Any], event: RunEvent, before: RunError | None
) -> RunError | None:
    """Return the error that was reported last, with the root run that it belongs to."""
    if event_input.root_run is None or not event.run.error or event.run.status is not Status.FAILED:
        return before
    return RunError(run=event_input.root_run.id, error=event.run.error[:_ERROR_KEPT])


def error_of(run: RunKey | None, newest: RunError | None) -> str | None:
    """Return the error of this run, where it is the newest one that is known."""
    return newest.error if newest is not None and run is not None and newest.run == run.id else None


def is_own(event_input: EventInput[Any], event: RunEvent) -> bool:
    """True where it is the end of the root run itself, not of something inside it."""
    return event_input.root_run == event.run.key


def ended_at(event: RunEvent) -> datetime:
    # Both stand in the event, so that what is made of it is the same after a crash.
    return event.occurred_at or event.recorded_at


def part_of(event: RunEvent, *, own: bool) -> str:
    """Return the recipe of a job group that runs by itself."""
    return event.run.recipe.id if own and event.run.recipe is not None else _WHOLE


def with_failed(event_input: EventInput[Any], event: RunEvent, before: FailedParts) -> Parts:
    """Return the failed parts with that of the event; the newest ones of very many."""
    part = part_of(event, own=is_own(event_input, event))
    parts = {**before.parts, part: (ended_at(event), event.id)}
    return dict(sorted(parts.items(), key=lambda named: named[1])[-_PARTS_KEPT:])


def firing(
    event_input: EventInput[Any], event: RunEvent, facts: Facts, failed: FailedParts
) -> RuleAnswer[FailedParts]:
    """Return that parts have failed since the first of them did."""
    result = Firing(
        since=min(at for at, _ in failed.parts.values()),
        as_of=ended_at(event),
        # What ended before we followed made no event that could be shown.
        evidence=() if event.run.historical else (event.id,),
        run=event_input.root_run,
        facts=facts,
    )
    return RuleAnswer(result=result, memory=failed)


def recovered(event: RunEvent, before: FailedParts) -> RuleAnswer[FailedParts]:
    """Remove the parts that the end of this run clears; Ok once none is left."""
    at = ended_at(event)
    recipe = event.run.recipe
    left = {
        part: failure
        for part, failure in before.parts.items()
        # An end that is reported late clears nothing that failed after it. A failure without a
        # recipe may have been of any: the first success clears it.
        if failure[0] > at or (recipe is not None and part not in (recipe.id, _WHOLE))
    }
    if left:
        return RuleAnswer(result=None, memory=FailedParts(parts=left, error=before.error))
    return RuleAnswer(result=Ok(at=at, evidence=(event.id,)), memory=None)
