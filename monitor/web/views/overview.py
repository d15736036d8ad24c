"""The read model of page and JSON API: live state and stored runs as view models."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from datetime import datetime

from monitor.bus.contract import EventBus
from monitor.model.alerts import Alert, AlertingSnapshot, AlertState, Severity
from monitor.model.clock import Clock
from monitor.model.live_state import PipelineHealth
from monitor.model.runs import RunKind, RunState, Status
from monitor.model.slices import in_slices, sorted_in_slices
from monitor.tracking.live_state import WATCHED_BY, LiveStateView
from monitor.web.views.view_models import (
    PipelineView,
    RunView,
    WorkspaceView,
    pipeline_view,
    run_view,
    workspace_view,
)

_STATES = {AlertState.FIRING: 0, AlertState.PENDING: 1, AlertState.RESOLVED: 2}
_SEVERITIES = {Severity.CRITICAL: 0, Severity.WARNING: 1, Severity.INFO: 2}
_WORST_FIRST = {Status.FAILED: 0, Status.LOST: 1, Status.CANCELED: 2, Status.SUCCEEDED: 3}


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

    def workspaces(self) -> list[WorkspaceView]:
        active = Counter(run.run.key.workspace for run in self._view.active_runs())
        return [
            workspace_view(
                status,
                active_runs=active[status.workspace],
                unwatched=tuple(
                    what
                    for what in WATCHED_BY
                    if self._view.why_unwatched(status.workspace, what) is not None
                ),
            )
            for status in self._view.workspaces()
        ]

    def workspace_names(self) -> list[str]:
        return [status.workspace for status in self._view.workspaces()]

    async def pipelines(self, workspace: str | None = None) -> list[PipelineView]:
        """Return each pipeline's last runs by kind; for job groups the worst of its recipes.

        The failures in a row are the most of any recipe, as metrics and retained states have them.
        """
        active = Counter(
            (run.run.key.workspace, run.run.key.kind, run.run.pipeline.id)
            for run in self._view.active_runs()
            if run.run.pipeline is not None
        )
        worst: dict[tuple[str, RunKind, str], PipelineHealth] = {}
        failures: Counter[tuple[str, RunKind, str]] = Counter()
        async for health in in_slices(self._view.pipeline_health()):
            identity = (health.workspace, health.run_kind, health.pipeline.id)
            failures[identity] = max(failures[identity], health.consecutive_failures)
            other = worst.get(identity)
            if other is None or _rank(health) < _rank(other):
                worst[identity] = health
        alerting = self._alerting()
        limits = {
            (limit.workspace, limit.kind, limit.pipeline.id): limit for limit in alerting.limits
        }
        now = {
            status.workspace: status.time_there(self.now()) for status in self._view.workspaces()
        }
        views = [
            pipeline_view(
                health,
                label=self._view.label(health.workspace, health.pipeline),
                active=active[identity],
                consecutive_failures=failures[identity],
                limit=limits.get(identity),
                expected_start_at=alerting.expected_start(identity, now=now[health.workspace]),
                missed_starts=alerting.missed.get(identity, 0),
            )
            async for identity, health in in_slices(worst.items())
            if workspace in (None, health.workspace) and health.workspace in now
        ]
        return await sorted_in_slices(
            views, key=lambda view: (view.workspace, view.pipeline, view.run_kind)
        )

    async def active_runs(self) -> list[RunView]:
        """Return the active runs, oldest first."""
        views = await self._run_views(run.run for run in self._view.active_runs())
        return await sorted_in_slices(views, key=lambda view: view.created_at or view.confirmed_at)

    async def runs(
        self,
        *,
        workspace: str | None = None,
        kind: RunKind | None = None,
        status: Status | None = None,
        limit: int,
    ) -> list[RunView]:
        """Return runs, newest creation first."""
        stored = await self._bus.recent_runs(
            workspace=workspace,
            kind=kind,
            statuses=() if status is None else (status,),
            limit=limit,
        )
        return await self._run_views(stored)

    async def _run_views(self, runs: Iterable[RunState]) -> list[RunView]:
        return [self._run_view(run) async for run in in_slices(runs)]

    def _run_view(self, run: RunState) -> RunView:
        active = self._view.active_run(run.key)
        return run_view(
            active.run if active is not None else run,
            label=self._view.label(run.key.workspace, run.pipeline),
            now=self._clock.now(),
            stale_after_seconds=self._stale_after_seconds,
            active=active,
        )

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


def _rank(health: PipelineHealth) -> tuple[int, int, float]:
    """Return a sort key: the worst health first, of equal ones that which ended last."""
    rank = _WORST_FIRST.get(health.last_status, 4) if health.last_status else 4
    finished = health.last_finished_at
    return rank, -health.consecutive_failures, 0.0 if finished is None else -finished.timestamp()
