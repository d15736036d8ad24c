"""What runs now: how far it is, beside what is usual."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from typing import Annotated

from msgspec import Meta, Struct

from monitor.model.alerts import PipelineOfKind
from monitor.model.runs import PipelineKind, RunKind, RunState, Status, Trigger
from monitor.web.http.request_parsing import refuse_unknown
from monitor.web.views.overview.overview import ActiveRoot, Overview
from monitor.web.views.overview.pipeline_rows import RunCell
from monitor.web.views.overview.recent_overview import RecentOverview, computed
from monitor.web.views.overview.run_strips import ITEMS_OF_A_STRIP, strips_of, usual_seconds
from monitor.web.views.sources import ViewSources
from monitor.web.views.view import View


class RunningQuery(Struct, frozen=True, kw_only=True):
    """``runs`` is the most that are shown, behind so many that are passed over."""

    workspace: str | None = None
    runs: Annotated[int, Meta(ge=1, le=500)] = 15
    past: Annotated[int, Meta(ge=0, le=1_000_000)] = 0


class RunningRun(Struct, frozen=True, kw_only=True):
    """A run that has not ended. Instants are the workspace's, but for ``confirmed_at``.

    ``status`` is ``unknown`` where it may have ended unseen.
    """

    workspace: str
    kind: RunKind
    id: str
    status: str
    last_status: Status
    unconfirmed_end: Status | None
    pipeline_kind: PipelineKind | None
    pipeline_id: str | None
    pipeline: str
    begun_at: datetime | None  # its start; its creation where no start is known
    elapsed_seconds: float | None
    percent_complete: float | None
    usual_seconds: float | None  # the median of former successes
    limit_seconds: float | None  # learned: a run that takes longer is overdue
    expected_end_at: datetime | None  # None where it takes longer than usual
    trigger: Trigger
    owner: str | None
    url: str | None
    confirmed_at: datetime


class RunningList(Struct, frozen=True, kw_only=True):
    """Runs that are part of no other, the oldest first. ``unseen``: of what there may be more."""

    data: tuple[RunningRun, ...]
    next: int | None  # what to pass over to get the next ones
    total: int
    unseen: tuple[str, ...]


class RunningReader:
    """Reads active runs, and what is usual from their pipelines' strips."""

    def __init__(self, sources: ViewSources, recent: RecentOverview) -> None:
        self._sources = sources
        self._recent = recent

    async def read(self, query: RunningQuery) -> RunningList:
        overview = await self._recent.get()
        live, roots = self._sources.live, overview.roots
        if query.workspace is not None:
            refuse_unknown(query.workspace, [status.workspace for status in live.workspaces()])
            roots = [root for root in roots if root.active.run.key.workspace == query.workspace]
        total, end = len(roots), query.past + query.runs
        shown = roots[query.past : end]
        runs = [root.active.run for root in shown]
        pipelines = filter(None, map(_pipeline_of, runs))
        strips = await strips_of(pipelines, overview, stored=self._sources.runs)
        now = self._sources.clock.now()
        there = {status.workspace: status.time_there(now) for status in live.workspaces()}
        labels = [live.label(run.key.workspace, run.pipeline) for run in runs]

        def rows() -> tuple[RunningRun, ...]:
            return tuple(
                [
                    _row(root, label, strips, now=there.get(root.active.run.key.workspace, now))
                    for root, label in zip(shown, labels, strict=True)
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
    label: str,
    strips: Mapping[PipelineOfKind, Sequence[RunCell]],
    *,
    now: datetime,
) -> RunningRun:
    """Return what is shown of a run; ``now`` is workspace time."""
    active, limit = root.active, root.limit
    run, of = active.run, _pipeline_of(active.run)
    begun_at = run.started_at or run.created_at
    elapsed = max(0.0, (now - begun_at).total_seconds()) if begun_at is not None else None
    usual = usual_seconds(strips[of]) if of is not None else None
    is_in_time = elapsed is not None and usual is not None and elapsed <= usual
    return RunningRun(
        workspace=run.key.workspace,
        kind=run.key.kind,
        id=run.key.id,
        status="unknown" if root.is_unconfirmed else run.status,
        last_status=run.status,
        unconfirmed_end=run.unconfirmed_end,
        pipeline_kind=run.pipeline.kind if run.pipeline is not None else None,
        pipeline_id=run.pipeline.id if run.pipeline is not None else None,
        pipeline=label,
        begun_at=begun_at,
        elapsed_seconds=elapsed,
        percent_complete=active.percent_complete,
        usual_seconds=usual,
        limit_seconds=limit.seconds if limit is not None else None,
        expected_end_at=begun_at + timedelta(seconds=usual)
        if is_in_time and begun_at is not None and usual is not None
        else None,
        trigger=run.trigger,
        owner=run.owner,
        url=run.url,
        confirmed_at=active.confirmed_at,
    )


def _unseen(overview: Overview, workspace: str | None) -> tuple[str, ...]:
    return tuple(
        f"{'plans' if kind is PipelineKind.PLAN else 'flows'} of {of}: {why}"
        for (of, kind), why in overview.blind.items()
        if workspace in (None, of)
    )


def _pipeline_of(run: RunState) -> PipelineOfKind | None:
    return None if run.pipeline is None else (run.key.workspace, run.key.kind, run.pipeline.id)


def running_view(sources: ViewSources, recent: RecentOverview) -> View:
    return View(
        name="running",
        summary="Runs that have not ended, beside what is usual.",
        api="/api/v1/running",
        query=RunningQuery,
        answer=RunningList,
        read=RunningReader(sources, recent).read,
    )
