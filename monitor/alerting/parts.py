"""What rules about ends of runs share: whose end it was, when, and of which part. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any, TypeVar

from monitor.alerting.verdicts import Heard
from monitor.model.events import RunEvent

T = TypeVar("T")

WHOLE = ""  # the part that stands for a pipeline without parts, and for parts not told


def is_own(heard: Heard[Any], event: RunEvent) -> bool:
    """True where it is the end of the outermost run itself, not of something inside it."""
    return heard.outermost == event.run.key


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
    return {part: one for part, one in parts.items() if part not in (event.run.recipe.id, WHOLE)}
