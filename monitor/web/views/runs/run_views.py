"""Runs as pages and JSON API show them: stored ones with the live state of those that run on."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import datetime

from msgspec import Struct

from monitor.bus.contract import StoredRuns
from monitor.model.public_shapes import RunShape, filled
from monitor.model.runs import PipelineKind, RunKey, RunKind, RunState, Status
from monitor.model.slices import in_slices
from monitor.web.views.view import ViewSources


class FailedPartView(Struct, frozen=True, kw_only=True):
    """The first part of a flow run or plan run that failed."""

    kind: RunKind
    id: str
    name: str | None
    error: str | None
    failed_at: datetime | None


class RunView(RunShape, frozen=True, kw_only=True):
    """One run. ``status`` is ``unknown`` if the run may have ended unseen.

    ``reason`` is one line: its error, else that of the part that failed first. ``last_status`` is
    always the last one known. ``unconfirmed_end`` is the end that only a
    callback has reported so far, ``implausible`` what was reported and cannot be true. Instants
    are the workspace's, but for ``confirmed_at``, which is ours.
    """

    workspace: str
    last_status: Status
    unconfirmed_end: Status | None
    pipeline_kind: PipelineKind | None
    pipeline_id: str | None
    pipeline: str
    recipe_id: str | None
    recipe: str | None
    queue_seconds: float | None  # from creation to start, where both were reported
    reason: str | None
    failed_part: FailedPartView | None
    is_reason_read: bool  # False: it failed, and why is still to be read
    flow_run: str | None
    plan_run: str | None
    jobs: tuple[str, ...]
    historical: bool
    percent_complete: float | None
    heartbeat_at: datetime | None
    confirmed_at: datetime
    confirmed_by: str


def is_unconfirmed(
    confirmed_at: datetime,
    *,
    now: datetime,
    stale_after_seconds: float,
    unconfirmed_since: datetime | None,
) -> bool:
    """True where a run that had not ended at ``confirmed_at`` may have ended since, unseen."""
    if unconfirmed_since is not None and confirmed_at <= unconfirmed_since:
        return True
    return (now - confirmed_at).total_seconds() > stale_after_seconds


def run_view(sources: ViewSources, run: RunState) -> RunView:
    """Return a run as it is now. An end is final; an unconfirmed active run is unknown."""
    live, workspace = sources.live, run.key.workspace
    active = live.active_run(run.key)
    run = run if active is None else active.run
    confirmed_at = run.confirmed_at if active is None else active.confirmed_at
    is_unknown = not run.status.is_terminal and is_unconfirmed(
        confirmed_at,
        now=sources.clock.now(),
        stale_after_seconds=sources.settings.stale_after_seconds,
        unconfirmed_since=live.unconfirmed_since(workspace, run.key.kind),
    )
    pipeline, recipe, part = run.pipeline, run.recipe, run.failed_part
    recipe_name = None if recipe is None else recipe.name or live.recipe_name(workspace, recipe.id)
    return filled(
        RunView,
        run,
        workspace=workspace,
        kind=run.key.kind,
        id=run.key.id,
        status="unknown" if is_unknown else run.status,
        last_status=run.status,
        pipeline_kind=None if pipeline is None else pipeline.kind,
        pipeline_id=None if pipeline is None else pipeline.id,
        pipeline=live.label(workspace, pipeline),
        recipe_id=None if recipe is None else recipe.id,
        recipe=recipe_name,
        queue_seconds=_queue_seconds(run),
        reason=reason_of_run(run),
        failed_part=part and filled(FailedPartView, part, kind=part.key.kind, id=part.key.id),
        is_reason_read=is_reason_read(run),
        flow_run=run.parents.flow_run,
        plan_run=run.parents.plan_run,
        jobs=() if run.jobs is None else run.jobs.ids,
        percent_complete=None if active is None else active.percent_complete,
        heartbeat_at=None if active is None else active.heartbeat_at,
        confirmed_at=confirmed_at,
        confirmed_by=run.confirmed_by if active is None else active.confirmed_by,
    )


async def run_views(sources: ViewSources, runs: Iterable[RunState]) -> tuple[RunView, ...]:
    return tuple([run_view(sources, run) async for run in in_slices(runs)])  # a thousand a kind


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


def _queue_seconds(run: RunState) -> float | None:
    if run.created_at is None or run.started_at is None or "started_at" in run.approximate:
        return None
    return max(0.0, (run.started_at - run.created_at).total_seconds())


def is_reason_read(run: RunState) -> bool:
    """False where the run failed, and why is still to be read."""
    return run.status is not Status.FAILED or run.detailed or run.error is not None


def reason_of_run(run: RunState) -> str | None:
    """Return why a run failed in one line, None where that is not known."""
    part = run.failed_part
    if run.error is not None or part is None:
        return run.error
    named = part.name or f"{part.key.kind.replace('_', ' ')} {part.key.id}"
    return f"{named} failed" + (f": {part.error}" if part.error else "")
