"""Times at which reports are due, and the stretch of time that each covers. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

from monitor.model.reports import ReportPeriod
from monitor.model.triggers import CronTrigger, DailyTrigger
from monitor.schedules import next_after, times_between
from monitor.schedules.quartz import parse

WALL_TIME = re.compile(r"([01]\d|2[0-3]):([0-5]\d)", re.ASCII)
_LENGTHS = {ReportPeriod.DAY: timedelta(days=1), ReportPeriod.WEEK: timedelta(days=7)}
# Zones change their rules; those of these years are the ones that a report meets.
_YEARS = range(2026, 2037)
_NIGHT_BEGINS_WITHIN = timedelta(days=2)
# One after the other, so that few times are computed of a cron that comes often.
_SEARCHED = tuple(timedelta(hours=hours) for hours in (1, 24, 24 * 32, 24 * 366))
_MOST_TIMES = 1_500
_DAY, _MINUTE = timedelta(days=1), timedelta(minutes=1)


def due_after(expression: str, zone: str, instant: datetime) -> datetime | None:
    """Return when a report is due next after an instant, None where it never is again."""
    return next_after(CronTrigger(expression=expression, timezone=zone), instant)


def newest_due(expression: str, zone: str, *, after: datetime, until: datetime) -> datetime | None:
    """Return the last time after ``after`` and not after ``until`` at which it was due."""
    trigger = CronTrigger(expression=expression, timezone=zone)
    for stretch in _SEARCHED:
        begin = max(after, until - stretch)
        # Of the last hour there are 60 at most, and of a longer stretch none in its last part.
        times = times_between([trigger], begin, until, limit=_MOST_TIMES)
        if times or begin == after:
            return times[-1] if times else None
    return None


def begin_of(period: ReportPeriod, until: datetime, *, zone: str, night: str) -> datetime:
    """Return when the stretch of a report begins that ends at ``until``.

    A day is one of the calendar, and a week seven of them: of 23 or 25 hours where clocks change.
    A night begins at the last such wall time before; one that is skipped, when clocks have changed.
    """
    if period is ReportPeriod.NIGHT:
        match = WALL_TIME.fullmatch(night)
        hour, minute = (18, 0) if match is None else (int(match[1]), int(match[2]))
        trigger = DailyTrigger(hour_of_day=hour, minute_of_hour=minute, timezone=zone)
        begins = times_between(
            [trigger], until - _NIGHT_BEGINS_WITHIN, until - timedelta.resolution, limit=4
        )
        return begins[-1]
    wall = until.astimezone(ZoneInfo(zone))
    return (wall - _LENGTHS[period]).astimezone(UTC)


def skipped_time(expression: str, zone: str) -> datetime | None:
    """Return the first wall time of the expression that its time zone skips; None where none is.

    What comes in each hour loses nothing by an hour that is skipped.
    """
    if parse(expression).is_every_hour:
        return None
    trigger = CronTrigger(expression=expression, timezone="UTC")
    for begin, end in _gaps(ZoneInfo(zone)):
        at = next_after(trigger, begin - timedelta.resolution)
        if at is not None and at < end:
            return at.replace(tzinfo=None)
    return None


def _gaps(zone: ZoneInfo) -> Iterator[tuple[datetime, datetime]]:
    """Yield the stretches of wall time that the zone skips, written as if they were UTC."""
    at = datetime(_YEARS[0], 1, 1, tzinfo=UTC)
    end = datetime(_YEARS[-1], 1, 1, tzinfo=UTC)
    while at < end:
        before, after = _offset(zone, at), _offset(zone, at + _DAY)
        if after > before:
            turn = _turn(zone, at, before)
            yield turn + before, turn + after
        at += _DAY


def _turn(zone: ZoneInfo, at: datetime, before: timedelta) -> datetime:
    """Return the minute within a day at which the offset is no more what it was."""
    low, high = at, at + _DAY
    while high - low > _MINUTE:
        middle = low + (high - low) // (2 * _MINUTE) * _MINUTE
        low, high = (middle, high) if _offset(zone, middle) == before else (low, middle)
    return high


def _offset(zone: ZoneInfo, at: datetime) -> timedelta:
    return at.astimezone(zone).utcoffset() or timedelta()
