"""How a workspace answered in the last seven days."""

from __future__ import annotations

from datetime import datetime, timedelta

from msgspec import Struct

from monitor.model.live_state import Reachability, ReachabilityStretch
from monitor.web.http.problems import ProblemDetails
from monitor.web.http.request_parsing import unknown
from monitor.web.views.daemon.workspaces import WorkspaceQuery
from monitor.web.views.sources import ViewSources
from monitor.web.views.view import View

_SHOWN = timedelta(days=7)


class ReachabilityView(Struct, frozen=True, kw_only=True):
    """Stretches from the first that is known until ``until``, oldest first. Instants are ours.

    In stretches that are ``unknown`` nobody watched; the ratio is of the time in which it was.
    """

    begin: datetime  # seven days before ``until``
    until: datetime
    watched_seconds: float
    reachable_ratio: float | None  # degraded is not reachable
    data: tuple[ReachabilityStretch, ...]
    next: str | None = None

    def part_of(self, at: datetime) -> float:
        """Return where an instant lies between the two ends, from 0 to 1."""
        return min(max((at - self.begin) / (self.until - self.begin), 0.0), 1.0)


class ReachabilityReader:
    """Reads what live state remembers."""

    def __init__(self, sources: ViewSources) -> None:
        self._sources = sources

    async def read(self, query: WorkspaceQuery) -> ReachabilityView:
        live, now = self._sources.live, self._sources.clock.now()
        if live.workspace(query.workspace) is None:
            names = [status.workspace for status in live.workspaces()]
            raise ProblemDetails(404, f"workspace: {unknown(query.workspace, names)}")
        stretches = live.reachability_history(
            query.workspace,
            now=now,
            stale_after_seconds=self._sources.settings.stale_after_seconds,
        )
        watched = [
            stretch for stretch in stretches if stretch.reachability is not Reachability.UNKNOWN
        ]
        total = sum((stretch.until - stretch.since for stretch in watched), timedelta())
        reachable = sum(
            (
                stretch.until - stretch.since
                for stretch in watched
                if stretch.reachability is Reachability.REACHABLE
            ),
            timedelta(),
        )
        return ReachabilityView(
            begin=now - _SHOWN,
            until=now,
            watched_seconds=total.total_seconds(),
            reachable_ratio=reachable / total if total else None,
            data=stretches,
        )


def reachability_view(sources: ViewSources) -> View:
    return View(
        name="reachability",
        summary="How a workspace answered in the last seven days.",
        api="/api/v1/workspaces/{workspace}/reachability",
        query=WorkspaceQuery,
        answer=ReachabilityView,
        read=ReachabilityReader(sources).read,
    )
