"""Findings about blindness: times without watch, and all that a report cannot know."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime, timedelta

from monitor.alerting.explain.never_shown import why_limited, why_never
from monitor.alerting.rules.contract import DAY
from monitor.bus.contract import Retention
from monitor.model.live_state import SCHEDULES, Reachability, WorkspaceStatus
from monitor.model.reports import UnwatchedTime
from monitor.model.words import counted, iso, kind_words, listed
from monitor.tracking.live_state import WATCHED_BY, LiveStateView

# A status that was not confirmed for so long is not known any more; as the page has it by default.
_STALE_AFTER_SECONDS = 600.0
_ALERTS_KEPT_SECONDS = 7 * DAY  # at least
_WHYS = {
    Reachability.UNREACHABLE: "it did not answer",
    Reachability.UNKNOWN: "no daemon watched it",
    Reachability.DEGRADED: "a part of it could not be read",
}


def unwatched(
    view: LiveStateView, workspace: str, *, since: datetime, until: datetime, now: datetime
) -> tuple[UnwatchedTime, ...]:
    """Return the times in the stretch in which it was not watched, oldest first. Our clock."""
    until = min(until, now)
    stretches = view.reachability_history(
        workspace, now=now, stale_after_seconds=_STALE_AFTER_SECONDS
    )
    return tuple(
        UnwatchedTime(
            workspace=workspace,
            since=max(stretch.since, since),
            until=min(stretch.until, until),
            why=_WHYS[stretch.reachability] + (f": {stretch.reason}" if stretch.reason else ""),
            is_partial=stretch.reachability is Reachability.DEGRADED,
        )
        for stretch in stretches
        if stretch.reachability in _WHYS and stretch.since < until and stretch.until > since
    )


def unknowns(
    view: LiveStateView,
    status: WorkspaceStatus,
    *,
    since: datetime,
    begin: datetime,
    now: datetime,
    retention: Retention,
) -> Iterator[str]:
    """Yield a sentence for each thing that cannot be known; ``begin`` is workspace time.

    It is that of the stretch before, where a report compares with it.
    """
    name, there = status.workspace, status.time_there(now)
    runs_from = there - timedelta(seconds=retention.runs_seconds)
    if begin < runs_from:
        yield f"{name}: runs that ended before {iso(runs_from)} are forgotten"
    kept_seconds = max(_ALERTS_KEPT_SECONDS, retention.events_seconds)
    if since < (alerts_from := now - timedelta(seconds=kept_seconds)):
        yield f"{name}: alerts that ended before {iso(alerts_from)} are forgotten"
    yield from _not_followed(status, begin)
    yield from _not_answered(view, status, since=since, now=now)
    if first_reads := view.first_reads(name):
        yield f"{name}: {listed(first_reads, most=4)} are read for the first time just now"
    if (limited := why_limited(status)) is not None:
        yield f"{name}: {limited}"
    for what in WATCHED_BY:
        # What the whole workspace lacks is said once; the rest by kind.
        why = view.why_unwatched(name, what) or (
            None if limited is not None or not status.capabilities else why_never(status, what)
        )
        if why is not None and status.reachability is not Reachability.UNREACHABLE:
            plural = kind_words(what) if what == SCHEDULES else f"{kind_words(what)}s"
            yield f"{name}: {plural} are not watched now: {why}"
    if status.unshared:
        hidden = counted(len(status.unshared), "pipeline")
        yield f"{name}: {hidden} known before are not shown to its token any more"
    for runs in status.unlisted:
        unlisted = counted(runs.count, kind_words(runs.kind))
        yield f"{name}: no list shows {unlisted} that its ids show; there may be more of them"


def _not_followed(status: WorkspaceStatus, begin: datetime) -> Iterator[str]:
    name, followed_since = status.workspace, status.followed_since
    if followed_since is None:
        yield f"{name}: it was not followed yet"
    elif followed_since > begin:
        words = f"{name}: it is followed since {iso(followed_since)}"
        history = None if status.history is None else status.history.words
        yield f"{words}, and of the time before only what its lists still show is known"
        if history is not None:
            yield f"{name}: its history before that is read in part: {history}"


def _not_answered(
    view: LiveStateView, status: WorkspaceStatus, *, since: datetime, now: datetime
) -> Iterator[str]:
    name = status.workspace
    history = view.reachability_history(name, now=now, stale_after_seconds=_STALE_AFTER_SECONDS)
    if not history:
        yield f"{name}: whether it answered is not known"
    elif history[0].since > since:
        yield f"{name}: whether it answered before {iso(history[0].since)} is not known"
