"""The shapes of alerts and silences, for page and JSON API."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from msgspec import Struct

from monitor.model.alerts import Acknowledgement, Alert, Silence
from monitor.model.notifying import NotificationStatus
from monitor.model.runs import RunState
from monitor.model.shapes import filled
from monitor.model.slices import in_slices
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
    suppressors,
    web_address,
    what_of,
)
from monitor.web.views.runs.run_views import is_reason_read, reason_of_run
from monitor.web.views.sources import ViewSources

_AT_ONCE = 20  # alerts that are put into words


class SilenceView(Silence, frozen=True, kw_only=True):
    """One silence. ``state`` is pending, active or, for a day, expired."""

    state: str
    mutes: int  # open alerts, now


class AlertLinks(Struct, frozen=True, kw_only=True):
    """Paths of the pages that belong to an alert; None where there is none.

    ``silence`` is the form for a silence of this alert alone.
    """

    pipeline: str | None
    run: str | None
    silence: str
    acknowledge: str | None


class AlertView(Struct, frozen=True, kw_only=True, rename={"is_flapping": "flapping"}):
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
    is_flapping: bool
    preexisting: bool
    over_when_seen: bool
    evidence: tuple[str, ...]  # ids of events, the newest ones
    evidence_count: int
    unjudged: str | None  # why nobody can judge now whether it is over
    subject: str  # the name of the pipeline, else of what it is about
    what: str  # in one line, as ``reason``
    reason: str | None
    is_reason_read: bool  # False: why the run failed is still to be read
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
    shown = mutes if state == "active" else 0
    return filled(SilenceView, silence, state=state, mutes=shown)


async def alert_views(sources: ViewSources, alerts: Sequence[Alert]) -> tuple[AlertView, ...]:
    """Return the views of alerts as they read now, in their order."""
    snapshot = sources.alerting.snapshot()
    names = AlertNames(
        suppressors(snapshot.alerts, alerts), snapshot.silences, read_at=sources.time_of
    )
    notified = await sources.alerting.notifications(alerts)
    # Of those that fired without a reason: it may have been read since.
    keys = {alert.run for alert in alerts if alert.run is not None and _lacks_reason(alert)}
    runs = await sources.runs.runs(keys) if keys else {}
    return tuple(
        [
            _view(
                alert,
                names,
                notification=notification,
                unjudged=sources.live.why_unjudged(alert) if alert.ends_at is None else None,
                run=runs.get(alert.run) if alert.run is not None else None,
            )
            async for alert, notification in in_slices(
                list(zip(alerts, notified, strict=True)), size=_AT_ONCE
            )
        ]
    )


def _lacks_reason(alert: Alert) -> bool:
    return "error" in alert.facts and not alert.facts["error"]


def _view(
    alert: Alert,
    names: AlertNames,
    *,
    notification: NotificationStatus,
    unjudged: str | None,
    run: RunState | None,
) -> AlertView:
    """Return the view of an alert; ``run`` is known of one that fired without a reason."""
    texts = names.texts_of(alert)
    # Of a failure without an error text, the description has nothing to say either.
    since_read = None if run is None else reason_of_run(run)
    return filled(
        AlertView,
        alert,
        pipeline_id=alert.pipeline.id if alert.pipeline is not None else None,
        pipeline=alert.labels.get("pipeline"),
        run_id=alert.run.id if alert.run is not None else None,
        annotations=texts,
        notified_at=notification.at,
        notified_through=notification.through,
        unnotified=notification.why_not,
        unjudged=unjudged,
        subject=subject_of(alert),
        what=what_of(alert, texts),
        reason=since_read if _lacks_reason(alert) else reason_of(alert, texts),
        is_reason_read=run is None or is_reason_read(run),
        state_words=state_words(alert),
        suppressed_by=names.suppressed_by(alert),
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
