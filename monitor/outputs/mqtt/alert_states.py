"""The payloads of the retained topics of alerts. No I/O and no clock."""

from __future__ import annotations

from datetime import datetime

from monitor.model.alerts import Alert
from monitor.outputs.cloudevent_shapes import AlertData, alert_data


class AlertStatus(AlertData, frozen=True, kw_only=True):
    """One alert; ``endsAt`` is null while it fires.

    ``run`` is the id of the first one that it is about; ``unjudged`` says why nobody can judge
    whether it is over.
    """

    run: str | None
    reminders: int
    unjudged: str | None


def status_of(alert: Alert, at: datetime, *, unjudged: str | None = None) -> AlertStatus:
    """Return what the topic of an alert that fires, or did, should hold."""
    run = None if alert.run is None else alert.run.id
    return alert_data(AlertStatus, alert, at, run=run, unjudged=unjudged)
