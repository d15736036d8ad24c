"""run_stuck: an active run shows no progress, by heartbeat, percentage or state of its jobs."""

from __future__ import annotations

from datetime import datetime, timedelta
from functools import partial

from monitor.alerting.rules.contract import (
    MATCH_RUNS,
    MINUTE,
    OUTAGES,
    RuleDefinition,
    StateInput,
    SubjectKind,
    seconds,
)
from monitor.alerting.rules.facts import PipelineFacts
from monitor.alerting.rules.late_runs import (
    END_EVENTS,
    DueRun,
    JobProgress,
    LateRuns,
    evaluate_late_runs,
    on_end_event,
    run_name,
)
from monitor.alerting.rules.rule_settings import RuleKind, RuleSettings
from monitor.model.events import EventType
from monitor.model.runs import JobDetails, RunKind, RunState, Status

_THRESHOLD = seconds("seconds without a sign while executing", 15 * MINUTE)
_WAITING_FACTOR = 4.0  # a queue is allowed more silence than work


def _stuck(
    run: RunState,
    as_of: datetime,
    _: StateInput[PipelineFacts],
    before: LateRuns,
    rule: RuleSettings,
) -> DueRun | None:
    threshold = timedelta(seconds=_THRESHOLD.value(rule.threshold))
    if run.status is Status.PENDING:
        return _stuck_in_queue(run, as_of, threshold)
    if run.key.kind is not RunKind.JOB_GROUP:
        return None  # only job groups have job records
    return _stuck_at_work(run, as_of, before.progress.get(run_name(run.key)), threshold)


def _stuck_in_queue(run: RunState, as_of: datetime, threshold: timedelta) -> DueRun | None:
    if run.created_at is None:
        return None
    return DueRun(
        run=run,
        as_of=as_of,
        due=run.created_at + _WAITING_FACTOR * threshold,
        evidence=EventType.RUN_QUEUED,
        facts={
            "run": run.key.id,
            "stuck_seconds": (as_of - run.created_at).total_seconds(),
            "percent_complete": None,
        },
    )


def _stuck_at_work(
    run: RunState, as_of: datetime, before: JobProgress | None, threshold: timedelta
) -> DueRun | None:
    progress = newest_progress(before, run.jobs)
    if progress is None:
        return None
    read_at = run.jobs.read_at if run.jobs is not None else None
    if read_at is None:
        # Since a restart: the store holds what job records said, but not when they said it.
        return DueRun(run=run, as_of=as_of, due=None, progress=progress)
    return DueRun(
        run=run,
        as_of=read_at,
        due=progress.at + threshold,
        facts={
            "run": run.key.id,
            "stuck_seconds": (read_at - progress.at).total_seconds(),
            "percent_complete": progress.percent,
        },
        progress=progress,
    )


def newest_progress(before: JobProgress | None, jobs: JobDetails | None) -> JobProgress | None:
    """Return the progress as of the newest job records; None where they can show none.

    A heartbeat counts as of its own stamp. A percentage, or a job that began or ended, moved at
    some moment before the read that first shows it, and so counts as of that read.
    """
    if jobs is None or jobs.read_at is None:
        return before
    if jobs.percent_complete is None and jobs.heartbeat_at is None:
        return None
    counts = " ".join(f"{count.job_type}:{count.status}:{count.count}" for count in jobs.counts)
    # The stamps are of other machines: a heartbeat of the future counts as of now.
    beat_at = min(jobs.heartbeat_at or jobs.read_at, jobs.read_at)
    if before is None:
        at = beat_at
    elif (before.percent, before.jobs) != (jobs.percent_complete, counts):
        at = jobs.read_at
    elif jobs.heartbeat_at is not None and jobs.heartbeat_at != before.heartbeat_at:
        at = max(before.at, beat_at)
    else:
        return before
    return JobProgress(
        at=at, percent=jobs.percent_complete, heartbeat_at=jobs.heartbeat_at, jobs=counts
    )


DEFINITION = RuleDefinition(
    rule=RuleKind.RUN_STUCK,
    subject_kind=SubjectKind.PIPELINE,
    memory=LateRuns,
    event_types=END_EVENTS,
    on_event=on_end_event,
    evaluate=partial(evaluate_late_runs, check=_stuck),
    about="A run neither ends nor shows progress or a heartbeat; waiting ones have four times "
    "as long.",
    summary="{pipeline} makes no progress in {workspace}",
    description="Run {run} has shown no sign for {stuck_seconds:duration}.",
    template_fields=("run", "stuck_seconds", "percent_complete"),
    match=MATCH_RUNS,
    threshold=_THRESHOLD,
    inhibited_by=OUTAGES,
    not_recorded="the event log does not hold the progress of jobs",
)
