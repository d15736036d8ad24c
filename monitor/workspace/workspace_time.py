"""The workspace's clock, read off its ``Date`` headers and carried on our monotonic clock.

A ``Date`` has a resolution of one second and is written somewhere between our sending and our
receiving, so one answer only bounds the difference between the two clocks. Several answers
narrow the bounds.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from email.utils import parsedate_to_datetime

from monitor.model.clock import Clock

# Two quartz clocks drift apart; without this, bounds from last week would be trusted today.
_DRIFT = 1e-4
_RESOLUTION_SECONDS = 1.0
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


class WorkspaceTime:
    """What is known of one workspace's clock. Marks are seconds of our monotonic clock."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        # Bounds of (workspace time as a timestamp) - (our monotonic time), and when they held.
        self._low = 0.0
        self._high = 0.0
        self._held_at: float | None = None

    def learn(self, date: str | None, *, began: float, answered: float) -> None:
        """Take in the ``Date`` of an answer. An unreadable one changes nothing."""
        at = parse_http_date(date)
        if at is None or not is_believable(at):
            return
        stamp = at.timestamp()
        low, high = stamp - answered, stamp + _RESOLUTION_SECONDS - began
        if self._held_at is not None:
            known_low, known_high = self._bounds(answered)
            # Bounds that exclude each other mean that one of the clocks was set: believe the new.
            if max(low, known_low) <= min(high, known_high):
                low, high = max(low, known_low), min(high, known_high)
        self._low, self._high, self._held_at = low, high, answered

    def at(self, mark: float) -> datetime | None:
        """Return the earliest time that the workspace can have had at ``mark``.

        Early on purpose: a watermark taken from it never passes a change. None before the first
        answer.
        """
        if self._held_at is None:
            return None
        low, _ = self._bounds(mark)
        return datetime.fromtimestamp(0, UTC) + timedelta(seconds=low + mark)

    def now(self) -> datetime | None:
        """Return `at` for this moment."""
        return self.at(self._clock.monotonic())

    @property
    def skew_seconds(self) -> float | None:
        """Workspace minus ours: the smallest difference that explains the headers."""
        if self._held_at is None:
            return None
        mark = self._clock.monotonic()
        low, high = self._bounds(mark)
        ours = self._clock.now().timestamp() - mark
        return round(max(low - ours, 0.0) + min(high - ours, 0.0), 3)

    def _bounds(self, mark: float) -> tuple[float, float]:
        held_at = mark if self._held_at is None else self._held_at
        slack = _DRIFT * abs(mark - held_at)
        return self._low - slack, self._high + slack
