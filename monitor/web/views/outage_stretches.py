"""Outages: times of the last days in which a workspace was not seen, or only in part. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta
from itertools import groupby
from urllib.parse import quote

from msgspec import Struct

from monitor.model.live_state import Reachability, ReachabilityStretch
from monitor.model.outage_words import reason_in_words

SHOWN = timedelta(days=7)
# An alert about an outage begins a little after it; what is listed may be merged meanwhile.
_NEAR = timedelta(minutes=2)
_UNWATCHED = "no daemon watched it"
_IN_PART = "a part of it could not be read"


class Outage(Struct, frozen=True, kw_only=True):
    """A time in which a workspace was not seen. Instants are ours; ``until`` is now while it lasts.

    ``is_partial``: it answered, but some of what is asked for failed. ``is_cut``: it began earlier,
    before what is kept. ``why`` is one line in words, ``reasons`` are as they were reported.
    """

    workspace: str
    since: datetime
    until: datetime
    seconds: float
    is_over: bool
    is_partial: bool
    is_cut: bool
    why: str
    reasons: tuple[str, ...]

    def distance(self, at: datetime) -> timedelta:
        """Return how far an instant is from it; nothing within it."""
        if at < self.since:
            return timedelta() if self.is_cut else self.since - at
        is_within = at < self.until or not self.is_over
        return timedelta() if is_within else at - self.until


def outage_path(workspace: str, at: datetime) -> str:
    """Return the path of the page of the outage at an instant."""
    instant = at.isoformat().replace("+00:00", "Z")
    return f"/outages/{quote(workspace, safe='')}/{quote(instant, safe=':')}"


def outages_of(
    workspace: str, stretches: Sequence[ReachabilityStretch], now: datetime
) -> tuple[Outage, ...]:
    """Return the outages among the stretches of a workspace, oldest first."""
    found = groupby(stretches, key=lambda stretch: _is_partial(stretch.reachability))
    return tuple(
        _outage(workspace, tuple(parts), is_partial=is_partial, now=now)
        for is_partial, parts in found
        if is_partial is not None
    )


def outage_at(outages: Sequence[Outage], at: datetime) -> Outage | None:
    """Return the outage of an instant, or the nearest one within two minutes; None: there is none.

    Of two that are as near, the one that was not only in part.
    """
    near = [outage for outage in outages if outage.distance(at) <= _NEAR]
    return min(near, key=lambda outage: (outage.distance(at), outage.is_partial), default=None)


def _is_partial(reachability: Reachability) -> bool | None:
    """None of a time that was no outage."""
    if reachability is Reachability.REACHABLE:
        return None
    return reachability is Reachability.DEGRADED


def _outage(
    workspace: str, parts: tuple[ReachabilityStretch, ...], *, is_partial: bool, now: datetime
) -> Outage:
    first, last = parts[0], parts[-1]
    reasons = tuple(dict.fromkeys(part.reason for part in parts if part.reason))
    return Outage(
        workspace=workspace,
        since=first.since,
        until=last.until,
        seconds=(last.until - first.since).total_seconds(),
        is_over=last.until < now,
        is_partial=is_partial,
        is_cut=first.since <= now - SHOWN,
        why=_why(parts, reasons, is_partial=is_partial),
        reasons=reasons,
    )


def _why(parts: Sequence[ReachabilityStretch], reasons: Sequence[str], *, is_partial: bool) -> str:
    if is_partial:
        return _IN_PART
    if all(part.reachability is Reachability.UNKNOWN for part in parts):
        return _UNWATCHED
    words = reason_in_words(reasons[0]) if reasons else None
    why = "workspace did not answer" + (f": {words}" if words else "")
    is_mixed = any(part.reachability is Reachability.UNKNOWN for part in parts)
    return f"{why}; part of the time {_UNWATCHED}" if is_mixed else why
