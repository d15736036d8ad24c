"""Acknowledgements of an alert: how one begins, is repeated and ends. Pure.

While one lasts no reminder goes out. People see its end by the wall clock; it is judged by our
steady clock, as reminders are.
"""

from __future__ import annotations

from datetime import datetime, timedelta

import msgspec

from monitor.alerting.alerts.instance import AlertInstance, LifecycleOutcome, StepWord
from monitor.model.alerts import Acknowledgement, AlertState

# A request that is sent twice, as by a double click, names an end that is so much later at most.
_REPEATED = timedelta(minutes=1)
_LONGEST = timedelta(days=3_650)


def acknowledged(
    instance: AlertInstance,
    acknowledgement: Acknowledgement,
    *,
    now: datetime,
    occurred_at: datetime | None,
) -> LifecycleOutcome:
    """Return the open alert as acknowledged; nothing changes where the same was said before.

    The acknowledgement of a pending alert is published with its start: until then it has no events.
    """
    alert, until = instance.alert, acknowledgement.until
    if alert.acknowledged is not None and _is_repeated(alert.acknowledged, acknowledgement):
        return LifecycleOutcome(state=instance)
    is_published = alert.state is AlertState.FIRING
    number = instance.acknowledgements + is_published
    after = msgspec.structs.replace(
        instance,
        alert=msgspec.structs.replace(alert, acknowledged=acknowledgement),
        acknowledgements=number,
        acknowledged_until=None if until is None else now + (until - acknowledgement.at),
        owes_reminder=False,
    )
    return LifecycleOutcome(
        state=after,
        step=StepWord.ACKNOWLEDGED,
        is_published=is_published,
        occurred_at=occurred_at,
        number=number,
    )


def end_problem(until: datetime | None, *, now: datetime) -> str | None:
    """Return why an acknowledgement cannot end then (both by the wall clock)."""
    if until is None or now < until <= now + _LONGEST:
        return None
    if until <= now:
        return "is over; give a time to come"
    return "is more than ten years ahead; without an end it lasts as long as the alert"


def without_ended(instance: AlertInstance, now: datetime) -> AlertInstance:
    """Return the alert without an acknowledgement that has ended; a reminder is due then."""
    until = instance.acknowledged_until
    if until is None or now < until:
        return instance
    return msgspec.structs.replace(
        instance,
        alert=msgspec.structs.replace(instance.alert, acknowledged=None),
        acknowledged_until=None,
        owes_reminder=instance.alert.is_notified,
    )


def within_length(instance: AlertInstance, now: datetime) -> AlertInstance:
    """Return the alert with an acknowledgement that lasts no longer from now than in all."""
    by, until = instance.alert.acknowledged, instance.acknowledged_until
    if by is None or by.until is None or until is None or until - now <= by.until - by.at:
        return instance
    return msgspec.structs.replace(instance, acknowledged_until=now + (by.until - by.at))


def _is_repeated(before: Acknowledgement, later: Acknowledgement) -> bool:
    if (before.author, before.comment) != (later.author, later.comment):
        return False
    if before.until is None or later.until is None:
        return before.until is later.until
    return abs(later.until - before.until) < _REPEATED
