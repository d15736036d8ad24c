"""Parts of a workspace that are not watched, and why: also what its token never showed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from msgspec import Struct

from monitor.alerting.explain.never_shown import why_limited, why_never
from monitor.model.live_state import Reachability, WorkspaceStatus
from monitor.model.runs import RunKind
from monitor.tracking.live_state import WATCHED_BY
from monitor.web.shown_shards import ShownLiveState

PROGRESS = "progress_of_job_group"


class Unwatched(Struct, frozen=True, kw_only=True):
    """A kind of run, or schedules, without news; or the part of them that is hidden."""

    what: str
    reason: str


def unwatched(live: ShownLiveState, status: WorkspaceStatus) -> tuple[Unwatched, ...]:
    """Return what is not watched of a workspace now, for whatever reason."""
    reasons = {what: why_not_watched(live, status, what) for what in WATCHED_BY}
    return tuple(
        Unwatched(what=what, reason=reason)
        for what, reason in reasons.items()
        if reason is not None
    )


def unlisted(status: WorkspaceStatus) -> tuple[Unwatched, ...]:
    """Return the kinds of runs with some that no list shows."""
    return tuple(
        Unwatched(
            what=f"unlisted_{runs.kind}",
            reason=f"no list shows {_such_as(runs.count, runs.ids)}, which the workspace shows by "
            "id: others like that are seen only where a callback or `track` names them",
        )
        for runs in status.unlisted
    )


def without_progress(silent: Mapping[str, str]) -> tuple[Unwatched, ...]:
    """Return that the progress of these job groups is not watched, by their reasons."""
    if not silent:
        return ()
    runs, why = _such_as(len(silent), sorted(silent)), next(iter(silent.values()))
    return (Unwatched(what=PROGRESS, reason=f"run_stuck cannot judge {runs}: {why}"),)


def _such_as(count: int, ids: Sequence[str]) -> str:
    if count == 1:
        return f"run {ids[0]}"
    return f"{count:,} runs, such as {' and '.join(ids[:2])}"


def why_not_watched(live: ShownLiveState, status: WorkspaceStatus, what: str) -> str | None:
    """Return why nothing new is seen of a kind of run, or of `SCHEDULES`; None while it is."""
    return live.why_unwatched(status.workspace, what) or _why_never(status, what)


def why_blind(status: WorkspaceStatus) -> str | None:
    """Return why no run can be seen there at all, although the workspace may answer."""
    is_new = status.edition is None and status.reason is None
    if is_new or why_limited(status) is not None:
        return None
    return _why_never(status, RunKind.JOB_GROUP)


def _why_never(status: WorkspaceStatus, what: str) -> str | None:
    if not status.capabilities and status.edition is None:
        return _why_nothing_read(status)
    return why_never(status, what)


def _why_nothing_read(status: WorkspaceStatus) -> str | None:
    if status.reachability is Reachability.REACHABLE:
        return None  # it has just answered
    return f"nothing could be read yet: {status.reason or 'the workspace has not answered'}"
