"""Alerts for tests that are about what becomes of them."""

from __future__ import annotations

from datetime import UTC, datetime

from monitor.model.alerts import Alert, AlertState, Severity, fingerprint

STARTED = datetime(2026, 11, 21, 10, tzinfo=UTC)


def an_alert(
    rule: str = "run_failed",
    *,
    workspace: str = "marketing",
    state: AlertState = AlertState.FIRING,
    is_notified: bool = False,
    labels: dict[str, str] | None = None,
) -> Alert:
    """Return an alert that carries the labels of its rule and workspace, and those given."""
    carried = {"alertname": rule, "rule": rule, "workspace": workspace, **(labels or {})}
    return Alert(
        fingerprint=fingerprint(rule, carried),
        name=rule,
        rule=rule,
        severity=Severity.WARNING,
        state=state,
        labels=carried,
        templates={},
        starts_at=STARTED,
        workspace=workspace,
        is_notified=is_notified,
    )
