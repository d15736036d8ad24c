"""A report: of the last night, of a day or a week, of any stretch, or as one is configured."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Annotated

import msgspec
from msgspec import Meta, Struct

from monitor.alerting.reports.report_query import ReportQuery
from monitor.alerting.reports.report_times import begin_of, newest_due
from monitor.alerting.reports.settings import ReportMatch, ReportSettings
from monitor.model.errors import ConfigurationError
from monitor.model.globs import parse_globs
from monitor.model.public_shapes import filled
from monitor.model.reports import Report, ReportPeriod
from monitor.web.http.instants import since_of
from monitor.web.http.problem_details import ProblemDetails
from monitor.web.http.request_parsing import unknown
from monitor.web.views.reports.stretches import (
    NIGHT_HOURS,
    ShownReport,
    StretchChoices,
    stretches_beside,
)
from monitor.web.views.view import ViewSources, view

# A night without a configured report; what is younger is not the last one yet.
_NIGHT_BEGINS = "18:00"
_YOUNGEST_NIGHT = timedelta(hours=6)
_OLDEST = timedelta(days=400)
_LONGEST = timedelta(days=62)
_MOST_TO_COME = timedelta(days=8)  # of a week that has begun, in which clocks may change


class ReportParameters(Struct, frozen=True, kw_only=True):
    """Which report. Without any, the last night: as the first such report is configured."""

    since: Annotated[
        str | None,
        Meta(description="Begin: an ISO 8601 instant, or how long ago, such as 24h or 7d."),
    ] = None
    until: Annotated[datetime | None, Meta(description="End; now, where it is left out.")] = None
    period: Annotated[
        ReportPeriod | None,
        Meta(
            description="The night, a day or a week up to until; if until is to come, as far as"
            " it has come."
        ),
    ] = None
    name: Annotated[str | None, Meta(description="A configured report, as it was last due.")] = None
    workspace: str | None = None
    pipeline: Annotated[
        str | None, Meta(description="Name or id of a flow or plan; globs as those of rules.")
    ] = None


class ReportView(Report, frozen=True, kw_only=True):
    """A report; ``names`` are those of the configured ones, ``stretches`` are beside its own."""

    name: str | None  # of the configured report that this is
    period: ReportPeriod | None
    names: tuple[str, ...]
    stretches: StretchChoices


@view(
    "report",
    "/api/v1/report",
    "What happened in a stretch of time: failures, starts that did not come, times without watch.",
)
async def report_view(sources: ViewSources, query: ReportParameters) -> ReportView:
    sources.refuse_unknown(query.workspace)
    configured = sources.daemon().reports
    now = sources.clock.now()
    chosen = _chosen(query, configured, now=now)
    report = await sources.alerting.report(chosen.query)
    zone = _zone_of(configured)
    return filled(
        ReportView,
        report,
        name=None if chosen.configured is None else chosen.configured.name,
        period=chosen.period,
        names=tuple(report.name for report in configured),
        stretches=stretches_beside(chosen, zone=zone, now=now, oldest=now - _OLDEST),
    )


def _chosen(
    query: ReportParameters, configured: tuple[ReportSettings, ...], *, now: datetime
) -> ShownReport:
    if query.name is not None:
        chosen = _of_name(query, configured, now)
    elif query.since is not None:
        since = since_of(query.since, now=now) or now
        chosen = ShownReport(query=ReportQuery(since=since, until=_until(query, now)))
    else:
        chosen = _of_period(query, configured, now)
    asked = chosen.query
    if not asked.since < asked.until:
        raise ProblemDetails(400, "since: is not before the end of the report")
    if asked.until - asked.since > _LONGEST or now - asked.since > _OLDEST:
        raise ProblemDetails(
            400,
            f"since: a report covers at most {_LONGEST.days} days, of the last {_OLDEST.days}",
        )
    match = _match(query, asked.match)
    matched = msgspec.structs.replace(asked, match=match)
    return msgspec.structs.replace(chosen, query=matched)


def _of_name(
    query: ReportParameters, configured: tuple[ReportSettings, ...], now: datetime
) -> ShownReport:
    found = next((report for report in configured if report.name == query.name), None)
    if found is None:
        names = [report.name for report in configured]
        raise ProblemDetails(400, f"name: {unknown(str(query.name), names)}")
    if query.since is not None or query.period is not None:
        raise ProblemDetails(400, "name: a configured report has its own since and period")
    until = _until(query, now)
    due = newest_due(found.expression, found.time_zone, after=until - _OLDEST, until=until)
    # One that was never due yet is shown as it would be now.
    asked = ReportQuery.of(found, due or until)
    return ShownReport(query=asked, configured=found, period=found.period)


def _first_night(configured: tuple[ReportSettings, ...]) -> ReportSettings | None:
    return next((report for report in configured if report.period is ReportPeriod.NIGHT), None)


def _zone_of(configured: tuple[ReportSettings, ...]) -> str:
    """Return the time zone of the calendar: of the first configured night, else report."""
    first = _first_night(configured) or next(iter(configured), None)
    return "UTC" if first is None else first.time_zone


def _of_period(
    query: ReportParameters, configured: tuple[ReportSettings, ...], now: datetime
) -> ShownReport:
    first_night = _first_night(configured)
    if first_night is not None and query.period is None:
        named = ReportParameters(name=first_night.name, until=query.until)
        return _of_name(named, configured, now)
    zone, night = _zone_of(configured), first_night.since if first_night else _NIGHT_BEGINS
    until, period = _until(query, now, _MOST_TO_COME), query.period or ReportPeriod.NIGHT
    if period is ReportPeriod.NIGHT:
        since = begin_of(period, until - _YOUNGEST_NIGHT, zone=zone, night=night)
        until = min(until, since + NIGHT_HOURS)
    else:
        since = begin_of(period, until, zone=zone, night=night)
    if since >= now:
        raise ProblemDetails(400, f"until: that {period} has not begun yet")
    asked = ReportQuery(since=since, until=min(until, now), time_zone=zone)
    return ShownReport(query=asked, period=period)


def _until(
    query: ReportParameters, now: datetime, most_to_come: timedelta = timedelta()
) -> datetime:
    until = now if query.until is None else min(query.until, now + most_to_come)
    if now - until > _OLDEST:
        raise ProblemDetails(400, f"until: is more than {_OLDEST.days} days ago")
    return until


def _match(query: ReportParameters, match: ReportMatch) -> ReportMatch:
    """Return what is matched: what is asked for stands in place of what is configured."""
    try:
        parse_globs([query.pipeline] if query.pipeline else [])
    except ConfigurationError as exc:
        raise ProblemDetails(400, f"pipeline: {exc.problems[0]}") from exc
    return ReportMatch(
        workspace=(query.workspace,) if query.workspace else match.workspace,
        pipeline=(query.pipeline,) if query.pipeline else match.pipeline,
        folder=match.folder,
        owner=match.owner,
    )
