"""View models of the JSON API and the page. Field names are part of the public face."""

from __future__ import annotations

from datetime import datetime

from msgspec import Struct

from monitor.model.alerts import Alert, Silence
from monitor.model.live_state import (
    ActiveRun,
    WorkspaceStatus,
)
from monitor.model.runs import PipelineKind, RunKind, RunState, Status


class FailedPartView(Struct, frozen=True, kw_only=True):
    """The first part of a flow run or plan run that failed."""

    kind: RunKind
    id: str
    name: str | None
    error: str | None
    failed_at: datetime | None


class RunView(Struct, frozen=True, kw_only=True):
    """One run. ``status`` is ``unknown`` if the run was not confirmed for too long.

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
    trigger: str
    owner: str | None
    error: str | None
    reason: str | None
    failed_part: FailedPartView | None
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
    """One workspace. Instants are ours, but for ``followed_since``."""

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
    active_runs: int
    webhook_tasks: dict[str, int]
    callbacks_missed: int
    schedules_watched: int  # those that the token can see; others are not guessed
    schedules_of: str | None  # their owner
    unwatched: tuple[str, ...]  # kinds of runs, and "schedules", of which nothing new is seen now


class SilenceView(Struct, frozen=True, kw_only=True):
    """One silence. ``state`` is pending, active or, for a day, expired."""

    id: str
    state: str
    matchers: tuple[str, ...]
    author: str
    comment: str
    starts_at: datetime
    ends_at: datetime
    origin: str


class AlertView(Struct, frozen=True, kw_only=True):
    """One alert. Instants are on the clock of its subject; ``notified_at`` is ours."""

    fingerprint: str
    name: str
    rule: str
    severity: str
    state: str
    workspace: str
    kind: str | None
    pipeline_id: str | None
    pipeline: str | None
    run_id: str | None
    labels: dict[str, str]
    annotations: dict[str, str]
    facts: dict[str, str | float | None]
    starts_at: datetime
    ends_at: datetime | None
    notified_at: datetime | None
    reminders: int
    muted_by: tuple[str, ...]
    flapping: bool
    preexisting: bool
    over_when_seen: bool
    evidence: tuple[str, ...]  # ids of events, the newest ones
    evidence_count: int
    unjudged: str | None  # why nobody can judge now whether it is over


def silence_view(silence: Silence, *, now: datetime) -> SilenceView:
    """Return the view of a silence at ``now``."""
    state = "pending" if now < silence.starts_at else "active"
    return SilenceView(
        id=silence.id,
        state="expired" if now >= silence.ends_at else state,
        matchers=silence.matchers,
        author=silence.author,
        comment=silence.comment,
        starts_at=silence.starts_at,
        ends_at=silence.ends_at,
        origin=silence.origin,
    )


def alert_view(alert: Alert, *, unjudged: str | None = None) -> AlertView:
    """Return the view of an alert with every field, also empty ones."""
    return AlertView(
        fingerprint=alert.fingerprint,
        name=alert.name,
        rule=alert.rule,
        severity=alert.severity,
        state=alert.state,
        workspace=alert.workspace,
        kind=alert.kind,
        pipeline_id=alert.pipeline.id if alert.pipeline is not None else None,
        pipeline=alert.labels.get("pipeline"),
        run_id=alert.run.id if alert.run is not None else None,
        labels=alert.labels,
        annotations=alert.annotations,
        facts=alert.facts,
        starts_at=alert.starts_at,
        ends_at=alert.ends_at,
        notified_at=alert.notified_at,
        reminders=alert.reminders,
        muted_by=alert.muted_by,
        flapping=alert.is_flapping,
        preexisting=alert.preexisting,
        over_when_seen=alert.over_when_seen,
        evidence=alert.evidence,
        evidence_count=alert.evidence_count,
        unjudged=unjudged,
    )


def run_view(
    run: RunState,
    *,
    label: str,
    now: datetime,
    stale_after_seconds: float,
    active: ActiveRun | None = None,
) -> RunView:
    """Return the view of a run. An end is final; an unconfirmed active run is unknown."""
    confirmed_at = active.confirmed_at if active is not None else run.confirmed_at
    is_stale = (
        not run.status.is_terminal and (now - confirmed_at).total_seconds() > stale_after_seconds
    )
    return RunView(
        workspace=run.key.workspace,
        kind=run.key.kind,
        id=run.key.id,
        status="unknown" if is_stale else run.status,
        last_status=run.status,
        unconfirmed_end=run.unconfirmed_end,
        native_status=run.native_status,
        pipeline_kind=run.pipeline.kind if run.pipeline is not None else None,
        pipeline_id=run.pipeline.id if run.pipeline is not None else None,
        pipeline=label,
        recipe_id=run.recipe.id if run.recipe is not None else None,
        recipe=run.recipe.name if run.recipe is not None else None,
        created_at=run.created_at,
        started_at=run.started_at,
        finished_at=run.finished_at,
        approximate=run.approximate,
        implausible=run.implausible,
        duration_seconds=run.duration_seconds,
        trigger=run.trigger,
        owner=run.owner,
        error=run.error,
        reason=_reason(run),
        failed_part=_failed_part(run),
        flow_run=run.parents.flow_run,
        plan_run=run.parents.plan_run,
        jobs=run.jobs.ids if run.jobs is not None else (),
        url=run.url,
        historical=run.historical,
        percent_complete=active.percent_complete if active is not None else None,
        heartbeat_at=active.heartbeat_at if active is not None else None,
        confirmed_at=confirmed_at,
        confirmed_by=active.confirmed_by if active is not None else run.confirmed_by,
    )


def _failed_part(run: RunState) -> FailedPartView | None:
    part = run.failed_part
    if part is None:
        return None
    return FailedPartView(
        kind=part.key.kind,
        id=part.key.id,
        name=part.name,
        error=part.error,
        failed_at=part.failed_at,
    )


def _reason(run: RunState) -> str | None:
    part = run.failed_part
    if run.error is not None or part is None:
        return run.error
    named = part.name or f"{part.key.kind.replace('_', ' ')} {part.key.id}"
    return f"{named} failed" + (f": {part.error}" if part.error else "")


def workspace_view(
    status: WorkspaceStatus, *, active_runs: int, unwatched: tuple[str, ...]
) -> WorkspaceView:
    """Return the view of a workspace."""
    return WorkspaceView(
        workspace=status.workspace,
        reachability=status.reachability,
        since=status.since,
        known_at=status.known_at,
        reason=status.reason,
        edition=status.edition,
        edition_reason=status.edition_reason,
        capabilities=tuple(sorted(status.capabilities)),
        clock_skew_seconds=status.clock_skew_seconds,
        followed_since=status.followed_since,
        active_runs=active_runs,
        webhook_tasks=status.webhook_tasks,
        callbacks_missed=status.callbacks_missed,
        schedules_watched=len(status.schedules),
        schedules_of=status.schedules_of,
        unwatched=unwatched,
    )
