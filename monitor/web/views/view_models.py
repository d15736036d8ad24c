"""View models of the JSON API and the page. Field names are part of the public face."""

from __future__ import annotations

from datetime import datetime

from msgspec import Struct

from monitor.model.live_state import (
    ActiveRun,
    Authentication,
    HistoryRead,
    TokenStatus,
    WorkspaceStatus,
)
from monitor.model.runs import PipelineKind, RunKind, RunState, Status
from monitor.model.shapes import filled
from monitor.web.shown_shards import Mirrored
from monitor.web.views.watching import Unwatched


class FailedPartView(Struct, frozen=True, kw_only=True):
    """The first part of a flow run or plan run that failed."""

    kind: RunKind
    id: str
    name: str | None
    error: str | None
    failed_at: datetime | None


class RunView(Struct, frozen=True, kw_only=True):
    """One run. ``status`` is ``unknown`` if the run may have ended unseen.

    ``reason`` is one line: its error, else that of the part that failed first. ``last_status`` is
    always the last one known. ``unconfirmed_end`` is the end that only a
    callback has reported so far, ``implausible`` what was reported and cannot be true. Instants
    are the workspace's, but for ``confirmed_at``, which is ours.
    """

    workspace: str
    kind: str
    id: str
    status: str
    last_status: Status
    unconfirmed_end: Status | None
    native_status: str | None
    pipeline_kind: PipelineKind | None
    pipeline_id: str | None
    pipeline: str
    recipe_id: str | None
    recipe: str | None
    created_at: datetime | None
    started_at: datetime | None
    finished_at: datetime | None
    approximate: tuple[str, ...]
    implausible: tuple[str, ...]
    duration_seconds: float | None
    queue_seconds: float | None  # from creation to start, where both were reported
    trigger: str
    owner: str | None
    error: str | None
    reason: str | None
    failed_part: FailedPartView | None
    is_reason_read: bool  # False: it failed, and why is still to be read
    flow_run: str | None
    plan_run: str | None
    jobs: tuple[str, ...]
    url: str | None
    historical: bool
    percent_complete: float | None
    heartbeat_at: datetime | None
    confirmed_at: datetime
    confirmed_by: str


class WorkspaceView(Struct, frozen=True, kw_only=True):
    """One workspace. Instants are ours, but for ``followed_since`` and ``history``."""

    workspace: str
    reachability: str
    since: datetime | None
    known_at: datetime | None
    reason: str | None
    edition: str | None
    edition_reason: str | None
    capabilities: tuple[str, ...]
    clock_skew_seconds: float | None
    followed_since: datetime | None
    history: HistoryRead | None  # of this life: how far back runs are known; workspace time
    reading: tuple[str, ...]  # what is read for the first time and not known yet
    authentication: Authentication | None  # None: its holder shows it
    refreshed_token: TokenStatus | None  # of a pair that this daemon refreshes; never a token
    active_runs: int
    webhook_tasks: dict[str, int]
    callbacks_missed: int
    schedules_watched: int  # those that the token can see; others are not guessed
    schedules_of: str | None  # their owner
    # Kinds of runs, and "schedules", of which nothing new is seen now; "unlisted_" and a kind of
    # which no list shows some; "progress_of_job_group".
    unwatched: tuple[str, ...]
    unwatched_because: tuple[Unwatched, ...]  # the same, each with the reason
    is_here: bool  # False: another daemon holds it, or nobody; shown as it is stored
    holder: str | None  # id of that daemon
    holder_url: str | None  # of its page, which alone shows polls and budgets
    as_of: datetime | None  # when it was read from the store; None: it is not


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


def run_view(
    run: RunState,
    *,
    label: str,
    now: datetime,
    stale_after_seconds: float,
    unconfirmed_since: datetime | None = None,
    active: ActiveRun | None = None,
) -> RunView:
    """Return the view of a run. An end is final; an unconfirmed active run is unknown.

    ``unconfirmed_since`` is as of `LiveStateView`.
    """
    confirmed_at = active.confirmed_at if active is not None else run.confirmed_at
    is_unknown = not run.status.is_terminal and is_unconfirmed(
        confirmed_at,
        now=now,
        stale_after_seconds=stale_after_seconds,
        unconfirmed_since=unconfirmed_since,
    )
    part = run.failed_part
    return filled(
        RunView,
        run,
        workspace=run.key.workspace,
        kind=run.key.kind,
        id=run.key.id,
        status="unknown" if is_unknown else run.status,
        last_status=run.status,
        pipeline_kind=run.pipeline.kind if run.pipeline is not None else None,
        pipeline_id=run.pipeline.id if run.pipeline is not None else None,
        pipeline=label,
        recipe_id=run.recipe.id if run.recipe is not None else None,
        recipe=run.recipe.name if run.recipe is not None else None,
        queue_seconds=_queue_seconds(run),
        reason=reason_of_run(run),
        failed_part=part and filled(FailedPartView, part, kind=part.key.kind, id=part.key.id),
        is_reason_read=is_reason_read(run),
        flow_run=run.parents.flow_run,
        plan_run=run.parents.plan_run,
        jobs=run.jobs.ids if run.jobs is not None else (),
        percent_complete=active.percent_complete if active is not None else None,
        heartbeat_at=active.heartbeat_at if active is not None else None,
        confirmed_at=confirmed_at,
        confirmed_by=active.confirmed_by if active is not None else run.confirmed_by,
    )


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


def workspace_view(
    status: WorkspaceStatus,
    *,
    active_runs: int,
    unwatched: tuple[Unwatched, ...],
    reading: tuple[str, ...],
    mirrored: Mirrored | None,
) -> WorkspaceView:
    """Return the view of a workspace."""
    return filled(
        WorkspaceView,
        status,
        capabilities=tuple(sorted(status.capabilities)),
        reading=reading,
        refreshed_token=status.token,
        active_runs=active_runs,
        schedules_watched=len(status.schedules),
        unwatched=tuple(known.what for known in unwatched),
        unwatched_because=unwatched,
        is_here=mirrored is None,
        holder=None if mirrored is None else mirrored.holder,
        holder_url=None if mirrored is None else mirrored.url,
        as_of=None if mirrored is None else mirrored.read_at,
    )
