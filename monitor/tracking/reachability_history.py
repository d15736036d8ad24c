"""The reachability of a workspace in the last days, as a bounded number of stretches. Pure.

Each begins where the one before it ends. In one that is `Reachability.UNKNOWN` nothing was watched.
"""

from __future__ import annotations

from datetime import datetime, timedelta

from msgspec.structs import replace

from monitor.model.live_state import Reachability, ReachabilityStretch, WorkspaceStatus

Stretches = tuple[ReachabilityStretch, ...]

_SHOWN = timedelta(days=7)
_KEPT = timedelta(days=8)
_BOUND = 200  # where more change in that time, the shortest become part of their neighbours
_REASON_CHARACTERS = 300
# A daemon that starts again within this watched all the time, as far as a week shows it.
_BRIDGED = timedelta(seconds=120)
_WORST_FIRST = (
    Reachability.UNREACHABLE,
    Reachability.DEGRADED,
    Reachability.UNKNOWN,
    Reachability.REACHABLE,
)


def with_status(stretches: Stretches, status: WorkspaceStatus) -> Stretches:
    """Return the stretches up to a status that was confirmed in this life."""
    at = status.known_at
    if at is None or status.reachability is Reachability.UNKNOWN:
        return stretches
    stretches = tuple(
        replace(stretch, until=min(stretch.until, at))
        for stretch in stretches
        if at - _KEPT <= stretch.until and stretch.since <= at  # our clock may have been set back
    )
    # Longer ago it may be of another life of the daemon, which has watched meanwhile or not.
    since = at
    if status.since is not None and timedelta() <= at - status.since <= _BRIDGED:
        since = status.since
    fresh = ReachabilityStretch(
        reachability=status.reachability,
        since=since,
        until=at,
        reason=None if status.reason is None else status.reason[:_REASON_CHARACTERS],
    )
    if not stretches:
        return (fresh,)
    *older, last = stretches
    if older and last.reachability is Reachability.UNKNOWN and at - last.since <= _BRIDGED:
        *older, last = older
    if last.reachability is fresh.reachability:
        return (*older, replace(fresh, since=last.since))
    if last.reachability is not Reachability.UNKNOWN:
        since = status.since or at
    since = min(at, max(since, last.since))
    return _bounded((*older, replace(last, until=since), replace(fresh, since=since)))


def left_alone(stretches: Stretches, *, since: datetime | None = None) -> Stretches:
    """Return the stretches before a time without watching, which `with_status` ends.

    ``since`` is when a status was last confirmed; None: as the stretches say.
    """
    if not stretches or stretches[-1].reachability is Reachability.UNKNOWN:
        return stretches
    *older, last = stretches
    last = replace(last, until=max(last.until, since or last.until))
    unwatched = ReachabilityStretch(
        reachability=Reachability.UNKNOWN, since=last.until, until=last.until
    )
    return (*older, last, unwatched)


def is_alike(stretches: Stretches, others: Stretches) -> bool:
    """True where no stretch began; the last one may have gone on."""
    return [(each.reachability, each.since) for each in stretches] == [
        (each.reachability, each.since) for each in others
    ]


def shown(
    stretches: Stretches, status: WorkspaceStatus, *, now: datetime, stale_after: timedelta
) -> Stretches:
    """Return the last seven days without holes, unwatched ones included."""
    if not status.is_remembered:
        stretches = with_status(stretches, status)
    begin = now - _SHOWN
    return tuple(
        replace(stretch, since=max(stretch.since, begin))
        for stretch in _up_to(now, stretches, stale_after)
        if stretch.until > begin
    )


def _up_to(now: datetime, stretches: Stretches, stale_after: timedelta) -> Stretches:
    if not stretches or now <= stretches[-1].until:
        return stretches
    if now - stretches[-1].until > stale_after:
        stretches = left_alone(stretches)
    *older, last = stretches
    return (*older, replace(last, until=now))


def _bounded(stretches: Stretches) -> Stretches:
    """Return no more than the bound: those that are shortest together become the worst of them."""
    kept = list(stretches)
    while len(kept) > _BOUND:
        # The newest one may still go on.
        places = range(len(kept) - 2)
        place = min(places, key=lambda first: kept[first + 1].until - kept[first].since)
        worse = min(kept[place : place + 2], key=_badness)
        alike = slice(place, place + 2)
        if place and kept[place - 1].reachability is worse.reachability:
            alike = slice(place - 1, place + 2)
        first, last = kept[alike][0], kept[alike][-1]
        kept[alike] = [replace(worse, since=first.since, until=last.until)]
    return tuple(kept)


def _badness(stretch: ReachabilityStretch) -> int:
    return _WORST_FIRST.index(stretch.reachability)
