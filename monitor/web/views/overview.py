"""The read model of page and JSON API: live state and stored runs as view models."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import datetime

from monitor.bus.contract import EventBus
from monitor.model.alerts import Alert, AlertingSnapshot, AlertState, Severity
from monitor.model.clock import Clock
from monitor.model.slices import sorted_in_slices
from monitor.tracking.live_state import LiveStateView

_STATES = {AlertState.FIRING: 0, AlertState.PENDING: 1, AlertState.RESOLVED: 2}
_SEVERITIES = {Severity.CRITICAL: 0, Severity.WARNING: 1, Severity.INFO: 2}


class Overview:
    """Reads live state and the store; holds no state itself."""

    def __init__(
        self,
        *,
        bus: EventBus,
        view: LiveStateView,
        clock: Clock,
        stale_after_seconds: float,
        alerting: Callable[[], AlertingSnapshot],
    ) -> None:
        self._bus = bus
        self._view = view
        self._clock = clock
        self._stale_after_seconds = stale_after_seconds
        self._alerting = alerting

    def now(self) -> datetime:
        return self._clock.now()

    def workspace_names(self) -> list[str]:
        return [status.workspace for status in self._view.workspaces()]

    def alerting(self) -> AlertingSnapshot:
        """Return the snapshot of alerting."""
        return self._alerting()

    def why_unjudged(self, alert: Alert) -> str | None:
        """Return why nobody can judge now whether an open alert is over."""
        return self._view.why_unjudged(alert)


async def worst_first(alerts: Sequence[Alert]) -> list[Alert]:
    """Return firing alerts before others, then by severity, then the newest first."""
    return await sorted_in_slices(
        alerts,
        key=lambda alert: (
            _STATES[alert.state],
            _SEVERITIES[alert.severity],
            -alert.starts_at.timestamp(),
        ),
    )
