"""Turns rows into observations of runs. Pure: no I/O and no clock."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Iterable, Sequence
from datetime import datetime

import msgspec
from msgspec import Struct

from monitor.model.observations import Observation, ObservationOutcome
from monitor.model.runs import (
    EndBasis,
    JobCount,
    JobDetails,
    JobRecord,
    Parents,
    Pipeline,
    PipelineKind,
    Recipe,
    RunKey,
    RunKind,
    RunState,
    Source,
    Status,
    Trigger,
    status_of,
)
from monitor.tracking.status_decision import changes_end, is_out_of_scope
from monitor.workspace.payloads import FlowRunRow, JobGroupRow, JobRow, PlanRunRow

_TRIGGERS = {"ui": Trigger.MANUAL, "schedule": Trigger.SCHEDULE, "api": Trigger.API}
# The workspace's words for a flow run that has begun; its job groups show no more than that.
PENDING_WORD = "Created"
RUNNING_WORD = "InProgress"
_KEPT_JOB_RECORDS = 20

Observed = tuple[Observation, ObservationOutcome]


class JobSummary(Struct, frozen=True, kw_only=True):
    """What the job records of one job group come to. ``approximate`` as in an observation."""

    jobs: JobDetails
    started_at: datetime | None
    finished_at: datetime | None
    finished_by: EndBasis | None  # None without ``finished_at``
    approximate: tuple[str, ...]
    error: str | None
    are_over: bool  # no record can change any more


def has_ended(native_status: str | None) -> bool:
    """True where the word is known and names an end."""
    status = status_of(native_status)
    return status is not None and status.is_terminal


def is_news_of_a_failure(observation: Observation, known: RunState | None) -> bool:
    """True where the event of a failure goes out with this observation, for all that is known."""
    if status_of(observation.native_status) is not Status.FAILED:
        return False
    if known is None or changes_end(known, observation):
        return True
    if is_out_of_scope(known, observation):
        return False
    return not known.status.is_terminal and known.unconfirmed_end is not Status.FAILED


def trigger_of(row: JobGroupRow) -> Trigger:
    if row.ran_for == "plan":
        return Trigger.PLAN
    return _TRIGGERS.get(row.ran_from or "", Trigger.UNKNOWN)


def job_group_observation(
    row: JobGroupRow,
    *,
    workspace: str,
    source: Source,
    observed_at: datetime,
    requested_at: datetime | None = None,
    page_url: str,
    flow: Pipeline | None,
) -> Observation:
    """Read one row. A job group reports neither start nor end, so none is set here."""
    recipe = Recipe(id=row.recipe_id, name=row.recipe_name) if row.recipe_id else None
    return Observation(
        key=RunKey(workspace=workspace, kind=RunKind.JOB_GROUP, id=row.id),
        source=source,
        observed_at=observed_at,
        requested_at=requested_at,
        native_status=row.native_status,
        created_at=row.created_at,
        updated_at=row.updated_at,
        pipeline=flow,
        recipe=recipe,
        parents=Parents(flow_run=row.flow_run_id),
        trigger=trigger_of(row),
        ran_for=row.ran_for,
        owner=row.owner,
        error=row.error,
        url=f"{page_url}/jobs/{row.id}",
    )


def flow_run_begun(flow_run_id: str, groups: Sequence[Observation]) -> Observation:
    """Derive from observed job groups that a flow run has begun, and about when it was created."""
    first = groups[0]
    has_started = any(status_of(group.native_status) is not Status.PENDING for group in groups)
    pipelines = [group.pipeline for group in groups if group.pipeline is not None]
    owners = [group.owner for group in groups if group.owner is not None]
    created_at = min((at for group in groups if (at := group.created_at)), default=None)
    return Observation(
        key=RunKey(workspace=first.key.workspace, kind=RunKind.FLOW_RUN, id=flow_run_id),
        source=Source.POLL if first.source is Source.CALLBACK else first.source,
        observed_at=max(group.observed_at for group in groups),
        requested_at=min((at for group in groups if (at := group.requested_at)), default=None),
        native_status=RUNNING_WORD if has_started else PENDING_WORD,
        may_have_ended=all(has_ended(group.native_status) for group in groups),
        created_at=created_at,
        approximate=() if created_at is None else ("created_at",),
        pipeline=pipelines[0] if pipelines else None,
        trigger=first.trigger,
        owner=owners[0] if owners else None,
    )


def flow_run_observation(
    row: FlowRunRow,
    *,
    key: RunKey,
    native_status: str | None,
    source: Source,
    observed_at: datetime,
) -> Observation:
    """Read a flow run's own record; its status comes from another read."""
    flow = row.flow_id
    pipeline = Pipeline(kind=PipelineKind.FLOW, id=flow, name=row.flow_name) if flow else None
    return Observation(
        key=key,
        source=source,
        observed_at=observed_at,
        native_status=native_status,
        created_at=row.created_at,
        pipeline=pipeline,
        trigger=Trigger.SCHEDULE if row.schedule_execution_id else Trigger.UNKNOWN,
    )


