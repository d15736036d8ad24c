"""Schedules the overview: while it is viewed, at most every two seconds, once for all.

The snapshots are taken on the event loop and never change, so that a worker thread may go over
them beside it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from datetime import datetime, timedelta
from typing import ParamSpec, TypeVar

from monitor.model.runs import PipelineKind, RunKind
from monitor.model.slices import without_garbage_collection
from monitor.web.views.overview.overview import Overview, OverviewSnapshots, overview_of
from monitor.web.views.view import ViewSources

P = ParamSpec("P")
T = TypeVar("T")

_KEPT = timedelta(seconds=2)
# Measured with ten thousand pipelines, on cores half as quick as usual: some 10 us an item. So
# fewer hold the event loop no longer than a step may, and for more the thread's 0.2 ms are little.
_MANY = 200
# The kind of runs that shows whether pipelines of a kind are watched.
_WATCHED = ((PipelineKind.FLOW, RunKind.JOB_GROUP), (PipelineKind.PLAN, RunKind.PLAN_RUN))


class RecentOverview:
    """Computes the overview for its viewers; all within two seconds share one."""

    def __init__(self, sources: ViewSources) -> None:
        self._sources = sources
        self._at: datetime | None = None  # our clock
        self._computing: asyncio.Task[Overview] | None = None

    async def get(self) -> Overview:
        """Return the overview of now, or the one that was begun at most two seconds ago."""
        now = self._sources.clock.now()  # where it was set, what is dated by it is moved first
        # One that takes longer than that is waited for: two at a time would take longer still.
        if self._computing is None or (self._computing.done() and not self._kept_for(now)):
            former = [] if self._computing is None else [self._computing]
            self._at = now
            self._computing = asyncio.create_task(self._compute(now, former), name="overview")
        # Shielded: one viewer who goes away must not take it from the others.
        return await asyncio.shield(self._computing)

    def kept_seconds(self) -> float:
        """Return for how long the overview is kept that was computed last."""
        return self._kept_for(self._sources.clock.now()).total_seconds()

    def _kept_for(self, now: datetime) -> timedelta:
        # Not either where the clock was set meanwhile: instants of ours were moved along.
        if self._at is None or not timedelta() <= now - self._at < _KEPT:
            return timedelta()
        return self._at + _KEPT - now

    async def _compute(self, now: datetime, former: list[asyncio.Task[Overview]]) -> Overview:
        known = self._snapshots(now)
        items = sum(map(len, (known.pipelines, known.healths, known.active, known.alerting.alerts)))
        return await computed(items, _in_place_of, former, known)

    def _snapshots(self, now: datetime) -> OverviewSnapshots:
        live, stale_after = self._sources.live, self._sources.settings.stale_after_seconds
        workspaces = {status.workspace: status for status in live.workspaces()}
        confirmed = live.confirmed()
        blind: dict[tuple[str, PipelineKind], str] = {}
        seen: list[datetime] = []
        for name in workspaces:
            for kind, run_kind in _WATCHED:
                at = confirmed.get((name, run_kind))
                why = live.why_unwatched(name, run_kind) or _why_stale(at, now, stale_after)
                if why is not None:
                    blind[name, kind] = why
                elif at is not None:
                    seen.append(at)
        return OverviewSnapshots(
            now=now,
            stale_after_seconds=stale_after,
            workspaces=workspaces,
            pipelines=live.pipelines(),
            healths=live.pipeline_health(),
            active=live.active_runs(),
            alerting=self._sources.alerting.snapshot(),
            blind=blind,
            starved={
                name: why
                for name in workspaces
                if (why := live.why_starved(name, monotonic=self._sources.clock.monotonic()))
            },
            confirmed_at=min(seen) if seen else max(confirmed.values(), default=None),
            unconfirmed_since={
                (name, kind): since
                for name in workspaces
                for kind in RunKind
                if (since := live.unconfirmed_since(name, kind)) is not None
            },
        )


def _in_place_of(former: list[asyncio.Task[Overview]], known: OverviewSnapshots) -> Overview:
    """Return the overview of what is known; the former one, whose only holder this is, ends."""
    rows = [row for task in former if _has_result(task) for row in task.result().rows.values()]
    former.clear()
    while rows:  # all of them at once would hold the interpreter for milliseconds
        del rows[-_MANY:]
    return overview_of(known)


def _has_result(task: asyncio.Task[Overview]) -> bool:
    return not task.cancelled() and task.exception() is None


def _why_stale(
    confirmed_at: datetime | None, now: datetime, stale_after_seconds: float
) -> str | None:
    if confirmed_at is None:
        return "its runs have not been read yet"
    is_stale = (now - confirmed_at).total_seconds() > stale_after_seconds
    return "its runs were not confirmed for too long" if is_stale else None


async def computed(
    items: int, function: Callable[P, T], /, *arguments: P.args, **more: P.kwargs
) -> T:
    """Return what a pure function makes of so many items; of many in a worker thread.

    What it is given must not change meanwhile: immutable, or a copy.
    """
    if items < _MANY:
        return function(*arguments, **more)
    return await asyncio.to_thread(_in_thread, function, *arguments, **more)


def _in_thread(function: Callable[P, T], /, *arguments: P.args, **more: P.kwargs) -> T:
    with without_garbage_collection():
        return function(*arguments, **more)
