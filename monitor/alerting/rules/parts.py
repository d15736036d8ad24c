"""What rules about ends of runs share: whose end it was, when, and of which part. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any, TypeVar

from msgspec import Struct

from monitor.alerting.rules.contract import EventInput
from monitor.model.events import RunEvent
from monitor.model.runs import RunKey, Status

T = TypeVar("T")

_ERROR_KEPT = 1_000  # characters

WHOLE = ""  # the part that stands for a pipeline without parts, and for parts not told


class FailedPart(Struct, frozen=True, kw_only=True):
    """What was said to be wrong inside an outermost run. The run itself mostly says nothing."""

    run: str
    error: str


def newest_error(
    heard: EventInput[Any], event: RunEvent, held: FailedPart | None
) -> FailedPart | None:
    """Return the error that was told last, with the outermost run that it is an error of."""
    if heard.root_run is None or not event.run.error or event.run.status is not Status.FAILED:
        return held
    return FailedPart(run=heard.root_run.id, error=event.run.error[:_ERROR_KEPT])


def error_of(run: RunKey | None, told: FailedPart | None) -> str | None:
    """Return what is known of this run's error; what is known of another one is not its."""
    return told.error if told is not None and run is not None and told.run == run.id else None


def is_own(heard: EventInput[Any], event: RunEvent) -> bool:
    """True where it is the end of the outermost run itself, not of something inside it."""
    return heard.root_run == event.run.key


def told_at(event: RunEvent) -> datetime:
    # Both stand in the event, so that what is made of it is the same after a crash.
    return event.occurred_at or event.recorded_at


def part_of(event: RunEvent, *, own: bool) -> str:
    """Return the recipe of a job group that runs by itself."""
    return event.run.recipe.id if own and event.run.recipe is not None else WHOLE


def without(parts: Mapping[str, T], event: RunEvent) -> dict[str, T]:
    """Return the parts that a good end of this run says nothing about."""
    if event.run.recipe is None:
        return {}
    # A failure that told no recipe may have been of any: the first success settles it.
    return {
        part: other_part
        for part, other_part in parts.items()
        if part not in (event.run.recipe.id, WHOLE)
    }
