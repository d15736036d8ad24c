"""A report: of the last night, of a day or a week, of any stretch, or as one is configured."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Annotated

from msgspec import Meta, Struct

from monitor.alerting.reports.report_query import ReportQuery
from monitor.alerting.reports.report_times import begin_of, newest_due
from monitor.alerting.reports.settings import ReportMatch, ReportSettings
from monitor.model.errors import ConfigurationError
from monitor.model.globs import parse_globs
from monitor.model.public_shapes import filled
from monitor.model.reports import Report, ReportPeriod
from monitor.web.http.problem_details import ProblemDetails
from monitor.web.http.request_parsing import unknown
from monitor.web.views.runs.run_list import since_of
from monitor.web.views.view import ViewSources, view

# A night without a configured report; what is younger is not the last one yet.
_NIGHT_BEGINS, _NIGHT_HOURS = "18:00", timedelta(hours=14)
_YOUNGEST_NIGHT = timedelta(hours=6)
_OLDEST = timedelta(days=400)
_LONGEST = timedelta(days=62)


class ReportParameters(Struct, frozen=True, kw_only=True):
    """Which report. Without any, the last night: as the first such report is configured."""

    since: Annotated[
        str | None,
        Meta(description="Begin: an ISO 8601 instant, or how long ago, such as 24h or 7d."),
    ] = None
    until: Annotated[datetime | None, Meta(description="End; now, where it is left out.")] = None
    period: Annotated[
        ReportPeriod | None, Meta(description="Up to until: the night, a day or a week.")
    ] = None
    name: Annotated[str | None, Meta(description="A configured report, as it was last due.")] = None
    workspace: str | None = None
    pipeline: Annotated[
        str | None, Meta(description="Name or id of a flow or plan; globs as those of rules.")
    ] = None


class ReportView(Report, frozen=True, kw_only=True):
    """A report; ``names`` are those of the configured ones."""

    name: str | None  # of the configured report that this is
    period: ReportPeriod | None
    names: tuple[str, ...]


class _Chosen(Struct, frozen=True, kw_only=True):
    query: ReportQuery
    name: str | None = None
    period: ReportPeriod | None = None


@view(
    "report",
    "/api/v1/report",
    "What happened in a stretch of time: failures, starts that did not come, times without watch.",
)
async def report_view(sources: ViewSources, query: ReportParameters) -> ReportView:
    sources.refuse_unknown(query.workspace)
    configured = sources.daemon().reports
    chosen = _chosen(query, configured, now=sources.clock.now())
    report = await sources.alerting.report(chosen.query)
    return filled(
        ReportView,
        report,
        name=chosen.name,
        period=chosen.period,
        names=tuple(report.name for report in configured),
    )


def _chosen(
    query: ReportParameters, configured: tuple[ReportSettings, ...], *, now: datetime
) -> _Chosen:
    if query.name is not None:
        chosen = _of_name(query, configured, now)
    elif query.since is not None:
        since = since_of(query.since, now=now) or now
        chosen = _Chosen(query=ReportQuery(since=since, until=_until(query, now)))
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
    return _Chosen(
        query=ReportQuery(
            since=asked.since, until=asked.until, match=match, time_zone=asked.time_zone
        ),
        name=chosen.name,
        period=chosen.period,
    )


def _of_name(
    query: ReportParameters, configured: tuple[ReportSettings, ...], now: datetime
) -> _Chosen:
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
    return _Chosen(query=asked, name=found.name, period=found.period)


def _of_period(
    query: ReportParameters, configured: tuple[ReportSettings, ...], now: datetime
) -> _Chosen:
    nights = [report for report in configured if report.period is ReportPeriod.NIGHT]
    first = next(iter(nights or configured), None)
    zone = "UTC" if first is None else first.time_zone
    night = nights[0].since if nights else _NIGHT_BEGINS
    until, period = _until(query, now), query.period or ReportPeriod.NIGHT
    if period is not ReportPeriod.NIGHT:
        since = begin_of(period, until, zone=zone, night=night)
        return _Chosen(
            query=ReportQuery(since=since, until=until, time_zone=zone), period=query.period
        )
    if nights and query.period is None:
        named = ReportParameters(name=nights[0].name, until=query.until)
        return _of_name(named, configured, now)
    since = begin_of(period, until - _YOUNGEST_NIGHT, zone=zone, night=night)
    until = min(until, since + _NIGHT_HOURS)
    return _Chosen(query=ReportQuery(since=since, until=until, time_zone=zone), period=period)


def _until(query: ReportParameters, now: datetime) -> datetime:
    until = now if query.until is None else min(query.until, now)
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
