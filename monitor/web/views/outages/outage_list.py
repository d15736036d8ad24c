"""The outages of the last seven days, of one workspace or of all, the newest first."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta

from msgspec import Struct

from monitor.web.views.outage_stretches import Outage, outages_of
from monitor.web.views.view import ViewSources, view

SHORTEST_PARTIAL = timedelta(minutes=1)  # a shorter one hides little


class OutagesQuery(Struct, frozen=True, kw_only=True):
    """Of one workspace, or of all."""

    workspace: str | None = None


class OutageList(Struct, frozen=True, kw_only=True):
    """Outages, newest begin first; ``unseen_now`` counts workspaces whose outage lasts."""

    data: tuple[Outage, ...]
    next: str | None
    unseen_now: int


@view(
    "outages",
    "/api/v1/outages",
    "Times of the last seven days in which a workspace was not seen, or only in part.",
)
async def outages_view(sources: ViewSources, query: OutagesQuery) -> OutageList:
    outages = [
        outage
        for status in sources.workspaces(query.workspace)
        for outage in outages_in(sources, status.workspace)
        if not outage.is_partial or outage.until - outage.since >= SHORTEST_PARTIAL
    ]
    outages.sort(key=lambda outage: (outage.since, outage.workspace), reverse=True)
    return OutageList(data=tuple(outages), next=None, unseen_now=len(lasting(outages)))


def lasting(outages: Sequence[Outage]) -> list[Outage]:
    """Return those of workspaces that are not seen now."""
    return [outage for outage in outages if not outage.is_over and not outage.is_partial]


def outages_in(sources: ViewSources, workspace: str) -> tuple[Outage, ...]:
    """Return the outages of a workspace that is known, oldest first."""
    now = sources.clock.now()
    stretches = sources.live.reachability_history(
        workspace, now=now, stale_after_seconds=sources.settings.stale_after_seconds
    )
    return outages_of(workspace, stretches, now)
