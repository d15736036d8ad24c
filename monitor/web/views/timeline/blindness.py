"""Times in which the runs of a lane could not be observed. Workspace time."""

from __future__ import annotations

from datetime import UTC, datetime

from monitor.model.runs import RUN_KINDS
from monitor.web.views.overview.pipeline_list import SightGap, sight_gaps
from monitor.web.views.overview.pipeline_state import PipelineRow
from monitor.web.views.view import ViewSources

_BEGIN = datetime(1970, 1, 1, tzinfo=UTC)


def blind_times(sources: ViewSources, workspace: str) -> tuple[SightGap, ...]:
    """Return when a workspace was not observed: the last seven days, and before it was followed."""
    gaps = sight_gaps(sources, workspace)
    status = sources.live.workspace(workspace)
    if status is None or status.followed_since is None:
        return gaps
    known_since = status.followed_since
    if status.history is not None:
        known_since = min(known_since, status.history.reached)
    before = SightGap(since=_BEGIN, until=known_since, why="it was not followed yet")
    return (before, *gaps)


def gaps_of(
    sources: ViewSources, row: PipelineRow, blind: tuple[SightGap, ...], now: datetime
) -> tuple[SightGap, ...]:
    """Return the blind times of its workspace, and since when the pipeline alone is unseen."""
    status = sources.live.workspace(row.workspace)
    if row.unseen is None or status is None or any(gap.until is None for gap in blind):
        return blind
    confirmed = sources.live.confirmed()
    seen = [
        status.time_there(at)
        for kind in RUN_KINDS[row.kind]
        if (at := confirmed.get((row.workspace, kind))) is not None
    ]
    return (*blind, SightGap(since=max(seen, default=now), until=None, why=row.unseen))
