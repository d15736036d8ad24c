"""The events that notify people of an alert, and the reasons why none reaches them. Pure."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from datetime import datetime

from msgspec import Struct

from monitor.model.alerts import Alert, AlertState, alert_event_id
from monitor.model.events import AlertEvent, Event, EventType

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


class MessagePreview(Struct, frozen=True, kw_only=True):
    """The message that a channel would send about an alert now, or why it would not.

    ``to`` is a mail address; None is that of the channel. ``text`` is in the form of the service,
    ``form``: html, markdown, text or short.
    """

    channel: str
    why_not: str | None = None
    to: str | None = None
    form: str | None = None
    subject: str | None = None
    text: str | None = None


def event_now(alert: Alert, now: datetime) -> AlertEvent:
    """Return the event by which channels are sent an alert as it is."""
    if alert.ends_at is not None:
        type_ = EventType.ALERT_RESOLVED
    else:
        type_ = EventType.ALERT_FLAPPING if alert.is_flapping else EventType.ALERT_FIRED
    word = type_.removeprefix("alert.")
    return AlertEvent(
        id=alert_event_id(alert.fingerprint, alert.starts_at, word),
        type=type_,
        alert=alert,
        occurred_at=alert.ends_at or alert.starts_at,
        recorded_at=now,
    )


def why_no_event(alert: Alert) -> str | None:
    """Return why no output is sent anything of an alert now; None where outputs are."""
    if alert.state is AlertState.PENDING:
        return "the alert is pending, and fires only if its condition lasts"
    if alert.ends_at is not None:
        return None if alert.is_notified else "the alert ended without a notification"
    if alert.muted_by:
        return f"the alert is muted by {', '.join(alert.muted_by)}"
    return None


def why_not_notified(outputs: OutputTypes) -> str | None:
    """Return why no alert reaches anybody, with the way out; None where an output takes alerts."""
    if any(not STARTS.isdisjoint(types) for types in outputs.values()):
        return None
    if not outputs:
        return f"no output is configured ({ADD_OUTPUT})"
    names = ", ".join(sorted(outputs))
    takes = "takes" if len(outputs) == 1 else "take"
    return f'{names} {takes} no alert that fires (add "alert.*" to the events of an output)'
