"""What page and JSON API show of alerts and silences."""

from __future__ import annotations

from datetime import datetime

from msgspec import Struct

from monitor.model.alerts import Acknowledgement, Alert, Silence
from monitor.model.notifying import NotificationStatus
from monitor.web.views.alerts.alert_words import (
    AlertNames,
    SuppressionReason,
    acknowledge_path,
    pipeline_path,
    reason_of,
    run_path,
    runbook_of,
    silence_path,
    state_words,
    subject_of,
    web_address,
    what_of,
)


class SilenceView(Struct, frozen=True, kw_only=True):
    """One silence. ``state`` is pending, active or, for a day, expired."""

    id: str
    state: str
    matchers: tuple[str, ...]
    author: str
    comment: str
    starts_at: datetime
    ends_at: datetime
    origin: str  # "config" or "api"
    mutes: int  # open alerts, now


class AlertLinks(Struct, frozen=True, kw_only=True):
    """Paths of the pages that belong to an alert; None where there is none.

    ``silence`` is the form for a silence of this alert alone.
    """

    pipeline: str | None
    run: str | None
    silence: str
    acknowledge: str | None


class AlertView(Struct, frozen=True, kw_only=True):
    """One alert. Instants are on the clock of its subject; ``notified_at`` is ours.

    ``notified_at`` is of the newest notification that an output has taken, ``notified_through``
    names those outputs; ``unnotified`` says why none has although it fires.
    """

    fingerprint: str
    name: str
    rule: str
    severity: str
    state: str
    workspace: str
    kind: str | None
    pipeline_id: str | None
    pipeline: str | None
    run_id: str | None
    labels: dict[str, str]
    annotations: dict[str, str]
    facts: dict[str, str | float | None]
    starts_at: datetime
    ends_at: datetime | None
    notified_at: datetime | None
    notified_through: tuple[str, ...]
    unnotified: str | None
    reminders: int
    muted_by: tuple[str, ...]
    flapping: bool
    preexisting: bool
    over_when_seen: bool
    evidence: tuple[str, ...]  # ids of events, the newest ones
    evidence_count: int
    unjudged: str | None  # why nobody can judge now whether it is over
    subject: str  # the name of the pipeline, else of what it is about
    what: str  # in one line, as ``reason``
    reason: str | None
    state_words: str
    suppressed_by: tuple[SuppressionReason, ...]
    acknowledged: Acknowledgement | None
    pipeline_kind: str | None
    run_kind: str | None
    runbook: str | None
    url: str | None  # of the run in the product
    links: AlertLinks


def silence_view(silence: Silence, *, now: datetime, mutes: int = 0) -> SilenceView:
    """Return the view of a silence at ``now``."""
    state = "pending" if now < silence.starts_at else "active"
    state = "expired" if now >= silence.ends_at else state
    return SilenceView(
        id=silence.id,
        state=state,
        matchers=silence.matchers,
        author=silence.author,
        comment=silence.comment,
        starts_at=silence.starts_at,
        ends_at=silence.ends_at,
        origin=silence.origin,
        mutes=mutes if state == "active" else 0,
    )


def alert_view(
    alert: Alert,
    names: AlertNames,
    *,
    notification: NotificationStatus,
    unjudged: str | None = None,
) -> AlertView:
    """Return the view of an alert with every field, also empty ones.

    ``names`` are those of what suppresses it; what they lack is said without a name.
    """
    texts = names.texts_of(alert)
    return AlertView(
        fingerprint=alert.fingerprint,
        name=alert.name,
        rule=alert.rule,
        severity=alert.severity,
        state=alert.state,
        workspace=alert.workspace,
        kind=alert.kind,
        pipeline_id=alert.pipeline.id if alert.pipeline is not None else None,
        pipeline=alert.labels.get("pipeline"),
        run_id=alert.run.id if alert.run is not None else None,
        labels=alert.labels,
        annotations=texts,
        facts=alert.facts,
        starts_at=alert.starts_at,
        ends_at=alert.ends_at,
        notified_at=notification.at,
        notified_through=notification.through,
        unnotified=notification.why_not,
        reminders=alert.reminders,
        muted_by=alert.muted_by,
        flapping=alert.is_flapping,
        preexisting=alert.preexisting,
        over_when_seen=alert.over_when_seen,
        evidence=alert.evidence,
        evidence_count=alert.evidence_count,
        unjudged=unjudged,
        subject=subject_of(alert),
        what=what_of(alert, texts),
        reason=reason_of(alert, texts),
        state_words=state_words(alert),
        suppressed_by=names.suppressed_by(alert),
        acknowledged=alert.acknowledged,
        pipeline_kind=alert.pipeline.kind if alert.pipeline is not None else None,
        run_kind=alert.run.kind if alert.run is not None else None,
        runbook=runbook_of(texts),
        url=web_address(alert.facts.get("url")),
        links=AlertLinks(
            pipeline=pipeline_path(alert),
            run=run_path(alert),
            silence=silence_path(alert),
            acknowledge=None if alert.ends_at is not None else acknowledge_path(alert),
        ),
    )
