"""The payloads of the retained topics of alerts. No I/O and no clock."""

from __future__ import annotations

from msgspec import Struct

from monitor.model.alerts import Alert, AlertState, Severity
from monitor.outputs.cloudevent_shapes import ALERTMANAGER_NAMES, Instant


class AlertStatus(Struct, frozen=True, kw_only=True, rename=ALERTMANAGER_NAMES):
    """One alert; ``endsAt`` is null while it fires.

    What Alertmanager names has its names, all else is in snake_case. ``muted_by`` says why nobody
    is notified although it fires: ``silence:ID``, ``mute``, ``inhibited:FINGERPRINT``;
    ``unjudged`` why nobody can judge whether it is over. ``evidence`` are ids of events,
    ``evidence_count`` counts them all.
    """

    status: AlertState
    name: str
    rule: str
    severity: Severity
    labels: dict[str, str]
    annotations: dict[str, str]
    starts_at: Instant
    ends_at: Instant | None
    fingerprint: str
    run: str | None
    evidence: tuple[str, ...]
    evidence_count: int
    facts: dict[str, str | float | None]
    preexisting: bool
    over_when_seen: bool
    is_flapping: bool
    muted_by: tuple[str, ...]
    reminders: int
    unjudged: str | None


def status_of(alert: Alert, *, unjudged: str | None = None) -> AlertStatus:
    """Return what the topic of an alert that fires, or did, should hold."""
    return AlertStatus(
        status=alert.state,
        name=alert.name,
        rule=alert.rule,
        severity=alert.severity,
        labels=alert.labels,
        annotations=alert.annotations,
        starts_at=alert.starts_at,
        ends_at=alert.ends_at,
        fingerprint=alert.fingerprint,
        run=None if alert.run is None else alert.run.id,
        evidence=alert.evidence,
        evidence_count=alert.evidence_count,
        facts=alert.facts,
        preexisting=alert.preexisting,
        over_when_seen=alert.over_when_seen,
        is_flapping=alert.is_flapping,
        muted_by=alert.muted_by,
        reminders=alert.reminders,
        unjudged=unjudged,
    )
