"""Open alerts by pipeline, the worst first."""

from __future__ import annotations

import itertools
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import Annotated

from msgspec import Meta, Struct

from monitor.model.alerts import BRIDGE, Alert, AlertState, Severity
from monitor.model.runs import PipelineKind
from monitor.web.views.alerts import alert_words
from monitor.web.views.alerts.alert_models import AlertView, alert_views
from monitor.web.views.overview.pipeline_state import is_firing
from monitor.web.views.overview.recent_overview import RecentOverview, computed
from monitor.web.views.sources import ViewSources
from monitor.web.views.view import view

_PENDING = 20
_BADNESS: Mapping[Severity, int] = MappingProxyType(
    {severity: rank for rank, severity in enumerate(Severity)}
)
_Subject = tuple[str, PipelineKind | None, str]  # workspace, kind and id; else any other subject


class AttentionQuery(Struct, frozen=True, kw_only=True):
    """``groups`` is the most that are shown, after so many that are skipped."""

    workspace: str | None = None
    groups: Annotated[int, Meta(ge=1, le=500)] = 20
    skip: Annotated[int, Meta(ge=0, le=1_000_000)] = 0


class AttentionGroup(Struct, frozen=True, kw_only=True):
    """The open alerts about one pipeline, or about one other subject."""

    workspace: str
    kind: PipelineKind | None
    pipeline_id: str | None
    subject: str  # the name of the pipeline, else of what it is about
    severity: Severity
    is_muted: bool  # nobody is reminded of any of them
    alerts: tuple[AlertView, ...]


class Attention(Struct, frozen=True, kw_only=True):
    """The open alerts. ``total`` counts groups, ``firing`` and ``pending`` alerts."""

    data: tuple[AttentionGroup, ...]
    next: int | None  # what to skip to get the next ones
    total: int
    firing: int
    pending: int
    unreported: int  # failing pipelines without an alert, of all workspaces
    pending_alerts: tuple[AlertView, ...]  # the newest of them
    rules: int  # at work


@view("attention", "/api/v1/attention", "Open alerts by pipeline, the worst first.")
async def attention_view(sources: ViewSources, query: AttentionQuery) -> Attention:
    overview = await sources.shared(RecentOverview).get()
    snapshot = sources.alerting.snapshot()
    if query.workspace not in (None, BRIDGE):
        sources.refuse_unknown(query.workspace)
    groups, pending = await computed(len(snapshot.alerts), _open_alerts, snapshot.alerts)
    if query.workspace is not None:
        groups = [group for group in groups if group[0].workspace == query.workspace]
        pending = [alert for alert in pending if alert.workspace == query.workspace]
    end = query.skip + query.groups
    shown = groups[query.skip : end]
    views = {
        view.fingerprint: view
        for view in await alert_views(sources, [*itertools.chain(*shown), *pending[:_PENDING]])
    }
    return Attention(
        data=tuple(_group(group, views) for group in shown),
        next=end if end < len(groups) else None,
        total=len(groups),
        firing=sum(map(len, groups)),
        pending=len(pending),
        unreported=overview.unreported,
        pending_alerts=tuple(views[alert.fingerprint] for alert in pending[:_PENDING]),
        rules=len(snapshot.rules),
    )


def _group(alerts: Sequence[Alert], views: Mapping[str, AlertView]) -> AttentionGroup:
    first = alerts[0]
    return AttentionGroup(
        workspace=first.workspace,
        kind=first.pipeline.kind if first.pipeline is not None else None,
        pipeline_id=first.pipeline.id if first.pipeline is not None else None,
        subject=alert_words.subject_of(first),
        severity=first.severity,
        is_muted=all(map(_is_quiet, alerts)),
        alerts=tuple(views[alert.fingerprint] for alert in alerts),
    )


def _open_alerts(alerts: Iterable[Alert]) -> tuple[list[list[Alert]], list[Alert]]:
    """Return the firing alerts by what they are about, and the pending ones; the worst first."""
    groups: defaultdict[_Subject, list[Alert]] = defaultdict(list)
    pending: list[Alert] = []
    for alert in sorted(alerts, key=_worst_first):
        if is_firing(alert):
            groups[_subject_of(alert)].append(alert)
        elif alert.state is AlertState.PENDING:
            pending.append(alert)
    return list(groups.values()), pending


def _subject_of(alert: Alert) -> _Subject:
    if alert.pipeline is not None:
        return alert.workspace, alert.pipeline.kind, alert.pipeline.id
    return alert.workspace, None, alert_words.subject_of(alert)


def _is_quiet(alert: Alert) -> bool:
    """Return True for alerts without reminders: they come after the rest."""
    return bool(alert.muted_by) or alert.acknowledged is not None


def _worst_first(alert: Alert) -> tuple[bool, int, float]:
    return _is_quiet(alert), _BADNESS[alert.severity], -alert.starts_at.timestamp()
