"""The state of everything in one sentence."""

from __future__ import annotations

from datetime import datetime
from enum import StrEnum

from msgspec import Struct

from monitor.model.alerts import AlertState
from monitor.model.live_state import Reachability
from monitor.web.views.sources import ViewSources
from monitor.web.views.view import View


class Level(StrEnum):
    """How much it needs people; the colour of the sentence and of the icon."""

    OK = "ok"
    WARNING = "warning"
    CRITICAL = "critical"
    UNKNOWN = "unknown"


class StatusQuery(Struct, frozen=True, kw_only=True):
    """No parameters."""


class StateSummary(Struct, frozen=True, kw_only=True):
    """The state of everything. ``confirmed_at`` is ours: when a workspace last confirmed its runs.

    ``short`` fits a window's title.
    """

    level: Level
    sentence: str
    short: str
    failing: int  # pipelines
    missed_starts: int
    running: int  # runs
    healthy: int  # pipelines
    unknown: int  # pipelines of workspaces that cannot be seen
    confirmed_at: datetime | None


class StatusReader:
    """Counts what live state and alerting show."""

    def __init__(self, sources: ViewSources) -> None:
        self._sources = sources

    async def read(self, _: StatusQuery) -> StateSummary:
        live = self._sources.live
        firing = [
            alert
            for alert in self._sources.alerting.snapshot().alerts
            if alert.state is AlertState.FIRING
        ]
        failing = {
            (alert.workspace, alert.pipeline) for alert in firing if alert.pipeline is not None
        }
        confirmed = list(live.confirmed().values())
        running, healthy = len(live.active_runs()), len(live.pipelines()) - len(failing)
        blind = [
            status
            for status in live.workspaces()
            if status.reachability is Reachability.UNREACHABLE
        ]
        level = Level.CRITICAL if failing else Level.UNKNOWN if blind else Level.OK
        return StateSummary(
            level=level,
            sentence=f"{len(failing)} failing, {running} running, {healthy} healthy",
            short=f"{len(failing)} failing" if failing else "all healthy",
            failing=len(failing),
            missed_starts=0,
            running=running,
            healthy=healthy,
            unknown=0,
            confirmed_at=max(confirmed, default=None),
        )


def status_view(sources: ViewSources) -> View:
    return View(
        name="status",
        summary="The state of everything in one sentence.",
        api="/api/v1/status",
        query=StatusQuery,
        answer=StateSummary,
        read=StatusReader(sources).read,
    )
