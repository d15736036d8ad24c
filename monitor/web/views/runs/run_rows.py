"""Stored runs as rows: with the live state of those that have not ended."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import datetime

from msgspec.structs import replace

from monitor.bus.contract import StoredRuns
from monitor.model.runs import PipelineKind, RunKey, RunKind, RunState
from monitor.model.slices import in_slices
from monitor.web.views.sources import ViewSources
from monitor.web.views.view_models import RunView, run_view

# The kinds of runs that execute a pipeline; those of a flow are nested.
KINDS_OF: dict[PipelineKind, tuple[RunKind, ...]] = {
    PipelineKind.FLOW: (RunKind.FLOW_RUN, RunKind.JOB_GROUP),
    PipelineKind.PLAN: (RunKind.PLAN_RUN,),
}


class RunRows:
    """Makes the view models of runs."""

    def __init__(self, sources: ViewSources) -> None:
        self._sources = sources

    def row(self, run: RunState) -> RunView:
        live, now = self._sources.live, self._sources.clock.now()
        active = live.active_run(run.key)
        row = run_view(
            run if active is None else active.run,
            label=live.label(run.key.workspace, run.pipeline),
            now=now,
            stale_after_seconds=self._sources.settings.stale_after_seconds,
            unconfirmed_since=live.unconfirmed_since(run.key.workspace, run.key.kind),
            active=active,
        )
        if row.recipe_id is None or row.recipe is not None:
            return row
        return replace(row, recipe=live.recipe_name(run.key.workspace, row.recipe_id))

    async def rows(self, runs: Iterable[RunState]) -> tuple[RunView, ...]:
        return tuple([self.row(run) async for run in in_slices(runs)])

    def workspaces(self) -> list[str]:
        return [status.workspace for status in self._sources.live.workspaces()]


async def without_parts(stored_runs: StoredRuns, runs: Sequence[RunState]) -> list[RunState]:
    """Return the runs but for job groups inside a flow run that is stored itself.

    A flow run that ended before it was followed is not stored; its job groups stand for it.
    """
    around = {run.key: parent for run in runs if (parent := _flow_run(run)) is not None}
    stored = {run.key for run in runs}
    stored |= (await stored_runs.runs(set(around.values()) - stored)).keys()
    return [run for run in runs if around.get(run.key) not in stored]


def begin_of(run: RunState) -> datetime:
    """Return the instant by which lists order a run."""
    return run.created_at or run.started_at or run.finished_at or run.confirmed_at


def _flow_run(run: RunState) -> RunKey | None:
    if run.key.kind is not RunKind.JOB_GROUP or run.parents.flow_run is None:
        return None
    return RunKey(run.key.workspace, RunKind.FLOW_RUN, run.parents.flow_run)