def with_origin(observation: Observation, parts: Sequence[RunState]) -> Observation:
    """Add what only the job groups show: the owner and, where need be, flow, trigger, creation."""
    pipelines = [part.pipeline for part in parts if part.pipeline is not None]
    triggers = [part.trigger for part in parts if part.trigger is not Trigger.UNKNOWN]
    owners = [part.owner for part in parts if part.owner is not None]
    is_scheduled = observation.trigger is Trigger.SCHEDULE
    created_at = min((part.created_at for part in parts if part.created_at), default=None)
    if observation.created_at is None and created_at is not None:
        observation = msgspec.structs.replace(
            observation, created_at=created_at, approximate=("created_at",)
        )
    return msgspec.structs.replace(
        observation,
        pipeline=observation.pipeline or (pipelines[0] if pipelines else None),
        trigger=triggers[0] if triggers and not is_scheduled else observation.trigger,
        owner=owners[0] if owners else None,
    )


def plan_run_observation(
    row: PlanRunRow,
    *,
    workspace: str,
    source: Source,
    observed_at: datetime,
    requested_at: datetime | None = None,
    plan: Pipeline | None,
) -> Observation:
    """Read one row; plan runs report their start and end themselves."""
    return Observation(
        key=RunKey(workspace=workspace, kind=RunKind.PLAN_RUN, id=row.id),
        source=source,
        observed_at=observed_at,
        requested_at=requested_at,
        native_status=row.native_status,
        created_at=row.created_at,
        started_at=row.started_at,
        finished_at=row.finished_at,
        finished_by=None if row.finished_at is None else EndBasis.REPORTED,
        updated_at=row.updated_at,
        pipeline=plan,
        trigger=Trigger.SCHEDULE if row.schedule_history_id else Trigger.UNKNOWN,
        owner=row.owner,
    )


def job_summary(rows: Sequence[JobRow], *, read_at: datetime | None) -> JobSummary:
    """Add up job records. A time that some records lack is approximated, and marked so.

    The end is always approximate: the records show when the jobs ended, not when their group did.
    """
    started_at, is_start_near = _start(rows)
    finished_at, finished_by = _end(rows)
    near = (("started_at", is_start_near), ("finished_at", finished_at is not None))
    return JobSummary(
        jobs=JobDetails(
            records=_records(rows),
            counts=_counts(rows),
            percent_complete=_mean(row.percent_complete for row in rows),
            heartbeat_at=max((row.heartbeat_at for row in rows if row.heartbeat_at), default=None),
            read_at=read_at,
        ),
        started_at=started_at,
        finished_at=finished_at,
        finished_by=finished_by,
        approximate=tuple(name for name, is_near in near if is_near),
        error=_first_error(rows),
        are_over=all(has_ended(row.native_status) for row in rows),
    )


