"""The events that notify people of an alert, and the reasons why none reaches them. Pure."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from datetime import datetime

from msgspec import Struct

from monitor.model.events import Event, EventType

# An alert that fires begins with one of these; an end alone is no notification of it.
STARTS = frozenset({EventType.ALERT_FIRED, EventType.ALERT_FLAPPING})
NOTIFYING = STARTS | {EventType.ALERT_REMINDED}

ADD_OUTPUT = "add [[notify]], [mqtt], [alertmanager], [webhook] or [file]"

OutputTypes = Mapping[str, Collection[EventType]]  # name of an output -> what it takes


# Name of an output, and an event of its types -> why it does not take that; None where it does.
WhyNotTaken = Callable[[str, Event], str | None]


def always_taken(_: str, __: Event) -> None:
    """Return that an output takes every event of its types."""


class NotificationStatus(Struct, frozen=True, kw_only=True):
    """What outputs have taken of an alert. ``at`` (ours) is when the newest of that was recorded.

    ``why_not`` is one sentence where people should have been notified and were not.
    """

    at: datetime | None = None
    through: tuple[str, ...] = ()  # the outputs that took the newest
    why_not: str | None = None


def why_not_notified(outputs: OutputTypes) -> str | None:
    """Return why no alert reaches anybody, with the way out; None where an output takes alerts."""
    if any(not STARTS.isdisjoint(types) for types in outputs.values()):
        return None
    if not outputs:
        return f"no output is configured ({ADD_OUTPUT})"
    names = ", ".join(sorted(outputs))
    takes = "takes" if len(outputs) == 1 else "take"
    return f'{names} {takes} no alert that fires (add "alert.*" to the events of an output)'
