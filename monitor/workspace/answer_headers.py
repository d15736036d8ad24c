"""Headers of answers: the workspace's clock, its rate limits, and the waits that it asks for.

The clock is read off ``Date`` headers and carried on our monotonic clock. A ``Date`` has a
resolution of one second and is written somewhere between our sending and our receiving, so one
answer only bounds the difference between the two clocks. Several answers narrow the bounds. One
that contradicts them may come from a proxy or from a server that is wrong for a moment: only when
several have agreed for a minute was the workspace's clock set.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from email.utils import parsedate_to_datetime

from msgspec import Struct

from monitor.model.clock import Clock

# Two quartz clocks drift apart; without this, bounds from last week would be trusted today.
_DRIFT = 1e-4
_RESOLUTION_SECONDS = 1.0
# Longer than one round of polls: so many answers must agree, over so long, that a clock was set.
_AGREEING_ANSWERS = 3
_AGREEING_SECONDS = 60.0
SCOPES = ("user", "workspace")
# A longer wait than this is not believed: one odd header must not stop all polls for a day.
LONGEST_PAUSE_SECONDS = 3600.0
# Quotas count by the minute: in a longer pause the workspace is as good as away.
LONG_PAUSE_SECONDS = 60.0
# Seconds since 1970 stay below this until the year 5138; milliseconds passed it in 1973.
_LEAST_MILLISECONDS = 1e11


# At the edges of the calendar, where nothing can be added to a time or taken off it, stand the
# words of other languages for "none".
_FIRST_YEAR, _END_YEAR = 1970, 9000


def is_believable(at: datetime) -> bool:
    """True for a time that a workspace can have meant."""
    return _FIRST_YEAR <= at.year < _END_YEAR


def parse_http_date(text: str | None) -> datetime | None:
    """Read an HTTP date as aware UTC; None for an absent or unreadable one."""
    if not text:
        return None
    try:
        at = parsedate_to_datetime(text)
        return at.replace(tzinfo=UTC) if at.tzinfo is None else at.astimezone(UTC)
    except (ValueError, OverflowError):
        return None


class _Bounds(Struct, frozen=True):
    """Bounds of (workspace time as a timestamp) - (our monotonic time), as they were at a mark."""

    low: float
    high: float
    held_at: float

    def at(self, mark: float) -> _Bounds:
        slack = _DRIFT * abs(mark - self.held_at)
        return _Bounds(self.low - slack, self.high + slack, mark)

    def within(self, other: _Bounds) -> _Bounds | None:
        """Return what both leave open when the other was read; None: they exclude each other."""
        own = self.at(other.held_at)
        low, high = max(own.low, other.low), min(own.high, other.high)
        return _Bounds(low, high, other.held_at) if low <= high else None


class _Candidate(Struct, frozen=True):
    """What answers say that contradict what is known. ``since`` is the mark of the first."""

    bounds: _Bounds
    since: float
    answers: int = 1

    def is_proven(self) -> bool:
        lasted = self.bounds.held_at - self.since
        return self.answers >= _AGREEING_ANSWERS and lasted >= _AGREEING_SECONDS


class ClockSet(Struct, frozen=True):
    """The workspace's clock was set at some mark later than ``after``; ``noticed`` at this one."""

    after: float
    noticed: float


