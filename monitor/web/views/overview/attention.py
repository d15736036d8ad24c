"""Open alerts by pipeline, and workspaces and rules in trouble, the worst first."""

from __future__ import annotations

import itertools
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from types import MappingProxyType
from typing import Annotated

from msgspec import Meta, Struct

from monitor.alerting.explain.never_shown import why_limited
from monitor.model.alerts import BRIDGE, Alert, AlertState, Severity
from monitor.model.live_state import Reachability, WorkspaceStatus
from monitor.model.public_shapes import filled
from monitor.model.runs import PipelineKind, RunKind
from monitor.web.views.alerts.alert_models import AlertView, alert_views, subject_of
from monitor.web.views.overview.overview import Overview
from monitor.web.views.overview.pipeline_state import PipelineCondition, is_firing
from monitor.web.views.overview.recent_overview import RecentOverview, computed
from monitor.web.views.overview.status import why_unseen
from monitor.web.views.view import ViewSources, view
from monitor.web.views.watching import unwatched

_PENDING = 20
_BADNESS: Mapping[Severity, int] = MappingProxyType(
    {severity: rank for rank, severity in enumerate(Severity)}
)
_Subject = tuple[str, PipelineKind | None, str]  # workspace, kind and id; else any other subject

_WORDS_OF: dict[str, str] = {
    RunKind.JOB_GROUP: "job groups",
    RunKind.FLOW_RUN: "flow runs",
    RunKind.PLAN_RUN: "plan runs",
}
_WORST_FIRST = {
    Reachability.UNREACHABLE: 0,
    Reachability.UNKNOWN: 1,
    Reachability.DEGRADED: 2,
    Reachability.REACHABLE: 3,
}


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
    is_muted: bool  # no reminders are sent for any of them
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
        subject=subject_of(first),
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
    return alert.workspace, None, subject_of(alert)


def _is_quiet(alert: Alert) -> bool:
    """Return True for alerts without reminders: they come after the rest."""
    return bool(alert.muted_by) or alert.acknowledged is not None


def _worst_first(alert: Alert) -> tuple[bool, int, float]:
    return _is_quiet(alert), _BADNESS[alert.severity], -alert.starts_at.timestamp()


class TroubleQuery(Struct, frozen=True, kw_only=True):
    """Of one workspace, or of all."""

    workspace: str | None = None


class WorkspaceTrouble(Struct, frozen=True, kw_only=True):
    """A workspace that cannot be seen wholly. Instants are ours."""

    workspace: str
    reachability: Reachability
    since: datetime | None
    known_at: datetime | None  # when it last answered
    does_not_answer: str | None  # in words; then ``reason`` has the details
    reason: str
    unseen: tuple[str, ...]  # of what nothing new is seen
    unknown: int  # pipelines whose state is unknown therefore


class RuleInTrouble(Struct, frozen=True, kw_only=True):
    """A rule whose evaluation fails: its alerts stand still."""

    rule: str
    reason: str


class TroubleList(Struct, frozen=True, kw_only=True):
    """Nothing in ``data`` and ``rules``: everything is seen and judged."""

    data: tuple[WorkspaceTrouble, ...]
    next: None
    rules: tuple[RuleInTrouble, ...]


@view("trouble", "/api/v1/trouble", "Workspaces that are unreachable, degraded or blind.")
async def trouble_view(sources: ViewSources, query: TroubleQuery) -> TroubleList:
    overview = await sources.shared(RecentOverview).get()
    found = [
        trouble
        for status in sources.workspaces(query.workspace)
        if (trouble := _trouble(sources, status, overview)) is not None
    ]
    found.sort(key=lambda trouble: (_WORST_FIRST[trouble.reachability], trouble.workspace))
    failing = sources.alerting.snapshot().failing_rules
    rules = tuple(RuleInTrouble(rule=rule, reason=reason) for rule, reason in failing.items())
    return TroubleList(data=tuple(found), next=None, rules=rules)


def _trouble(
    sources: ViewSources, status: WorkspaceStatus, overview: Overview
) -> WorkspaceTrouble | None:
    name = status.workspace
    unknown = overview.count(PipelineCondition.UNKNOWN, name)
    found = unwatched(sources.live, status)
    unseen = tuple(_WORDS_OF.get(known.what, known.what) for known in found)
    is_well = status.reachability is Reachability.REACHABLE and why_limited(status) is None
    is_seen = why_unseen(sources.live, overview, status) is None
    if is_well and is_seen and not unknown:
        return None
    reasons = (
        status.reason,
        *(known.reason for known in found),
        *(overview.blind.get((name, kind)) for kind in PipelineKind),
        *(unshared.reason for unshared in status.unshared.values()),
        "it has not answered yet",
    )
    reason = next(reason for reason in reasons if reason)
    return filled(WorkspaceTrouble, status, reason=reason, unseen=unseen, unknown=unknown)
