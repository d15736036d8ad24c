"""What the rules of a workspace cannot judge there, because it never shows their data. Pure."""

from __future__ import annotations

from monitor.alerting.rules.contract import Subject
from monitor.alerting.rules.rule_settings import RuleKind, RuleSettings
from monitor.model.live_state import WorkspaceStatus
from monitor.model.runs import PipelineKind, RunKind, RunState, Status

# What is needed, in words, and the capabilities of which one does.
_SCHEDULES = ("schedules", {"read_schedules"})
_RUNS = {
    RunKind.JOB_GROUP: ("runs", {"list_changes", "follow_by_id"}),
    RunKind.PLAN_RUN: ("plan runs", {"list_plan_runs"}),
}
_JOB_RECORDS = ("job records", {"read_jobs"})


def why_unread(
    status: WorkspaceStatus | None,
    rule: RuleSettings,
    subject: Subject,
    run: RunState | None = None,
) -> str | None:
    """Return why a rule has no data of a subject, or of an active run; None where it has.

    What was shown before and is refused now is no matter of this: see `why_unwatched`.
    """
    if status is None or not status.capabilities:
        return None
    needs = [_RUNS[subject.kind]] if subject.kind in _RUNS else []
    if rule.rule is RuleKind.SCHEDULE_DISABLED or (
        rule.rule is RuleKind.SCHEDULE_MISSED and rule.expect is None
    ):
        needs.append(_SCHEDULES)
    if rule.rule is RuleKind.RUN_STUCK and subject.kind is RunKind.JOB_GROUP:
        needs.append(_JOB_RECORDS)
    for words, capabilities in needs:
        if status.capabilities.isdisjoint(capabilities):
            edition = f" (edition {status.edition})" if status.edition else ""
            return f"{status.workspace}{edition} shows no {words} to its token"
    if rule.rule is RuleKind.RUN_STUCK and run is not None and _is_without_progress(run):
        return "its job records show neither heartbeat nor percentage"
    return None


def why_only_named(status: WorkspaceStatus | None, kind: PipelineKind) -> str | None:
    """Return that of a flow only runs are seen that somebody names; None where all are."""
    if status is None or kind is not PipelineKind.FLOW or "list_changes" in status.capabilities:
        return None
    if "follow_by_id" not in status.capabilities:
        return None
    return "no list shows job groups there; those are seen that a callback or `track` names"


def _is_without_progress(run: RunState) -> bool:
    jobs = run.jobs
    if run.key.kind is not RunKind.JOB_GROUP or run.status is not Status.RUNNING or jobs is None:
        return False
    is_read = jobs.read_at is not None
    return is_read and jobs.heartbeat_at is None and jobs.percent_complete is None