class WorkspaceTime:
    """What is known of one workspace's clock. Marks are seconds of our monotonic clock."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._known: _Bounds | None = None
        self._candidate: _Candidate | None = None
        self._agreed_at = 0.0  # the mark of the last answer that fits what is known
        self.last_set: ClockSet | None = None

    def learn(self, date: str | None, *, began: float, answered: float) -> None:
        """Take in the ``Date`` of an answer. An unreadable one changes nothing."""
        at = parse_http_date(date)
        if at is None or not is_believable(at):
            return
        stamp = at.timestamp()
        read = _Bounds(stamp - answered, stamp + _RESOLUTION_SECONDS - began, answered)
        agreed = read if self._known is None else self._known.within(read)
        if agreed is None:
            self._doubt(read)
        elif self._candidate is None or self._candidate.bounds.within(read) is None:
            self._known, self._candidate, self._agreed_at = agreed, None, answered
        # Else it was so long under way that it fits both.

    def _doubt(self, read: _Bounds) -> None:
        """Take in bounds that contradict what is known."""
        before = self._candidate
        agreed = None if before is None else before.bounds.within(read)
        if before is None or agreed is None:
            self._candidate = _Candidate(read, read.held_at)
            return
        candidate = _Candidate(agreed, before.since, before.answers + 1)
        if candidate.is_proven():
            self.last_set = ClockSet(after=self._agreed_at, noticed=read.held_at)
            self._known, self._candidate = candidate.bounds, None
            self._agreed_at = read.held_at
        else:
            self._candidate = candidate

    def at(self, mark: float) -> datetime | None:
        """Return the earliest time that the workspace can have had at ``mark``.

        Early on purpose: a watermark taken from it never passes a change. None before the first
        answer. While answers contradict what was known, it goes by what was known.
        """
        if self._known is None:
            return None
        return datetime.fromtimestamp(0, UTC) + timedelta(seconds=self._known.at(mark).low + mark)

    def now(self) -> datetime | None:
        """Return `at` for this moment."""
        return self.at(self._clock.monotonic())

    def may_be_ahead_seconds(self) -> float:
        """How far it is ahead of what is known if those are right that contradict it."""
        if self._known is None or self._candidate is None:
            return 0.0
        return max(0.0, self._candidate.bounds.high - self._known.low)

    def skew_seconds(self) -> float | None:
        """Workspace minus ours: the smallest difference that explains the headers."""
        if self._known is None:
            return None
        mark = self._clock.monotonic()
        bounds, ours = self._known.at(mark), self._clock.now().timestamp() - mark
        return round(max(bounds.low - ours, 0.0) + min(bounds.high - ours, 0.0), 3)


class Quota(Struct, frozen=True, kw_only=True):
    """One window of one scope, as an answer announced it."""

    scope: str
    limit: int
    remaining: int
    reset_at: float  # workspace time, seconds since 1970


def quotas_in(headers: Mapping[str, str]) -> tuple[Quota, ...]:
    """Read ``x-rate-limit-{user,workspace}-{limit,remaining,reset}``; unreadable ones are left out.

    ``reset`` is epoch milliseconds in every known example; seconds are understood too.
    """
    quotas = []
    for scope in SCOPES:
        limit, remaining, reset = (
            _number(headers.get(f"x-rate-limit-{scope}-{part}"))
            for part in ("limit", "remaining", "reset")
        )
        if limit is None or remaining is None or reset is None or limit < 1:
            continue
        reset_at = reset / 1000 if reset >= _LEAST_MILLISECONDS else reset
        quotas.append(
            Quota(scope=scope, limit=int(limit), remaining=int(remaining), reset_at=reset_at)
        )
    return tuple(quotas)


def retry_after_in(headers: Mapping[str, str], *, now: datetime | None) -> float | None:
    """Return the seconds that ``x-retry-after`` or ``Retry-After`` states, None without one.

    ``now`` is the workspace's time, against which a ``Retry-After`` that is a date is read.
    """
    for name in ("x-retry-after", "Retry-After"):
        text = headers.get(name)
        seconds = _number(text)
        if seconds is None and (at := parse_http_date(text)) is not None and now is not None:
            seconds = max(0.0, (at - now).total_seconds())
        if seconds is not None:
            return min(seconds, LONGEST_PAUSE_SECONDS)
    return None


def _number(text: str | None) -> float | None:
    try:
        number = float(text) if text is not None else None
    except ValueError:
        return None
    if number is None or not math.isfinite(number) or number < 0:
        return None
    return number
