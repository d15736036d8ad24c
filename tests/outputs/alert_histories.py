"""Builders of alerts and their events."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec

from monitor.model.alerts import (
    Acknowledgement,
    Alert,
    AlertState,
    Severity,
    alert_event_id,
    fingerprint,
)
from monitor.model.events import AlertEvent, EventType
from monitor.model.runs import RunKey, RunKind
from tests.outputs.histories import FLOW

BEGAN = datetime(2024, 11, 21, 9, 30, tzinfo=UTC)  # long over, on whatever machine
ENDED = BEGAN + timedelta(minutes=10)


def alert(number: int = 1, state: AlertState = AlertState.FIRING, **more: Any) -> Alert:
    """Return the ``number``-th alert, already notified; ``more`` overrides any field."""
    pipeline = msgspec.structs.replace(FLOW, id=str(number), name=f"orders {number}")
    made = Alert(
        fingerprint=fingerprint("run_failed", {"workspace": "w", "pipeline_id": pipeline.id}),
        name="run_failed",
        rule="run_failed",
        severity=Severity.CRITICAL,
        state=state,
        labels={
            "alertname": "run_failed",
            "severity": "critical",
            "workspace": "w",
            "pipeline": f"orders {number}",
            "pipeline_id": pipeline.id,
        },
        templates={"summary": f"orders {number} failed"},
        starts_at=BEGAN,
        ends_at=ENDED if state is AlertState.RESOLVED else None,
        workspace="w",
        kind=RunKind.FLOW_RUN,
        pipeline=pipeline,
        run=RunKey("w", RunKind.FLOW_RUN, f"9{number}"),
        evidence=(f"w:flow_run:9{number}:failed",),
        evidence_count=1,
        facts={"error": "no such file"},
        is_notified=True,
    )
    return msgspec.structs.replace(made, **more)


def event_of(
    instance: Alert, event_type: EventType | None = None, *, number: int = 0
) -> AlertEvent:
    """Return the event about the alert: fired or resolved, unless another type is named."""
    if event_type is None:
        is_over = instance.state is AlertState.RESOLVED
        event_type = EventType.ALERT_RESOLVED if is_over else EventType.ALERT_FIRED
    transition = event_type.removeprefix("alert.")
    return AlertEvent(
        id=alert_event_id(instance.fingerprint, instance.starts_at, transition, number),
        type=event_type,
        alert=instance,
        occurred_at=instance.ends_at or instance.starts_at,
        recorded_at=(instance.ends_at or instance.starts_at) + timedelta(seconds=1),
        number=number,
    )


def fired(number: int = 1, **more: Any) -> AlertEvent:
    """Return the event that the ``number``-th alert fired."""
    return event_of(alert(number, **more))


def resolved(number: int = 1, **more: Any) -> AlertEvent:
    """Return the event that the ``number``-th alert resolved."""
    return event_of(alert(number, AlertState.RESOLVED, **more))


def acknowledged(number: int = 1, *, count: int = 1, **more: Any) -> AlertEvent:
    """Return the event that Ada has acknowledged the ``number``-th alert."""
    by = Acknowledgement(author="Ada", comment="on it", at=BEGAN)
    return event_of(
        alert(number, **{"acknowledged": by, **more}), EventType.ALERT_ACKNOWLEDGED, number=count
    )
