"""run_stuck: an active run shows no progress, by heartbeat, percentage or state of its jobs.

A flow run or plan run has no job records. It is stuck where no run in it is active and its record
is not written for long.
"""

from __future__ import annotations

from datetime import datetime, timedelta

import msgspec

from monitor.alerting.rules.contract import MINUTE, Facts, seconds
from monitor.alerting.rules.late_runs import ActiveRunInput, DueRun, JobProgress, late_run_rule
from monitor.alerting.rules.rule_settings import RuleKind, RuleSettings
from monitor.model.runs import JobDetails, RunKind, RunState, Status
from monitor.model.words import iso

# A queue is allowed more silence than work; so is a plan, whose tasks may make no runs.
_WAITING_FACTOR = 4.0
# When a run was last at work is remembered to this: a commit in each cycle would be too many.
_AT_WORK_STEP = timedelta(minutes=1)


def _stuck(run_input: ActiveRunInput, rule: RuleSettings) -> DueRun | None:
    run, as_of, threshold = run_input.run, run_input.as_of, timedelta(seconds=rule.threshold)
    if run.status is Status.PENDING:
        if run.created_at is None:
            return None
        return _due(run, run.created_at, _WAITING_FACTOR * threshold, as_of=as_of)
    if run.key.kind is not RunKind.JOB_GROUP:
        return _hanging(run_input, _WAITING_FACTOR * threshold)
    progress = newest_progress(run_input.progress, run.jobs)
    if progress is None:
        return None
    read_at = run.jobs.read_at if run.jobs is not None else None
    if read_at is None:
        # Since a restart: the store holds what job records said, but not when they said it.
        return DueRun(as_of=as_of, due=None, progress=progress)
    # The heartbeat's clock may be behind the one of the record, which is older than any sign.
    since = max(progress.at, run.created_at or progress.at)
    return _due(run, since, threshold, as_of=read_at, progress=progress)


def _hanging(run_input: ActiveRunInput, threshold: timedelta) -> DueRun | None:
    run, as_of, progress = run_input.run, run_input.as_of, run_input.progress
    begun_at = run.started_at or run.created_at
    if begun_at is None:
        return None
    if progress is not None and progress.at > as_of:
        progress = JobProgress(at=as_of)  # of a clock that was set back since
    if run.key in run_input.facts.at_work:
        if progress is None or as_of - progress.at >= _AT_WORK_STEP:
            progress = JobProgress(at=as_of)
        return DueRun(as_of=as_of, due=as_of + threshold, progress=progress)
    signs = (
        begun_at,
        run.created_at,
        run.updated_at,
        progress.at if progress is not None else None,
    )
    since = max(sign for sign in signs if sign is not None)
    late_since = run_input.late_since
    # Late until there is a sign: a restart forgets when it was read last.
    is_late = late_since is not None and since + threshold <= late_since
    read_at = as_of if is_late else run.unfinished_at
    if read_at is None:
        return DueRun(as_of=as_of, due=None, progress=progress)
    return _due(run, since, threshold, as_of=min(read_at, as_of), progress=progress)


def _due(
    run: RunState,
    since: datetime,
    threshold: timedelta,
    *,
    as_of: datetime,
    progress: JobProgress | None = None,
) -> DueRun:
    facts: Facts = {
        "run": run.key.id,
        "last_sign_at": iso(since),
        "limit_seconds": threshold.total_seconds(),
        "percent_complete": None if progress is None else progress.percent,
    }
    return DueRun(as_of=as_of, due=since + threshold, facts=facts, progress=progress)


def newest_progress(before: JobProgress | None, jobs: JobDetails | None) -> JobProgress | None:
    """Return the progress as of the newest job records; None where they can show none.

    A heartbeat counts as of its own stamp. A percentage, or a job that began or ended, moved at
    some moment before the read that first shows it, and so counts as of that read.
    """
    if jobs is None or jobs.read_at is None:
        return before
    if before is not None and before.at > jobs.read_at:  # of a clock that was set back since
        before = msgspec.structs.replace(before, at=jobs.read_at)
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


DEFINITION = late_run_rule(
    RuleKind.RUN_STUCK,
    _stuck,
    about="A run neither ends nor shows progress or a heartbeat; waiting ones, and flow runs and "
    "plan runs in which nothing is active, have four times as long.",
    summary="{pipeline} {makes|made} no progress in {workspace}",
    description="Run {run} {has shown|showed} no sign {last_sign_at:since}, and "
    "{limit_seconds:duration} {is|was} the limit.",
    template_fields=("run", "last_sign_at", "limit_seconds", "percent_complete"),
    threshold=seconds("seconds without a sign while executing", 15 * MINUTE),
    not_recorded="the event log does not hold the progress of jobs",
)
