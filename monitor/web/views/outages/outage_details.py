"""One outage: what ended, was late or missed meanwhile, and of what people were notified late."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime, timedelta
from typing import Annotated

from msgspec import Meta, Struct

from monitor.alerting.reports.report_query import ReportQuery
from monitor.alerting.reports.settings import ReportMatch
from monitor.alerting.rules.rule_settings import RuleKind
from monitor.model.alerts import Alert, PastQuery, PipelineOfKind
from monitor.model.ends import run_end
from monitor.model.live_state import WorkspaceStatus
from monitor.model.public_shapes import filled
from monitor.model.reports import (
    Report,
    ReportedDeadline,
    ReportedDelay,
    ReportedStart,
    RunCount,
)
from monitor.model.runs import Pipeline, PipelineKind, RunKey, RunKind, RunState, Status
from monitor.model.slices import in_slices
from monitor.web.http.problem_details import ProblemDetails
from monitor.web.views.alerts.alert_models import AlertView, alert_views
from monitor.web.views.outage_stretches import Outage, outage_at
from monitor.web.views.outages.outage_list import outages_in
from monitor.web.views.runs.run_views import RunView, run_views, without_parts
from monitor.web.views.view import ViewSources, view

_LONGEST_RUN = timedelta(days=2)  # runs are found by their creation
_PAGE = 500
_MOST_READ = 10_000  # runs
_MOST_SHOWN = 100  # runs, and alerts
_MOST_AWAITED = 50
_RUNS_AT_ONCE = 50  # in one step
_ENDED = tuple(status for status in Status if status.is_terminal)


class OutageQuery(Struct, frozen=True, kw_only=True):
    """The outage of a workspace at an instant, such as its begin."""

    workspace: str
    at: Annotated[datetime, Meta(description="An instant within it, such as its begin.")]


class LateAlert(Struct, frozen=True, kw_only=True):
    """An alert whose condition began in the outage, and how long after that it was notified.

    None: it was not.
    """

    alert: AlertView
    late_seconds: float | None


class AwaitedStart(Struct, frozen=True, kw_only=True):
    """A start that was due since the outage began: whether it came is not known yet."""

    pipeline_kind: PipelineKind
    pipeline_id: str
    pipeline: str
    expected_at: datetime  # workspace time


class OutageDetails(Outage, frozen=True, kw_only=True):
    """An outage, with what is known today of the time that it covers.

    ``alerts`` are about the outage itself, ``ended`` the runs that ended in it, the newest end
    first, at most 100 of ``ended_total``, without job groups inside flow runs. ``counts`` counts
    those too. ``running``: while it lasts, the runs that had not ended when it began.
    """

    alerts: tuple[AlertView, ...]
    ended: tuple[RunView, ...]
    ended_total: int
    counts: tuple[RunCount, ...]
    missed: tuple[ReportedStart, ...]
    late: tuple[ReportedDelay, ...]
    missed_deadlines: tuple[ReportedDeadline, ...]
    notified_late: tuple[LateAlert, ...]
    awaited: tuple[AwaitedStart, ...]
    running: int
    missing: tuple[str, ...]  # what could not be known


@view(
    "outage",
    "/api/v1/outages/{workspace}/{at}",
    "One outage: what ended, was late or missed meanwhile, and what people heard of late.",
)
async def outage_view(sources: ViewSources, query: OutageQuery) -> OutageDetails:
    sources.refuse_unknown(query.workspace, status=404)
    (status,) = sources.workspaces(query.workspace)
    outage = outage_at(outages_in(sources, query.workspace), query.at)
    if outage is None:
        raise ProblemDetails(
            404,
            f"at: no outage of {query.workspace} is known at {query.at.isoformat()}; /outages lists"
            " those of the last seven days",
        )
    report = await _report(sources, outage)
    ended, is_cut = await _ended(sources, status, outage)
    about, others = await _alerts(sources, outage)
    missing = report.missing
    if is_cut:
        missing = (*missing, f"only the newest {_MOST_READ:,} runs of the time were read")
    return filled(
        OutageDetails,
        outage,
        alerts=about,
        ended=await run_views(sources, ended[:_MOST_SHOWN]),
        ended_total=len(ended),
        counts=report.counts,
        missed=report.did_not_start,
        late=report.late,
        missed_deadlines=report.deadlines.missed,
        notified_late=others,
        awaited=() if outage.is_over else await _awaited(sources, status, outage),
        running=0 if outage.is_over else len(sources.live.active_runs(outage.workspace)),
        missing=missing,
    )


async def _report(sources: ViewSources, outage: Outage) -> Report:
    match = ReportMatch(workspace=(outage.workspace,))
    return await sources.alerting.report(
        ReportQuery(since=outage.since, until=outage.until, match=match)
    )


async def _ended(
    sources: ViewSources, status: WorkspaceStatus, outage: Outage
) -> tuple[list[RunState], bool]:
    """Return the runs that ended in it, newest end first; True where not all were read."""
    begin, end = status.time_there(outage.since), status.time_there(outage.until)
    found: list[tuple[datetime, RunState]] = []
    before: RunKey | None = None
    count = 0
    while count < _MOST_READ:
        page = await sources.runs.recent_runs(
            workspaces=[outage.workspace],
            statuses=_ENDED,
            since=begin - _LONGEST_RUN,
            before=before,
            limit=_PAGE,
        )
        async for run in in_slices(page, size=_RUNS_AT_ONCE):
            known = run_end(run)
            if known is not None and begin <= known.at < end:
                found.append((known.at, run))
        count += len(page)
        if len(page) < _PAGE:
            break
        before = page[-1].key
    found.sort(key=lambda item: (item[0], item[1].key), reverse=True)
    runs = await without_parts(sources.runs, [run for _, run in found])
    return runs, count >= _MOST_READ


async def _alerts(
    sources: ViewSources, outage: Outage
) -> tuple[tuple[AlertView, ...], tuple[LateAlert, ...]]:
    """Return the alerts about the outage itself, and the others that began in it."""
    known = await _known_alerts(sources, outage)
    about = [
        alert
        for alert in known
        if alert.rule == RuleKind.WORKSPACE_UNREACHABLE and _overlaps(alert, outage)
    ]
    others = [
        alert
        for alert in known
        if alert.rule != RuleKind.WORKSPACE_UNREACHABLE
        and outage.since <= _ours(sources, alert, alert.starts_at) < outage.until
    ]
    others.sort(key=lambda alert: (alert.starts_at, alert.fingerprint))
    views = await alert_views(sources, others[:_MOST_SHOWN])
    late = tuple(
        LateAlert(alert=shown, late_seconds=_late_seconds(sources, alert, shown))
        for alert, shown in zip(others, views, strict=False)
    )
    return await alert_views(sources, about[:_MOST_SHOWN]), late


async def _known_alerts(sources: ViewSources, outage: Outage) -> list[Alert]:
    """Return the alerts of the workspace that are open or ended after its begin, each once."""
    now = [
        alert
        async for alert in in_slices(sources.alerting.snapshot().alerts)
        if alert.workspace == outage.workspace
    ]
    query = PastQuery(workspace=outage.workspace, since=outage.since, limit=_PAGE)
    past: Iterable[Alert] = await sources.alerting.past(query)
    unique = {(alert.fingerprint, alert.starts_at): alert for alert in (*now, *past)}
    return list(unique.values())


def _overlaps(alert: Alert, outage: Outage) -> bool:
    is_after = alert.ends_at is None or alert.ends_at >= outage.since
    return is_after and alert.starts_at < outage.until


def _ours(sources: ViewSources, alert: Alert, at: datetime) -> datetime:
    """Return an instant of an alert by our clock."""
    now = sources.clock.now()
    return at - (sources.live.time_of(alert, now) - now)


def _late_seconds(sources: ViewSources, alert: Alert, shown: AlertView) -> float | None:
    if shown.notified_at is None:
        return None
    began = _ours(sources, alert, alert.starts_at)
    return max(0.0, (shown.notified_at - began).total_seconds())


async def _awaited(
    sources: ViewSources, status: WorkspaceStatus, outage: Outage
) -> tuple[AwaitedStart, ...]:
    """Return the starts that were due since it began, the first ones."""
    begin, end = status.time_there(outage.since), status.time_there(outage.until)
    due: list[tuple[datetime, PipelineOfKind]] = [
        (at, key)
        async for key, at in in_slices(list(sources.alerting.snapshot().expected.items()))
        if key[0] == outage.workspace and begin <= at < end
    ]
    return tuple(_awaited_start(sources, key, at) for at, key in sorted(due)[:_MOST_AWAITED])


def _awaited_start(sources: ViewSources, key: PipelineOfKind, at: datetime) -> AwaitedStart:
    workspace, kind, pipeline_id = key
    of = PipelineKind.PLAN if kind is RunKind.PLAN_RUN else PipelineKind.FLOW
    label = sources.live.label(workspace, Pipeline(kind=of, id=pipeline_id))
    return AwaitedStart(pipeline_kind=of, pipeline_id=pipeline_id, pipeline=label, expected_at=at)
