"""How the daemon of the worlds is set, and how long it may take to report what is shown.

An allowance is generous: it holds for the slowest way on which a fact can become known, with all
waits at their longest. Only seconds count in which the daemon runs and the workspace answers.
"""

from __future__ import annotations

from collections.abc import Sequence

from monitor.polling.settings import PollSettings
from tests.worlds.impairments import Span
from tests.worlds.script import NEVER

POLL = PollSettings(
    active_seconds=6,
    idle_seconds=10,
    wake_gap_seconds=1,
    reconcile_seconds=40,
    relist_seconds=120,
    overlap_seconds=20,
    first_look_seconds=3_600,
    names_seconds=40,
    schedules_seconds=20,
    detail_wait_seconds=6,
    progress_seconds=20,
    flow_run_wait_cap_seconds=10,
    recovery_seconds=5,
)
FOR_SECONDS = 30.0  # of the second rule about failures
REPORT_SECONDS = 60.0  # poll, details, a flow run's waits, wait for the plan of a part
LINK_SECONDS = 20.0  # to link a run that has appeared to the plan run that names it
RELIST_SECONDS = POLL.relist_seconds * 1.1 + REPORT_SECONDS
RECONCILE_SECONDS = POLL.reconcile_seconds * 1.1 + REPORT_SECONDS
LOST_SECONDS = 3 * POLL.reconcile_seconds * 1.1 + REPORT_SECONDS
# A flow is gone when two lists in a row omit it.
DELETED_SECONDS = 4 * POLL.names_seconds * 1.1 + REPORT_SECONDS
UNREACHABLE_FOR_SECONDS = 20.0  # of the rule about workspaces
STALE_SECONDS = 60.0  # what was not confirmed for so long is unknown
GRACE_SECONDS = 25.0  # after the time at which a schedule should start something
# The schedules must have been read since, and the runs.
MISSED_SECONDS = GRACE_SECONDS + POLL.schedules_seconds * 1.1 + 2 * POLL.idle_seconds
RECOVERED_SECONDS = 30.0  # to see, and report, that it can be followed again
_UNKNOWN_LATENCY_SECONDS = 25.0  # a poll under way, and the next comparison of what is retained
_LONGEST_RETURN_SECONDS = 900.0 * 1.1  # between two attempts to read what was refused
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


def unknown_by(at: float, down: Sequence[Span]) -> float:
    """Return by when runs are shown as unknown that nothing has confirmed since a time."""
    return due(at, STALE_SECONDS + _UNKNOWN_LATENCY_SECONDS, down)


def return_seconds(span: Span) -> float:
    """Return how long what was refused may stay unread when it is served again.

    It is requested with growing waits, none longer than it was refused until then.
    """
    wait = max(POLL.reconcile_seconds, span.end - span.begin) * 1.1
    return min(wait, _LONGEST_RETURN_SECONDS)


def last_unfinished_read(at: float, blind: Sequence[Span]) -> float:
    """Return a time before which the last read that showed no end cannot lie."""
    reached = at - REPORT_SECONDS
    for span in sorted(blind, key=lambda span: -span.begin):
        if span.begin - REPORT_SECONDS < at and span.end + _RECOVERY_SECONDS > reached:
            reached = min(reached, span.begin - REPORT_SECONDS)
    return reached
