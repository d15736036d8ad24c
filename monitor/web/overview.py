"""The read model of page and JSON API: knowledge and stored runs, put together for showing."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from datetime import datetime

from monitor.bus.contract import EventBus
from monitor.model.alerts import Alert, AlertingPicture, AlertState, Severity
from monitor.model.clock import Clock
from monitor.model.knowledge import PipelineStanding
from monitor.model.runs import RunKey, RunKind, RunState, Status
from monitor.tracking.knowledge import KnowledgeView
from monitor.web.pictures import (
    PipelinePicture,
    RunPicture,
    SchedulesPicture,
    WorkspacePicture,
    pipeline_picture,
    run_picture,
    workspace_picture,
)

_STATES = {AlertState.FIRING: 0, AlertState.PENDING: 1, AlertState.RESOLVED: 2}
_SEVERITIES = {Severity.CRITICAL: 0, Severity.WARNING: 1, Severity.INFO: 2}
_WORST_FIRST = {Status.FAILED: 0, Status.LOST: 1, Status.CANCELED: 2, Status.SUCCEEDED: 3}


class Overview:
    """Reads what there is to show. Nothing is kept here."""

    def __init__(
        self,
        *,
        bus: EventBus,
        view: KnowledgeView,
        clock: Clock,
        stale_after_seconds: float,
        alerting: Callable[[], AlertingPicture],
    ) -> None:
        self._bus = bus
        self._view = view
        self._clock = clock
        self._stale_after_seconds = stale_after_seconds
        self._alerting = alerting

    def now(self) -> datetime:
        return self._clock.now()

    def workspaces(self) -> list[WorkspacePicture]:
        active = Counter(one.run.key.workspace for one in self._view.active_runs())
        return [
            workspace_picture(standing, active_runs=active[standing.workspace])
            for standing in self._view.workspaces()
        ]

    def workspace_names(self) -> list[str]:
        return [one.workspace for one in self._view.workspaces()]

    def schedules(self, workspace: str | None = None) -> list[SchedulesPicture]:
        """Return the schedules that are watched, by workspace."""
        return [
            SchedulesPicture(
                workspace=one.workspace,
                of=one.schedules_of,
                read_at=one.schedules_read_at,
                schedules=one.schedules,
            )
            for one in self._view.workspaces()
            if workspace in (None, one.workspace)
        ]

    def pipelines(self, workspace: str | None = None) -> list[PipelinePicture]:
        """Return each pipeline's last runs by kind; for job groups the worst of its recipes."""
        active = Counter(
            (one.run.key.workspace, one.run.key.kind, one.run.pipeline.id)
            for one in self._view.active_runs()
            if one.run.pipeline is not None
        )
        worst: dict[tuple[str, RunKind, str], PipelineStanding] = {}
        for standing in self._view.standings():
            identity = (standing.workspace, standing.run_kind, standing.pipeline.id)
            held = worst.get(identity)
            if held is None or _badness(standing) < _badness(held):
                worst[identity] = standing
        alerting = self._alerting()
        limits = {(one.workspace, one.kind, one.pipeline.id): one for one in alerting.limits}
        pictures = [
            pipeline_picture(
                standing,
                label=self._view.label(standing.workspace, standing.pipeline),
                active=active[identity],
                limit=limits.get(identity),
                expected_start_at=alerting.expected.get(identity),
                missed_starts=alerting.missed.get(identity, 0),
            )
            for identity, standing in worst.items()
            if workspace in (None, standing.workspace)
        ]
        return sorted(pictures, key=lambda one: (one.workspace, one.pipeline, one.run_kind))

    def active_runs(self) -> list[RunPicture]:
        """Return what runs now, oldest first."""
        pictures = [self._picture(one.run) for one in self._view.active_runs()]
        return sorted(pictures, key=lambda one: one.created_at or one.confirmed_at)

    async def runs(
        self,
        *,
        workspace: str | None = None,
        kind: RunKind | None = None,
        status: Status | None = None,
        limit: int,
    ) -> list[RunPicture]:
        """Return runs, newest creation first."""
        stored = await self._bus.recent_runs(
            workspace=workspace, kind=kind, status=status, limit=limit
        )
        return [self._picture(run) for run in stored]

    async def run(self, key: RunKey) -> tuple[RunPicture, list[RunPicture]] | None:
        """Return a run and its children; None where it is unknown or forgotten."""
        stored = (await self._bus.runs([key])).get(key)
        if stored is None:
            return None
        children = await self._bus.children(key)
        return self._picture(stored), [self._picture(child) for child in children]

    def _picture(self, run: RunState) -> RunPicture:
        active = self._view.active_run(run.key)
        return run_picture(
            active.run if active is not None else run,
            label=self._view.label(run.key.workspace, run.pipeline),
            now=self._clock.now(),
            stale_after_seconds=self._stale_after_seconds,
            active=active,
        )

    def alerting(self) -> AlertingPicture:
        """Return what alerting holds now."""
        return self._alerting()


def worst_first(alerts: Sequence[Alert]) -> list[Alert]:
    """Return what fires first, the most severe on top, the newest of equals before the older."""
    newest_first = sorted(alerts, key=lambda one: one.starts_at, reverse=True)
    return sorted(newest_first, key=lambda one: (_STATES[one.state], _SEVERITIES[one.severity]))


def _badness(standing: PipelineStanding) -> tuple[int, int]:
    rank = _WORST_FIRST.get(standing.last_status, 4) if standing.last_status else 4
    return rank, -standing.consecutive_failures
