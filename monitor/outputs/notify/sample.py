"""A marked test of one channel: an alert that fires and resolves, of no real pipeline."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime, timedelta
from zoneinfo import ZoneInfo

import msgspec

from monitor.model.alerts import (
    Alert,
    AlertState,
    Severity,
    alert_event_id,
    fingerprint,
)
from monitor.model.errors import OutputError
from monitor.model.events import AlertEvent, EventType
from monitor.model.runs import Pipeline, PipelineKind, RunKind
from monitor.outputs.notify.composer import tone_of
from monitor.outputs.notify.lines import LineContext, line_of
from monitor.outputs.notify.service import Message, Service
from monitor.outputs.notify.settings import ChannelSettings
from monitor.outputs.notify.templates import Templates

_LASTED = timedelta(minutes=10)
_TEST_SENTENCE = "This is a test. Nothing failed."


def send_samples(
    settings: ChannelSettings, *, now: datetime, page_url: str | None
) -> Iterator[tuple[str, str | None, str]]:
    """Send an alert that fires, and its end.

    Yields each subject, the answer or None where it was not taken, and the service or why not.
    Blocks: it belongs in a thread.

    Raises:
        ConfigurationError: the URL or a template cannot be used.
    """
    service = Service(settings.url, timeout_seconds=settings.timeout_seconds)
    templates = Templates(settings.templates)
    for event in _events(now):
        line = line_of(
            event,
            LineContext(now=now, zone=ZoneInfo(settings.time_zone), page_url=page_url),
        )
        message = Message(
            tone=tone_of(event),
            subject=f"[Test] {templates.subject([line], page_url=page_url)}",
            body=templates.body(service.form.value, [line], page_url=page_url, note=_TEST_SENTENCE),
            form=service.form,
            thread=event.alert.fingerprint,
            incident=event.alert.fingerprint,
        )
        try:
            answer = service.send(message)
        except OutputError as exc:
            yield message.subject, None, f"{service.name}: {exc}"
        else:
            yield message.subject, answer, service.name


def _events(now: datetime) -> Iterator[AlertEvent]:
    labels = {
        "alertname": "run_failed",
        "severity": "info",
        "workspace": "test",
        "pipeline": "Supplier invoices",
        "pipeline_id": "0",
    }
    fired = Alert(
        fingerprint=fingerprint("run_failed", labels),
        name="run_failed",
        rule="run_failed",
        severity=Severity.INFO,
        state=AlertState.FIRING,
        labels=labels,
        templates={"summary": "{pipeline} failed", "description": "{error}"},
        starts_at=now - _LASTED,
        workspace="test",
        kind=RunKind.FLOW_RUN,
        pipeline=Pipeline(kind=PipelineKind.FLOW, id="0", name="Supplier invoices"),
        facts={"error": "Column 'amount' could not be converted"},
    )
    yield _event(fired, EventType.ALERT_FIRED, at=now)
    resolved = msgspec.structs.replace(fired, state=AlertState.RESOLVED, ends_at=now)
    yield _event(resolved, EventType.ALERT_RESOLVED, at=now)


def _event(alert: Alert, event_type: EventType, *, at: datetime) -> AlertEvent:
    transition = event_type.removeprefix("alert.")
    return AlertEvent(
        id=alert_event_id(alert.fingerprint, alert.starts_at, transition),
        type=event_type,
        alert=alert,
        occurred_at=alert.ends_at or alert.starts_at,
        recorded_at=at,
    )
