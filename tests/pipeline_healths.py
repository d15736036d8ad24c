"""Health of a pipeline as the ends of its runs make it."""

from __future__ import annotations

from datetime import datetime, timedelta

from monitor.model.ends import RunEnd
from monitor.model.live_state import PipelineHealth
from monitor.model.runs import Pipeline, RunKind, Status
from monitor.tracking.kept_ends import with_end_of_run
from monitor.tracking.live_state import LiveState


def end_at(
    at: datetime,
    status: Status = Status.SUCCEEDED,
    *,
    run_id: str = "1",
    seconds: float | None = None,
) -> RunEnd:
    """Return the reported end of a run that took so long."""
    return RunEnd(
        run_id=run_id,
        status=status,
        earliest=at,
        latest=at,
        began_at=None if seconds is None else at - timedelta(seconds=seconds),
        duration_seconds=seconds,
    )


def failures_until(at: datetime, number: int, *, seconds: float | None = None) -> list[RunEnd]:
    """Return the ends of so many failures, a minute apart, the last one then."""
    ages = reversed(range(number))
    return [
        end_at(at - timedelta(minutes=age), Status.FAILED, run_id=f"failed {age}", seconds=seconds)
        for age in ages
    ]


def health_after(
    *ends: RunEnd,
    pipeline: Pipeline,
    workspace: str = "acme",
    kind: RunKind = RunKind.JOB_GROUP,
    recipe_id: str | None = None,
) -> PipelineHealth:
    """Return the health of a pipeline after these ends, seen in this order."""
    health = PipelineHealth(
        workspace=workspace,
        run_kind=kind,
        pipeline=pipeline,
        recipe_id=recipe_id,
        last_started_at=max((end.began_at for end in ends if end.began_at), default=None),
    )
    for end in ends:
        health = with_end_of_run(health, end, before=None)
    return health


def show(live_state: LiveState, health: PipelineHealth) -> None:
    """Let the live state have this health of its pipeline."""
    identity = health.workspace, health.run_kind, health.pipeline.id, health.recipe_id
    live_state.pipeline_health[identity] = health
