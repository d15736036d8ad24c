"""Finds what a workspace never shows to its token, so that it cannot be watched. Pure.

What was shown before and is refused now is no matter of this: see `why_unwatched`.
"""

from __future__ import annotations

from datetime import timedelta

from monitor.alerting.rules.contract import Subject
from monitor.alerting.rules.rule_settings import RuleKind, RuleSettings
from monitor.catalogue.capabilities import Capability, capabilities_of
from monitor.catalogue.operations import Edition
from monitor.model.live_state import SCHEDULES, WorkspaceStatus
from monitor.model.runs import RunKind, RunState, Status

_JOB_RECORDS = "job_records"
_NEEDS: dict[str, tuple[str, tuple[Capability, ...]]] = {
    RunKind.JOB_GROUP: ("lists no runs", (Capability.LIST_CHANGES,)),
    RunKind.FLOW_RUN: (
        "lists no flow runs",
        (Capability.LIST_CHANGES, Capability.FOLLOW_FLOW_RUNS),
    ),
    RunKind.PLAN_RUN: ("lists no plan runs", (Capability.LIST_PLAN_RUNS,)),
    SCHEDULES: ("lists no schedules", (Capability.READ_SCHEDULES,)),
    _JOB_RECORDS: ("shows no job records", (Capability.READ_JOBS,)),
}
_SILENT_FOR = timedelta(minutes=5)  # a job that has just begun may show nothing yet


def why_never(status: WorkspaceStatus, what: str) -> str | None:
    """Return why a kind of run, or `SCHEDULES`, is never listed; None where it is."""
    words, needs = _NEEDS[what]
    missing = [need for need in needs if need not in status.capabilities]
    if not missing or not status.capabilities:
        return None
    edition = Edition(status.edition or Edition.OPEN)
    if edition is Edition.OPEN:
        why = f"the workspace {words}, as far as this token sees"
    elif missing[0] in capabilities_of(edition):
        why = f"to this token the workspace {words}, although its edition {edition} can"
    else:
        why = f"edition {edition} {words}"
    if what == RunKind.JOB_GROUP and Capability.FOLLOW_BY_ID in status.capabilities:
        why += "; only those are followed that a callback, `track` or the configuration names"
    return why


def why_limited(status: WorkspaceStatus) -> str | None:
    """Return why runs are seen there only if they are named; None where all are, or none is."""
    if Capability.FOLLOW_BY_ID not in status.capabilities:
        return None
    return why_never(status, RunKind.JOB_GROUP)


def why_no_progress(run: RunState, status: WorkspaceStatus) -> str | None:
    """Return why no rule can say how a job group is doing that is at work for a while."""
    begun_at, jobs = run.started_at or run.created_at, run.jobs
    if run.key.kind is not RunKind.JOB_GROUP or run.status is not Status.RUNNING:
        return None
    if begun_at is None or status.time_there(run.confirmed_at) - begun_at < _SILENT_FOR:
        return None
    if (never := why_never(status, _JOB_RECORDS)) is not None:
        return never
    if jobs is None or jobs.read_at is None or jobs.heartbeat_at is not None:
        return None
    is_silent = jobs.percent_complete is None
    return "job records show neither heartbeat nor percentage" if is_silent else None


def why_unread(
    status: WorkspaceStatus | None,
    rule: RuleSettings,
    subject: Subject,
    run: RunState | None = None,
) -> str | None:
    """Return why a rule has no data of a subject, or of an active run; None where it has."""
    if status is None:
        return None
    why = None
    is_limited = subject.kind is RunKind.JOB_GROUP and why_limited(status) is not None
    if subject.kind in (RunKind.JOB_GROUP, RunKind.PLAN_RUN) and not is_limited:
        why = why_never(status, subject.kind)
    if rule.rule is RuleKind.SCHEDULE_DISABLED or (
        rule.rule is RuleKind.SCHEDULE_MISSED and rule.expect is None
    ):
        why = why or why_never(status, SCHEDULES)
    if rule.rule is RuleKind.RUN_STUCK and subject.kind is RunKind.JOB_GROUP:
        records = why_never(status, _JOB_RECORDS) if run is None else why_no_progress(run, status)
        why = why or records
    return why
