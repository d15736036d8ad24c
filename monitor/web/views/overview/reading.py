"""What is being read for the first time, in words: the status line must not speak of it yet."""

from __future__ import annotations

from datetime import datetime, timedelta

from monitor.model.live_state import WorkspaceStatus
from monitor.tracking.live_state import LiveStateView

_NAMED = 2  # runs
_NAMED_FOR = timedelta(hours=1)  # after the last attempt; what still matters is tried more often


def first_reads_of(live: LiveStateView, status: WorkspaceStatus) -> str | None:
    """Return such as "reading: flows, schedules"; None where all was read once."""
    reads = live.first_reads(status.workspace)
    return f"{_named('reading', live, status)}: {', '.join(reads)}" if reads else None


def history_of(live: LiveStateView, status: WorkspaceStatus) -> str | None:
    """Return such as "history: 6 of 24 h read"; None where no more of it is read."""
    if status.history is None or status.history.is_over or status.history.words is None:
        return None
    return f"{_named('history', live, status)}: {status.history.words}"


def unreadable_of(live: LiveStateView, status: WorkspaceStatus, now: datetime) -> str | None:
    """Return such as "not readable: flow run 31"; None where each run was read."""
    runs = [
        f"{run.kind.replace('_', ' ')} {run.id}"
        for run in status.unreadable
        if now - run.tried_at <= _NAMED_FOR
    ]
    more = f" and {len(runs) - _NAMED} more" if len(runs) > _NAMED else ""
    words = ", ".join(runs[:_NAMED]) + more
    return f"{_named('not readable', live, status)}: {words}" if runs else None


def _named(word: str, live: LiveStateView, status: WorkspaceStatus) -> str:
    return word if len(live.workspaces()) == 1 else f"{word} of {status.workspace}"
