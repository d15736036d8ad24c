"""What of a workspace is not watched, and why: also what it never offered, or not to this token."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from msgspec import Struct

from monitor.catalogue.capabilities import Capability, capabilities_of
from monitor.catalogue.operations import Edition
from monitor.model.live_state import SCHEDULES, Reachability, WorkspaceStatus
from monitor.model.runs import RunKind
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


class Unwatched(Struct, frozen=True, kw_only=True):
    """What nothing new is known of: a kind of run, or schedules."""

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
