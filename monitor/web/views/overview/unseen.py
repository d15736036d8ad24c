"""Words for what of a workspace is not observed yet, or never, for the status line."""

from __future__ import annotations

from datetime import datetime, timedelta

from monitor.model.live_state import Reachability, WorkspaceStatus
from monitor.model.runs import PipelineKind
from monitor.tracking.live_state import WATCHED_BY
from monitor.web.shown_live_state import ShownLiveState
from monitor.web.views.overview.overview import Overview
from monitor.web.views.overview.pipeline_state import PipelineCondition
from monitor.web.views.watching import why_blind

_WHY_CHARACTERS = 80
_NAMED = 2  # runs
_NAMED_FOR = timedelta(hours=1)  # after the last attempt; what still matters is tried more often


def why_unseen(live: ShownLiveState, overview: Overview, status: WorkspaceStatus) -> str | None:
    """Return such as "acme is unreachable", None where blindness hides nothing.

    Runs of plans that were never read hide nothing where no plan is known: an edition may have
    none. Runs of flows hide flows that nobody knows of: every edition has them.
    """
    name = status.workspace
    if status.reachability is Reachability.UNREACHABLE:
        return f"{name} {status.how_unreachable}"
    if status.reachability is Reachability.UNKNOWN:
        return f"{name} has not answered yet"
    if (never := why_blind(status)) is not None:
        return f"{name}: {never[:_WHY_CHARACTERS]}"
    whys = [overview.blind.get((name, PipelineKind.FLOW))]
    if overview.count(PipelineCondition.UNKNOWN, name):
        whys.append(overview.blind.get((name, PipelineKind.PLAN)))
    whys += [live.why_unwatched(name, what) for what in WATCHED_BY]
    whys.append(overview.starved.get(name))
    why = next((why for why in whys if why is not None), None)
    return None if why is None else f"{name}: {why[:_WHY_CHARACTERS]}"


def first_reads_of(live: ShownLiveState, status: WorkspaceStatus) -> str | None:
    """Return such as "reading: flows, schedules"; None where all was read once."""
    reads = live.first_reads(status.workspace)
    return f"{_named('reading', live, status)}: {', '.join(reads)}" if reads else None


def history_of(live: ShownLiveState, status: WorkspaceStatus) -> str | None:
    """Return such as "history: 6 of 24 h read"; None where no more of it is read."""
    if status.history is None or status.history.is_over or status.history.words is None:
        return None
    return f"{_named('history', live, status)}: {status.history.words}"


def unreadable_of(live: ShownLiveState, status: WorkspaceStatus, now: datetime) -> str | None:
    """Return such as "not readable: flow run 31"; None where each run was read."""
    runs = [
        f"{run.kind.replace('_', ' ')} {run.id}"
        for run in status.unreadable
        if now - run.tried_at <= _NAMED_FOR
    ]
    more = f" and {len(runs) - _NAMED} more" if len(runs) > _NAMED else ""
    words = ", ".join(runs[:_NAMED]) + more
    return f"{_named('not readable', live, status)}: {words}" if runs else None


def _named(word: str, live: ShownLiveState, status: WorkspaceStatus) -> str:
    return word if len(live.workspaces()) == 1 else f"{word} of {status.workspace}"
