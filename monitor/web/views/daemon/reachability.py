"""The answers of a workspace in the last seven days."""

from __future__ import annotations

from datetime import datetime, timedelta

from msgspec import Struct

from monitor.model.live_state import Reachability, ReachabilityStretch
from monitor.web.views.daemon.workspaces import WorkspaceQuery
from monitor.web.views.sources import ViewSources
from monitor.web.views.view import view

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


@view(
    "reachability",
    "/api/v1/workspaces/{workspace}/reachability",
    "How a workspace answered in the last seven days.",
)
async def reachability_view(sources: ViewSources, query: WorkspaceQuery) -> ReachabilityView:
    live, now = sources.live, sources.clock.now()
    sources.refuse_unknown(query.workspace, status=404)
    stretches = live.reachability_history(
        query.workspace,
        now=now,
        stale_after_seconds=sources.settings.stale_after_seconds,
    )
    watched = [stretch for stretch in stretches if stretch.reachability is not Reachability.UNKNOWN]
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
