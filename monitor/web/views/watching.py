"""What of a workspace is not watched, and why: also what it never offered, or not to this token."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from types import MappingProxyType

from msgspec import Struct

from monitor.catalogue.capabilities import Capability, capabilities_of
from monitor.catalogue.operations import Edition
from monitor.model.live_state import SCHEDULES, ActiveRun, Reachability, WorkspaceStatus
from monitor.model.runs import RunKind, Status
from monitor.tracking.live_state import WATCHED_BY, LiveStateView

_NEEDS: Mapping[str, tuple[Capability, ...]] = MappingProxyType(
    {
        RunKind.JOB_GROUP: (Capability.LIST_CHANGES,),
        RunKind.FLOW_RUN: (Capability.LIST_CHANGES, Capability.FOLLOW_FLOW_RUNS),
        RunKind.PLAN_RUN: (Capability.LIST_PLAN_RUNS,),
        SCHEDULES: (Capability.READ_SCHEDULES,),
    }
)
_WORDS: Mapping[str, str] = MappingProxyType(
    {
        RunKind.JOB_GROUP: "lists no runs",
        RunKind.FLOW_RUN: "lists no flow runs",
        RunKind.PLAN_RUN: "lists no plan runs",
        SCHEDULES: "lists no schedules",
    }
)


PROGRESS = "progress_of_job_group"
_SILENT_FOR = timedelta(minutes=5)  # a job that has just begun may show nothing yet


class Unwatched(Struct, frozen=True, kw_only=True):
    """What nothing new is known of: a kind of run, or schedules; or what of it nobody sees."""

    what: str
    reason: str


def unwatched(live: LiveStateView, status: WorkspaceStatus) -> tuple[Unwatched, ...]:
    """Return what is not watched of a workspace now, for whatever reason."""
    reasons = {what: why_not_watched(live, status, what) for what in WATCHED_BY}
    return tuple(
        Unwatched(what=what, reason=reason)
        for what, reason in reasons.items()
        if reason is not None
    )


def unlisted(status: WorkspaceStatus) -> tuple[Unwatched, ...]:
    """Return the kinds of runs of which no list shows some."""
    return tuple(
        Unwatched(
            what=f"unlisted_{runs.kind}",
            reason=f"no list shows {_such_as(runs.count, runs.ids)}, which the workspace shows by "
            "id: others like that are seen only where a callback or `track` names them",
        )
        for runs in status.unlisted
    )


def shows_no_progress(active: ActiveRun, status: WorkspaceStatus, now: datetime) -> bool:
    """True of a job group that is at work for a while, and of which no rule can say how."""
    run = active.run
    begun_at = run.started_at or run.created_at
    if run.key.kind is not RunKind.JOB_GROUP or run.status is not Status.RUNNING:
        return False
    if begun_at is None or status.time_there(now) - begun_at < _SILENT_FOR:
        return False
    if Capability.READ_JOBS not in status.capabilities:
        return True
    jobs = run.jobs
    is_read = jobs is not None and jobs.read_at is not None
    return is_read and active.percent_complete is None and active.heartbeat_at is None


def without_progress(status: WorkspaceStatus, run_ids: Sequence[str]) -> tuple[Unwatched, ...]:
    """Return that the progress of these job groups is not watched; nothing of none."""
    if not run_ids:
        return ()
    can_read = Capability.READ_JOBS in status.capabilities
    why = "their job records show neither heartbeat nor percentage"
    why = why if can_read else "the workspace shows no job records of them"
    runs = _such_as(len(run_ids), sorted(run_ids))
    return (Unwatched(what=PROGRESS, reason=f"run_stuck cannot judge {runs}: {why}"),)


def _such_as(count: int, ids: Sequence[str]) -> str:
    if count == 1:
        return f"run {ids[0]}"
    return f"{count:,} runs, such as {' and '.join(ids[:2])}"


def why_not_watched(live: LiveStateView, status: WorkspaceStatus, what: str) -> str | None:
    """Return why nothing new is seen of a kind of run, or of `SCHEDULES`; None while it is."""
    return live.why_unwatched(status.workspace, what) or _why_never(status, what)


def why_limited(status: WorkspaceStatus) -> str | None:
    """Return why only runs are seen there that somebody names; None where all are, or none is."""
    if Capability.FOLLOW_BY_ID not in status.capabilities:
        return None
    return _why_never(status, RunKind.JOB_GROUP)


def why_blind(status: WorkspaceStatus) -> str | None:
    """Return why no run can be seen there at all, although the workspace may answer."""
    is_new = status.edition is None and status.reason is None
    if is_new or why_limited(status) is not None:
        return None
    return _why_never(status, RunKind.JOB_GROUP)


def _why_never(status: WorkspaceStatus, what: str) -> str | None:
    if not status.capabilities and status.edition is None:
        return _why_nothing_read(status)
    missing = [need for need in _NEEDS[what] if need not in status.capabilities]
    if not missing or not status.capabilities:
        return None
    edition = Edition(status.edition or Edition.OPEN)
    if edition is Edition.OPEN:
        why = f"the workspace {_WORDS[what]}, as far as this token sees"
    elif missing[0] in capabilities_of(edition):
        why = f"to this token the workspace {_WORDS[what]}, although its edition {edition} can"
    else:
        why = f"edition {edition} {_WORDS[what]}"
    if what == RunKind.JOB_GROUP and Capability.FOLLOW_BY_ID in status.capabilities:
        why += "; only those are followed that a callback, `track` or the configuration names"
    return why


def _why_nothing_read(status: WorkspaceStatus) -> str | None:
    if status.reachability is Reachability.REACHABLE:
        return None  # it has just answered
    return f"nothing could be read yet: {status.reason or 'the workspace has not answered'}"