def with_jobs(observation: Observation, summary: JobSummary, *, is_final: bool) -> Observation:
    """Return the observation of an ended job group enriched by its job records."""
    return msgspec.structs.replace(
        observation,
        started_at=summary.started_at,
        finished_at=summary.finished_at,
        finished_by=summary.finished_by,
        approximate=summary.approximate,
        error=summary.error or observation.error,
        jobs=summary.jobs,
        is_detail_final=is_final,
    )


def _start(rows: Sequence[JobRow]) -> tuple[datetime | None, bool]:
    reported = [row.started_at for row in rows if row.started_at is not None]
    if reported:
        return min(reported), False
    created = [row.created_at for row in rows if row.created_at is not None]
    return (min(created), True) if created else (None, False)


def _end(rows: Sequence[JobRow]) -> tuple[datetime | None, EndBasis | None]:
    nearest = [row.finished_at or row.updated_at for row in rows]
    known = [at for at in nearest if at is not None]
    if not known:
        return None, None
    is_derived = all(row.finished_at is not None for row in rows)
    return max(known), EndBasis.DERIVED if is_derived else EndBasis.LAST_WRITE


def _records(rows: Sequence[JobRow]) -> tuple[JobRecord, ...]:
    """Return what is kept of each; of too many the first ones, those that failed before others."""
    kept = sorted(range(len(rows)), key=lambda place: _job_status(rows[place]) != Status.FAILED)
    shows_starts = any(row.started_at is not None for row in rows)
    return tuple(
        _record(rows[place], shows_starts=shows_starts)
        for place in sorted(kept[:_KEPT_JOB_RECORDS])
    )


def _record(row: JobRow, *, shows_starts: bool) -> JobRecord:
    status = _job_status(row)
    started_at, ended_at = row.started_at, row.finished_at
    # Where others show their start, a job without one has not started. A record is made before
    # its job starts, and written for the last time when it ends, or later.
    if started_at is None and not shows_starts and status != Status.PENDING:
        started_at = row.created_at
    if ended_at is None and has_ended(row.native_status):
        ended_at = row.updated_at
    near = (
        ("started_at", started_at is not row.started_at),
        ("ended_at", ended_at is not row.finished_at),
    )
    return JobRecord(
        id=row.id,
        # Few words for many jobs: each is in memory once.
        job_type=sys.intern(_job_type(row)),
        status=sys.intern(str(status)),
        started_at=started_at,
        ended_at=ended_at,
        approximate=tuple(name for name, is_near in near if is_near),
    )


def _job_type(row: JobRow) -> str:
    return row.job_type or "unknown"


def _job_status(row: JobRow) -> str:
    return status_of(row.native_status) or row.native_status or "unknown"


def _counts(rows: Sequence[JobRow]) -> tuple[JobCount, ...]:
    counted = Counter((_job_type(row), _job_status(row)) for row in rows)
    return tuple(
        JobCount(job_type=job_type, status=str(status), count=count)
        for (job_type, status), count in sorted(counted.items())
    )


def _mean(percents: Iterable[float | None]) -> float | None:
    reported = [percent for percent in percents if percent is not None]
    return sum(reported) / len(reported) if reported else None


def _first_error(rows: Sequence[JobRow]) -> str | None:
    failed = [row for row in rows if row.error]
    # The job that failed first is the cause; the others mostly failed because of it.
    dated = [row for row in failed if (row.finished_at or row.updated_at) is not None]
    ordered = sorted(dated, key=lambda row: row.finished_at or row.updated_at)  # type: ignore[arg-type,return-value]  # filtered above
    return ordered[0].error if ordered else (failed[0].error if failed else None)


def known_end(run: RunState) -> Observation:
    """Return the end that is known of a run, to which its job records are to be added."""
    return Observation(
        key=run.key,
        source=Source.DETAIL,
        observed_at=run.confirmed_at,
        native_status=run.native_status,
        updated_at=run.updated_at,
    )
