"""Active runs: how far each is, beside what is usual."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from typing import Annotated

from msgspec import Meta, Struct

from monitor.model.alerts import PipelineOfKind
from monitor.model.public_shapes import filled
from monitor.model.runs import PipelineKind, RunState
from monitor.web.views.overview.grid_history import ITEMS_OF_A_STRIP, strips_of, usual_seconds
from monitor.web.views.overview.overview import ActiveRoot, Overview
from monitor.web.views.overview.pipeline_state import RunCell
from monitor.web.views.overview.recent_overview import RecentOverview, computed
from monitor.web.views.runs.run_views import RunView, run_views
from monitor.web.views.view import ViewSources, view


class RunningQuery(Struct, frozen=True, kw_only=True):
    """``runs`` is the most that are shown, after so many that are skipped."""

    workspace: str | None = None
    runs: Annotated[int, Meta(ge=1, le=500)] = 15
    past: Annotated[int, Meta(ge=0, le=1_000_000)] = 0


class RunningRun(RunView, frozen=True, kw_only=True):
    """A run that has not ended, beside what is usual.

    One whose status is unknown may have ended unseen: it is shown as it was last confirmed, and
    nothing is expected of it.
    """

    begun_at: datetime | None  # its start; its creation where no start is known
    elapsed_seconds: float | None
    usual_seconds: float | None  # the median of former successes
    limit_seconds: float | None  # learned: a run that takes longer is overdue
    expected_end_at: datetime | None  # None where it is unknown, or takes longer than usual


class RunningList(Struct, frozen=True, kw_only=True):
    """Runs that are part of no other, the oldest first. ``unseen``: of what there may be more."""

    data: tuple[RunningRun, ...]
    next: int | None  # what to pass over to get the next ones
    total: int
    unseen: tuple[str, ...]


@view("running", "/api/v1/running", "Runs that have not ended, beside what is usual.")
async def running_view(sources: ViewSources, query: RunningQuery) -> RunningList:
    overview = await sources.shared(RecentOverview).get()
    live, roots = sources.live, overview.roots
    if query.workspace is not None:
        sources.refuse_unknown(query.workspace)
        roots = [root for root in roots if root.active.run.key.workspace == query.workspace]
    total, end = len(roots), query.past + query.runs
    shown = roots[query.past : end]
    runs = [root.active.run for root in shown]
    pipelines = filter(None, map(_pipeline_of, runs))
    strips = await strips_of(pipelines, overview, stored=sources.runs)
    now = sources.clock.now()
    there = {status.workspace: status.time_there(now) for status in live.workspaces()}
    views = await run_views(sources, runs)

    def rows() -> tuple[RunningRun, ...]:
        return tuple(
            [
                _row(root, view, strips, now=there.get(view.workspace, now), ours=now)
                for root, view in zip(shown, views, strict=True)
            ]
        )

    return RunningList(
        data=await computed(ITEMS_OF_A_STRIP * len(shown), rows),
        next=end if end < total else None,
        total=total,
        unseen=_unseen(overview, query.workspace),
    )


def _row(
    root: ActiveRoot,
    view: RunView,
    strips: Mapping[PipelineOfKind, Sequence[RunCell]],
    *,
    now: datetime,
    ours: datetime,
) -> RunningRun:
    """Return what is shown of a run; ``now`` is workspace time, ``ours`` the same by our clock."""
    of, begun_at = _pipeline_of(root.active.run), view.started_at or view.created_at
    is_seen = view.status == view.last_status
    at = now if is_seen else now - max(ours - view.confirmed_at, timedelta())
    elapsed = max(0.0, (at - begun_at).total_seconds()) if begun_at is not None else None
    usual = usual_seconds(strips[of]) if of is not None else None
    is_in_time = is_seen and elapsed is not None and usual is not None and elapsed <= usual
    return filled(
        RunningRun,
        view,
        begun_at=begun_at,
        elapsed_seconds=elapsed,
        usual_seconds=usual,
        limit_seconds=root.limit.seconds if root.limit is not None else None,
        expected_end_at=begun_at + timedelta(seconds=usual)
        if is_in_time and begun_at is not None and usual is not None
        else None,
    )


def _unseen(overview: Overview, workspace: str | None) -> tuple[str, ...]:
    return tuple(
        f"{'plans' if kind is PipelineKind.PLAN else 'flows'} of {of}: {why}"
        for (of, kind), why in overview.blind.items()
        if workspace in (None, of)
    )


def _pipeline_of(run: RunState) -> PipelineOfKind | None:
    return None if run.pipeline is None else (run.key.workspace, run.key.kind, run.pipeline.id)
