"""The payloads of the retained topics of alerts. No I/O and no clock."""

from __future__ import annotations

from datetime import datetime

from monitor.model.alerts import Alert
from monitor.outputs.cloudevent_shapes import AlertData, alert_data


class AlertStatus(AlertData, frozen=True, kw_only=True):
    """One alert; ``endsAt`` is null while it fires.

    What Alertmanager names has its names, all else is in snake_case. ``muted_by`` says why nobody
    is notified although it fires: ``silence:ID``, ``mute``, ``inhibited:FINGERPRINT``;
    ``unjudged`` why nobody can judge whether it is over. ``evidence`` are ids of events,
    ``evidence_count`` counts them all.
    """

    run: str | None
    reminders: int
    unjudged: str | None


def status_of(alert: Alert, at: datetime, *, unjudged: str | None = None) -> AlertStatus:
    """Return what the topic of an alert that fires, or did, should hold."""
    run = None if alert.run is None else alert.run.id
    return alert_data(AlertStatus, alert, at, run=run, unjudged=unjudged)
