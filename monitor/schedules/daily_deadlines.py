"""The instants of a daily deadline by the wall clock of its zone. Pure.

A deadline has a window: what counts for it starts, or ends, at ``opens_at`` or later. Each window
opens after the deadline before it, so nothing counts for two of them. Of a wall time that comes
twice the first one is the deadline; one that is skipped is due when the gap ends.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import date, datetime, time, timedelta
from zoneinfo import ZoneInfo

from msgspec import Struct

from monitor.model.days_off import NO_DAYS_OFF, DaysOff
from monitor.schedules.times import instant_of

_DAY = timedelta(days=1)
_SEARCHED_DAYS = 800  # own dates may take a season out, never two years
_HOUR_MINUTES = 60


class Deadline(Struct, frozen=True, kw_only=True):
    """The deadline of one day. Instants are UTC."""

    day: date
    at: datetime
    opens_at: datetime


class DailyDeadline(Struct, frozen=True, kw_only=True):
    """A time of the day, ``minute``, on some days of the week (0 is Monday).

    The window begins at the minute ``opens``: of the same day where that is before ``minute``,
    else of the day before.
    """

    minute: int
    opens: int = 0
    zone: ZoneInfo
    days: frozenset[int]
    days_off: DaysOff = NO_DAYS_OFF

    def after(self, instant: datetime) -> Deadline | None:
        """Return the first deadline after that instant; None where every day is off."""
        # From a day earlier on: a time that is skipped at midnight is due on the next date.
        day = instant.astimezone(self.zone).date() - _DAY
        for _ in range(_SEARCHED_DAYS):
            if self._is_due_on(day):
                at = self._instant(day, self.minute)
                if at > instant:
                    return self._deadline(day, at)
            day += _DAY
        return None

    def skipped_on(self, begin: date, *, days: int) -> Iterator[tuple[date, int]]:
        """Yield days from ``begin`` on at which daylight saving skips one of the two times."""
        for number in range(days):
            day = begin + number * _DAY
            for minute in (self.minute, self.opens):
                if self._is_due_on(day) and self._is_skipped(day, minute):
                    yield day, minute

    def _deadline(self, day: date, at: datetime) -> Deadline:
        opens_on = day if self.opens < self.minute else day - _DAY
        return Deadline(day=day, at=at, opens_at=self._instant(opens_on, self.opens))

    def _is_due_on(self, day: date) -> bool:
        return day.weekday() in self.days and not self.days_off.has(day)

    def _instant(self, day: date, minute: int) -> datetime:
        return instant_of(_wall(day, minute), self.zone)

    def _is_skipped(self, day: date, minute: int) -> bool:
        shown = self._instant(day, minute).astimezone(self.zone).replace(tzinfo=None)
        return shown != _wall(day, minute)


def _wall(day: date, minute: int) -> datetime:
    return datetime.combine(day, time(*divmod(minute, _HOUR_MINUTES)))
