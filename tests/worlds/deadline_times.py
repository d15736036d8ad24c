"""When a deadline is, by arithmetic of its own: a rule as written, and the instants it means.

Nothing of the daemon's is used. A time of the day is the first minute at which the clock of the
zone shows it or, where that skips it, something later.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, date, datetime, time, timedelta
from zoneinfo import ZoneInfo

from msgspec import Struct

from tests.worlds.deadline_scripts import HOLIDAYS
from tests.worlds.script import Deadline, DeadlineDays

_MINUTE = timedelta(minutes=1)
_DAY = timedelta(days=1)
_FARTHEST = timedelta(hours=15)  # no zone is farther from UTC
_WEEKDAYS = ("Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun")


class WrittenDeadline(Struct, frozen=True, kw_only=True):
    """A deadline as a configuration has it."""

    time: str
    counts_from: str
    zone: str
    weekdays: tuple[str, ...]
    dates_off: tuple[str, ...]
    region: str | None


class DueDeadline(Struct, frozen=True, kw_only=True):
    """The deadline of one day: instants."""

    at: datetime
    opens_at: datetime


def written(deadline: Deadline, begins_at: datetime) -> WrittenDeadline:
    """Return how a deadline is configured in a world that is planned to begin then."""
    due, opens = (
        _shown(deadline, begins_at, minutes)
        for minutes in (deadline.due_minutes, deadline.opens_minutes)
    )
    own = _WEEKDAYS[due.weekday()]
    weekdays = {
        DeadlineDays.THAT_WEEKDAY: (own,),
        DeadlineDays.OTHER_WEEKDAYS: tuple(day for day in _WEEKDAYS if day != own),
    }
    is_off = deadline.days is DeadlineDays.NOT_THAT_DATE
    return WrittenDeadline(
        time=f"{due:%H:%M}",
        counts_from=f"{opens:%H:%M}",
        zone=deadline.zone,
        weekdays=weekdays.get(deadline.days, _WEEKDAYS),
        dates_off=(due.date().isoformat(),) if is_off else (),
        region=deadline.region,
    )


def _shown(deadline: Deadline, begins_at: datetime, minutes: int) -> datetime:
    zone, later = ZoneInfo(deadline.zone), minutes * _MINUTE
    if deadline.is_by_shown_clock:
        return begins_at.astimezone(zone).replace(tzinfo=None) + later
    return (begins_at + later).astimezone(zone).replace(tzinfo=None)


def due_between(rule: WrittenDeadline, begin: datetime, end: datetime) -> Iterator[DueDeadline]:
    """Yield the deadlines between two instants."""
    zone = ZoneInfo(rule.zone)
    due, opens = time.fromisoformat(rule.time), time.fromisoformat(rule.counts_from)
    day, last = begin.astimezone(zone).date() - _DAY, end.astimezone(zone).date()
    while day <= last:
        if _is_due_on(rule, day):
            at = first_instant(datetime.combine(day, due), zone)
            opens_on = day if opens < due else day - _DAY
            if begin <= at < end:
                opens_at = first_instant(datetime.combine(opens_on, opens), zone)
                yield DueDeadline(at=at, opens_at=opens_at)
        day += _DAY


def _is_due_on(rule: WrittenDeadline, day: date) -> bool:
    is_off = day.isoformat() in rule.dates_off
    is_holiday = rule.region is not None and day in HOLIDAYS[rule.region]
    return _WEEKDAYS[day.weekday()] in rule.weekdays and not is_off and not is_holiday


def first_instant(shown: datetime, zone: ZoneInfo) -> datetime:
    """Return the first minute at which a clock of the zone shows this, or something later."""
    at = shown.replace(tzinfo=UTC) - _FARTHEST
    while at.astimezone(zone).replace(tzinfo=None) < shown:
        at += _MINUTE
    return at
