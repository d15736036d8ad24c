"""Stretches of time beside that of a report: before it, after it, and of the calendar. Pure."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

from msgspec import Struct

from monitor.alerting.reports.report_query import ReportQuery
from monitor.alerting.reports.report_times import begin_of, due_after, newest_due
from monitor.alerting.reports.settings import ReportSettings
from monitor.model.reports import ReportPeriod

NIGHT_HOURS = timedelta(hours=14)  # of a night without a configured report
_PERIOD_DAYS = {ReportPeriod.NIGHT: 1, ReportPeriod.DAY: 1, ReportPeriod.WEEK: 7}


class OtherStretch(Struct, frozen=True, kw_only=True):
    """A stretch of time that has begun and may last."""

    since: datetime
    until: datetime


class StretchChoices(Struct, frozen=True, kw_only=True):
    """Stretches that people choose next; days begin at midnight, and weeks on Monday.

    Of the period that is shown, or as the report is due that is shown. ``previous`` is null where
    it is too long ago, ``next`` where it has not begun yet.
    """

    previous: OtherStretch | None
    next: OtherStretch | None
    yesterday: OtherStretch
    this_week: OtherStretch
    last_week: OtherStretch


class ShownReport(Struct, frozen=True, kw_only=True):
    """A report that is asked for, and what says how long it is."""

    query: ReportQuery
    configured: ReportSettings | None = None
    period: ReportPeriod | None = None


def stretches_beside(
    shown: ShownReport, *, zone: str, now: datetime, oldest: datetime
) -> StretchChoices:
    """Return them, in days of ``zone``; nothing before ``oldest`` can be reported."""
    previous, following = _previous(shown, oldest), _next(shown, now)
    midnight = now.astimezone(ZoneInfo(zone)).replace(hour=0, minute=0, second=0, microsecond=0)
    monday = midnight - timedelta(days=midnight.weekday())
    return StretchChoices(
        previous=previous if previous and previous.since >= oldest else None,
        next=following if following and following.since < now else None,
        yesterday=_days(midnight, -1, 0),
        this_week=_days(monday, 0, 7),
        last_week=_days(monday, -7, 0),
    )


def _previous(shown: ShownReport, oldest: datetime) -> OtherStretch | None:
    since, until = shown.query.since, shown.query.until
    if (report := shown.configured) is not None:
        due = newest_due(report.expression, report.time_zone, after=oldest, until=since)
        return None if due is None else _of_report(report, due)
    if shown.period is None:
        return OtherStretch(since=since - (until - since), until=since)
    return _of_period(shown.period, since, -1, zone=shown.query.time_zone)


def _next(shown: ShownReport, now: datetime) -> OtherStretch | None:
    since, until = shown.query.since, shown.query.until
    if (report := shown.configured) is not None:
        due = due_after(report.expression, report.time_zone, until)
        return None if due is None or due > now else _of_report(report, due)
    if shown.period is None:
        return OtherStretch(since=until, until=until + (until - since))
    return _of_period(shown.period, since, 1, zone=shown.query.time_zone)


def _of_report(report: ReportSettings, due: datetime) -> OtherStretch:
    since = begin_of(report.period, due, zone=report.time_zone, night=report.since)
    return OtherStretch(since=since, until=due)


def _of_period(period: ReportPeriod, since: datetime, step: int, *, zone: str) -> OtherStretch:
    """Return the stretch so many periods after the one that begins at ``since``."""
    wall, days = since.astimezone(ZoneInfo(zone)), _PERIOD_DAYS[period]
    found = _days(wall, step * days, (step + 1) * days)
    if period is ReportPeriod.NIGHT:
        return OtherStretch(since=found.since, until=found.since + NIGHT_HOURS)
    return found


def _days(wall: datetime, first: int, last: int) -> OtherStretch:
    """Return the stretch between two days counted from a wall time, which has its zone."""
    begin, end = (wall + timedelta(days=days) for days in (first, last))
    return OtherStretch(since=begin.astimezone(UTC), until=end.astimezone(UTC))
