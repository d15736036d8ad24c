"""The list of alerts: open ones worst first, then ended ones, newest end first."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from types import MappingProxyType
from typing import Annotated, Literal, NamedTuple

from msgspec import Meta, Struct

from monitor.model.alerts import (
    BRIDGE,
    Alert,
    AlertingSnapshot,
    AlertState,
    PastPlace,
    PastQuery,
    Severity,
)
from monitor.model.slices import in_slices, sorted_in_slices
from monitor.web.http.instants import since_of
from monitor.web.http.problem_details import ProblemDetails
from monitor.web.http.request_parsing import cursor_after, read_cursor, unknown
from monitor.web.views.alerts.alert_models import AlertView, alert_views
from monitor.web.views.view import ViewSources, view

_IN_A_SLICE = 500  # of thousands of alerts in an outage, which are only compared
_LIST = "alerts by state"
_SINCE = "Open, or ended since: an ISO 8601 instant, or how long ago, such as 24h or 7d."
_STATES: Mapping[AlertState, int] = MappingProxyType(
    {AlertState.FIRING: 0, AlertState.PENDING: 1, AlertState.RESOLVED: 2}
)
_SEVERITIES: Mapping[Severity, int] = MappingProxyType(
    {severity: rank for rank, severity in enumerate(Severity)}
)
_ENDED = _STATES[AlertState.RESOLVED]

_Rank = tuple[int, int, float, str, float]


class AlertPlace(NamedTuple):
    """Where an alert stands in the list. ``at``: its start, or its end once it has one."""

    state: int
    severity: int
    at: datetime
    fingerprint: str
    starts_at: datetime


class AlertsQuery(Struct, frozen=True, kw_only=True):
    """Which alerts. ``pipeline`` is an id or a name; ``since``: open, or ended since then."""

    state: Literal["pending", "firing", "resolved", "open"] | None = None
    workspace: str | None = None
    rule: str | None = None
    severity: Severity | None = None
    pipeline: str | None = None
    since: Annotated[str, Meta(description=_SINCE)] | None = None
    limit: Annotated[int, Meta(ge=1, le=1_000)] = 200
    cursor: str | None = None


class AlertList(Struct, frozen=True, kw_only=True):
    """Alerts. The counts are of all that are open, whatever the filters."""

    data: tuple[AlertView, ...]
    next: str | None
    firing: int
    pending: int
    silences: int  # at work
    rules: tuple[str, ...]  # at work, for the filter
    workspaces: tuple[str, ...]
    failing_rules: dict[str, str]  # the rules that cannot be evaluated, and why


@view("alerts", "/api/v1/alerts", "Alerts: open ones, the worst first, then ended ones.")
async def alerts_view(sources: ViewSources, query: AlertsQuery) -> AlertList:
    snapshot = sources.alerting.snapshot()
    since = since_of(query.since, now=sources.clock.now())
    key = read_cursor(_LIST, query.cursor, AlertPlace)
    shown = [] if key is not None and key.state == _ENDED else await _open(query, snapshot, key)
    if len(shown) <= query.limit and query.state in (None, "resolved"):
        shown += await _past(sources, query, key, since, query.limit + 1 - len(shown))
    if not shown:
        sources.refuse_unknown(query.workspace, also=[BRIDGE])
        # A rule that was removed or renamed has past alerts.
        _refuse_unknown_rule(query, snapshot)
    page = shown[: query.limit]
    now = sources.clock.now()
    states = [alert.state for alert in snapshot.alerts]
    return AlertList(
        data=await alert_views(sources, page),
        next=cursor_after(_LIST, _key(page[-1])) if len(shown) > len(page) else None,
        firing=states.count(AlertState.FIRING),
        pending=states.count(AlertState.PENDING),
        silences=sum(silence.starts_at <= now < silence.ends_at for silence in snapshot.silences),
        rules=tuple(name for name, _ in snapshot.rules),
        workspaces=tuple(sources.workspace_names),
        failing_rules=snapshot.failing_rules,
    )


async def _past(
    sources: ViewSources,
    query: AlertsQuery,
    key: AlertPlace | None,
    since: datetime | None,
    limit: int,
) -> list[Alert]:
    after = (
        PastPlace(key.at, key.fingerprint, key.starts_at)
        if key is not None and key.state == _ENDED
        else None
    )
    past = PastQuery(
        workspace=query.workspace,
        rule=query.rule,
        severity=query.severity,
        pipeline_named=query.pipeline,
        since=since,
        after=after,
        limit=limit,
    )
    return list(await sources.alerting.past(past))


def _refuse_unknown_rule(query: AlertsQuery, snapshot: AlertingSnapshot) -> None:
    names = [name for name, _ in snapshot.rules]
    if query.rule in (None, *names):
        return
    if query.rule not in {alert.name for alert in snapshot.alerts}:
        raise ProblemDetails(400, f"rule: {unknown(str(query.rule), names)}")


async def _open(
    query: AlertsQuery, snapshot: AlertingSnapshot, key: AlertPlace | None
) -> list[Alert]:
    """Return the open alerts that fit, the worst first, after the cursor."""
    if query.state == "resolved":
        return []
    fitting = [
        alert
        async for alert in in_slices(snapshot.alerts, size=_IN_A_SLICE)
        if alert.state is not AlertState.RESOLVED and _fits(alert, query)
    ]
    ordered = await worst_first(fitting)
    if key is None:
        return ordered
    last = _ranked(key)
    return [alert for alert in ordered if _rank(alert) > last]


async def worst_first(alerts: Sequence[Alert]) -> list[Alert]:
    """Return firing alerts before others, then by severity, then the newest first."""
    return await sorted_in_slices(alerts, key=_rank)  # thousands in an outage


def _fits(alert: Alert, query: AlertsQuery) -> bool:
    return (
        query.state in (None, "open", alert.state)
        and query.rule in (None, alert.name)
        and query.workspace in (None, alert.workspace)
        and query.severity in (None, alert.severity)
        and (query.pipeline is None or alert.is_about(query.pipeline))
    )


def _key(alert: Alert) -> AlertPlace:
    if alert.ends_at is not None:
        return AlertPlace(_ENDED, 0, alert.ends_at, alert.fingerprint, alert.starts_at)
    severity = _SEVERITIES[alert.severity]
    at = alert.starts_at
    return AlertPlace(_STATES[alert.state], severity, at, alert.fingerprint, at)


def _rank(alert: Alert) -> _Rank:
    return _ranked(_key(alert))


def _ranked(key: AlertPlace) -> _Rank:
    state, severity, at, fingerprint, starts_at = key
    return state, severity, -at.timestamp(), fingerprint, starts_at.timestamp()
