"""The stretch of time that a time line shows: chosen by a word, or from an instant to another."""

from __future__ import annotations

from datetime import UTC, datetime, time, timedelta
from enum import StrEnum
from zoneinfo import ZoneInfo

from msgspec import Struct

from monitor.alerting.reports.report_times import begin_of
from monitor.model.reports import ReportPeriod
from monitor.web.http.instants import instant_of
from monitor.web.http.problem_details import ProblemDetails
from monitor.web.views.reports.stretches import NIGHT_HOURS

_NIGHT_BEGINS = "18:00"
_YOUNGEST_NIGHT = timedelta(hours=6)  # what is younger is not the last one yet
_LONGEST, _OLDEST = timedelta(days=62), timedelta(days=400)
_MOST_TO_COME = timedelta(days=8)
_HOUR, _DAY = timedelta(hours=1), timedelta(days=1)
_TICKS = 8
_DAYS_BY_DAY = 10  # so many days have a tick each


class TimelinePeriod(StrEnum):
    """Stretches of time that are chosen by a word."""

    NIGHT = "night"  # the last one, from 18:00 to 08:00
    TODAY = "today"
    DAY = "24h"
    WEEK = "7d"


class TimeRange(Struct, frozen=True, kw_only=True):
    """From ``since`` until before ``until``."""

    since: datetime
    until: datetime

    @property
    def length(self) -> timedelta:
        return self.until - self.since

    @property
    def ticks(self) -> tuple[datetime, ...]:
        """Instants at equal distances, the first of them ``since``."""
        days = round(self.length / _DAY)
        count = days if 1 < days <= _DAYS_BY_DAY else _TICKS
        return tuple(self.since + self.length * number / count for number in range(count))


def range_of(
    *,
    period: TimelinePeriod | None,
    since: str | None,
    until: str | None,
    now: datetime,
    zone: ZoneInfo,
) -> TimeRange:
    """Return the stretch that is asked for; by default the last 24 hours.

    Raises:
        ProblemDetails: it names no stretch, ends before it begins, or is too long or too old.
    """
    if period is not None and (since is not None or until is not None):
        raise ProblemDetails(400, f"period: {period} has its own since and until; leave them out")
    if since is None and until is None:
        return _of_period(period or TimelinePeriod.DAY, now, zone)
    end = _next_hour(now) if until is None else instant_of("until", until, now=now, zone=zone)
    begin = end - _DAY if since is None else instant_of("since", since, now=now, zone=zone)
    if not begin < end:
        raise ProblemDetails(
            400, f"since: {begin:%Y-%m-%d %H:%M UTC} is not before until, {end:%Y-%m-%d %H:%M UTC}"
        )
    if end - begin > _LONGEST or now - begin > _OLDEST or end - now > _MOST_TO_COME:
        raise ProblemDetails(
            400,
            f"since: a time line covers at most {_LONGEST.days} days, of the last {_OLDEST.days}"
            f" and the next {_MOST_TO_COME.days}",
        )
    return TimeRange(since=begin, until=end)


def _of_period(period: TimelinePeriod, now: datetime, zone: ZoneInfo) -> TimeRange:
    if period is TimelinePeriod.NIGHT:
        begin = begin_of(
            ReportPeriod.NIGHT, now - _YOUNGEST_NIGHT, zone=zone.key, night=_NIGHT_BEGINS
        )
        return TimeRange(since=begin, until=begin + NIGHT_HOURS)
    if period is TimelinePeriod.DAY:
        end = _next_hour(now)  # so that nothing moves from one minute to the next
        return TimeRange(since=end - _DAY, until=end)
    days = 7 if period is TimelinePeriod.WEEK else 1
    today = now.astimezone(zone).date()
    first, last = today - timedelta(days=days - 1), today + timedelta(days=1)
    begin, end = (datetime.combine(day, time(), tzinfo=zone) for day in (first, last))
    return TimeRange(since=begin.astimezone(UTC), until=end.astimezone(UTC))


def _next_hour(now: datetime) -> datetime:
    return now.replace(minute=0, second=0, microsecond=0) + _HOUR
