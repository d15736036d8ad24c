"""What rules about ends of runs share: the part that ended, its error. Pure.

An alert is about a pipeline and a kind of run, not about one run: the first failure begins it,
further ones are its evidence, the next success ends it. The recipes of job groups that run by
themselves are *parts* of their flow: each has to succeed again.
"""

from __future__ import annotations

from datetime import datetime

from msgspec import Struct

from monitor.alerting.rules.contract import EventInput, Facts, Firing, Ok, RuleAnswer
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


def newest_error(event_input: EventInput, before: RunError | None) -> RunError | None:
    """Return the error that was reported last, with the root run that it belongs to."""
    run = event_input.event.run
    if not run.error or run.status is not Status.FAILED:
        return before
    return RunError(run=event_input.root_run.id, error=run.error[:_ERROR_KEPT])


def error_of(run: RunKey, newest: RunError | None) -> str | None:
    """Return the error of this run, where it is the newest one that is known."""
    return newest.error if newest is not None and newest.run == run.id else None


def part_of(event_input: EventInput) -> str:
    """Return the recipe of a job group that runs by itself."""
    recipe = event_input.event.run.recipe
    return recipe.id if event_input.is_own and recipe is not None else _WHOLE


def with_failed(event_input: EventInput, parts: Parts) -> Parts:
    """Return the failed parts with that of the event; the newest ones of very many."""
    parts = {**parts, part_of(event_input): (event_input.at, event_input.event.id)}
    return dict(sorted(parts.items(), key=lambda named: named[1])[-_PARTS_KEPT:])


def firing(event_input: EventInput, facts: Facts, failed: FailedParts) -> RuleAnswer[FailedParts]:
    """Return that parts have failed since the first of them did."""
    event = event_input.event
    result = Firing(
        since=min(at for at, _ in failed.parts.values()),
        as_of=event_input.at,
        # What ended before we followed made no event that could be shown.
        evidence=() if event.run.historical else (event.id,),
        run=event_input.root_run,
        facts=facts,
    )
    return RuleAnswer(result, failed)


def recovered(event_input: EventInput, before: FailedParts) -> RuleAnswer[FailedParts]:
    """Remove the parts that the end of this run clears; Ok once none is left."""
    at, recipe = event_input.at, event_input.event.run.recipe
    left = {
        part: failure
        for part, failure in before.parts.items()
        # An end that is reported late clears nothing that failed after it. A failure without a
        # recipe may have been of any: the first success clears it.
        if failure[0] > at or (recipe is not None and part not in (recipe.id, _WHOLE))
    }
    if left:
        return RuleAnswer(None, FailedParts(parts=left, error=before.error))
    return RuleAnswer(Ok(at=at, evidence=(event_input.event.id,)))
