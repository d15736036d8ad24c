"""The stretch and the pipelines that a report is asked for."""

from __future__ import annotations

from datetime import datetime, timedelta

from msgspec import Struct

from monitor.alerting.reports.report_times import begin_of
from monitor.alerting.reports.settings import ReportMatch, ReportSettings

_TRENDS_FROM = timedelta(days=6)


class ReportQuery(Struct, frozen=True, kw_only=True):
    """What is asked for. Instants are ours; ``until`` is not in the future."""

    since: datetime
    until: datetime
    match: ReportMatch = ReportMatch()
    time_zone: str = "UTC"

    @property
    def has_trends(self) -> bool:
        """True where the stretch is long enough to be compared with the one before."""
        return self.until - self.since >= _TRENDS_FROM

    @classmethod
    def of(cls, report: ReportSettings, until: datetime) -> ReportQuery:
        """Return what a configured report asks for that is due at ``until``."""
        since = begin_of(report.period, until, zone=report.time_zone, night=report.since)
        return cls(since=since, until=until, match=report.match, time_zone=report.time_zone)
