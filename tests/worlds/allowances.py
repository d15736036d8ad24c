"""How the daemon of the worlds is set, and how long it may take to report what is shown.

An allowance is generous: it holds for the slowest way on which a fact can become known, with all
waits at their longest. Only seconds count in which the daemon runs and the workspace answers.
"""

from __future__ import annotations

from collections.abc import Sequence

from monitor.polling.settings import PollSettings
from tests.worlds.script import NEVER, Span

POLL = PollSettings(
    active_seconds=6,
    idle_seconds=10,
    wake_gap_seconds=1,
    reconcile_seconds=40,
    relist_seconds=120,
    overlap_seconds=20,
    first_look_seconds=3_600,
    names_seconds=40,
    schedules_seconds=60,
    detail_wait_seconds=6,
    progress_seconds=20,
    flow_run_wait_cap_seconds=10,
    connect_wait_cap_seconds=5,
)
FOR_SECONDS = 30.0  # of the second rule about failures
REPORT_SECONDS = 60.0  # poll, details, a flow run's waits, wait for the plan of a part
LINK_SECONDS = 20.0  # to link a run that has appeared to the plan run that names it
RELIST_SECONDS = POLL.relist_seconds * 1.1 + REPORT_SECONDS
RECONCILE_SECONDS = POLL.reconcile_seconds * 1.1 + REPORT_SECONDS
LOST_SECONDS = 3 * POLL.reconcile_seconds * 1.1 + REPORT_SECONDS
# A flow is gone when two lists in a row omit it.
DELETED_SECONDS = 4 * POLL.names_seconds * 1.1 + REPORT_SECONDS
_RECOVERY_SECONDS = 25.0  # to connect again after an outage or a start
# A change that is shown so much later than it was written may lie behind the overlap.
BEHIND_OVERLAP_SECONDS = POLL.overlap_seconds - POLL.idle_seconds - 4


def due(at: float, seconds: float, blind: Sequence[Span]) -> float:
    """Return when ``seconds`` in which the daemon can read have passed since ``at``."""
    if at == NEVER:
        return NEVER
    left, now = seconds, at
    for span in sorted(blind, key=lambda span: span.begin):
        if span.end + _RECOVERY_SECONDS <= now:
            continue
        before = max(0.0, span.begin - now)
        if before >= left:
            break
        left -= before
        now = max(now, span.end + _RECOVERY_SECONDS)
    return now + left


def last_unfinished_read(at: float, blind: Sequence[Span]) -> float:
    """Return a time before which the last read that showed no end cannot lie."""
    reached = at - REPORT_SECONDS
    for span in sorted(blind, key=lambda span: -span.begin):
        if span.begin - REPORT_SECONDS < at and span.end + _RECOVERY_SECONDS > reached:
            reached = min(reached, span.begin - REPORT_SECONDS)
    return reached
