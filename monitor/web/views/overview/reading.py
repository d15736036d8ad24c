"""What is being read for the first time, in words: the status line must not speak of it yet."""

from __future__ import annotations

from monitor.model.live_state import WorkspaceStatus
from monitor.tracking.live_state import LiveStateView


def first_reads_of(live: LiveStateView, status: WorkspaceStatus) -> str | None:
    """Return such as "reading: flows, schedules"; None where all was read once."""
    reads = live.first_reads(status.workspace)
    return f"{_named('reading', live, status)}: {', '.join(reads)}" if reads else None


def history_of(live: LiveStateView, status: WorkspaceStatus) -> str | None:
    """Return such as "history: 6 of 24 h read"; None where no more of it is read."""
    if status.history is None or status.history.is_over or status.history.words is None:
        return None
    return f"{_named('history', live, status)}: {status.history.words}"


def _named(word: str, live: LiveStateView, status: WorkspaceStatus) -> str:
    return word if len(live.workspaces()) == 1 else f"{word} of {status.workspace}"
