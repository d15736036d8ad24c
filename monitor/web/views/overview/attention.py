"""What needs people: the open alerts by pipeline, the worst first."""

from __future__ import annotations

import itertools
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from types import MappingProxyType
from typing import Annotated

from msgspec import Meta, Struct

from monitor.model.alerts import (
    BRIDGE,
    Acknowledgement,
    Alert,
    AlertState,
    Severity,
)
from monitor.model.notifying import NotificationStatus
from monitor.model.runs import PipelineKind, RunKey, RunKind, RunState
from monitor.model.slices import in_slices
from monitor.web.http.request_parsing import refuse_unknown
from monitor.web.views.alerts import alert_words
from monitor.web.views.alerts.alert_words import AlertNames
from monitor.web.views.overview.pipeline_rows import is_firing
from monitor.web.views.overview.recent_overview import RecentOverview, computed
from monitor.web.views.sources import ViewSources
from monitor.web.views.view import View
from monitor.web.views.view_models import is_reason_read, reason_of_run

_PENDING = 20
_BADNESS: Mapping[Severity, int] = MappingProxyType(
    {severity: rank for rank, severity in enumerate(Severity)}
)
_Subject = tuple[str, PipelineKind | None, str]  # workspace, kind and id; else any other subject


class AttentionQuery(Struct, frozen=True, kw_only=True):
    """``groups`` is the most that are shown, behind so many that are skipped."""

    workspace: str | None = None
    groups: Annotated[int, Meta(ge=1, le=500)] = 20
    skip: Annotated[int, Meta(ge=0, le=1_000_000)] = 0


class AttentionAlert(Struct, frozen=True, kw_only=True):
    """One open alert. ``what`` and ``reason`` are one line each; ``muted`` says what holds it."""

    fingerprint: str
    name: str
    severity: Severity
    state: AlertState
    workspace: str
    subject: str
    what: str
    reason: str | None
    is_reason_read: bool  # False: why the run failed is still to be read
    since: datetime
    or_before: bool  # it was true when the rule was first evaluated
    flapping: bool
    notified_at: datetime | None  # of what an output has taken
    unnotified: str | None  # why none has, although it fires
    muted: tuple[str, ...]
    acknowledged: Acknowledgement | None
    unjudged: str | None  # why nobody can see now whether it is over
    run_kind: RunKind | None
    run_id: str | None
    runbook: str | None
    url: str | None  # of the run in the product
    silence: str  # the path of the form for a silence of it alone


class AttentionGroup(Struct, frozen=True, kw_only=True):
    """The open alerts about one pipeline, or about one other subject."""

    workspace: str
    kind: PipelineKind | None
    pipeline_id: str | None
    subject: str  # the name of the pipeline, else of what it is about
    severity: Severity
    is_muted: bool  # nobody is reminded of any of them
    alerts: tuple[AttentionAlert, ...]


class Attention(Struct, frozen=True, kw_only=True):
    """The open alerts. ``total`` counts groups, ``firing`` and ``pending`` alerts."""

    data: tuple[AttentionGroup, ...]
    next: int | None  # what to skip to get the next ones
    total: int
    firing: int
    pending: int
    unreported: int  # failing pipelines without an alert, of all workspaces
    pending_alerts: tuple[AttentionAlert, ...]  # the newest of them
    rules: int  # at work


class AttentionReader:
    """Groups the open alerts of now, so that whoever acknowledges one sees that at once."""

    def __init__(self, sources: ViewSources, recent: RecentOverview) -> None:
        self._sources = sources
        self._recent = recent

    async def read(self, query: AttentionQuery) -> Attention:
        overview = await self._recent.get()
        live, snapshot = self._sources.live, self._sources.alerting.snapshot()
        if query.workspace not in (None, BRIDGE):
            refuse_unknown(query.workspace, [status.workspace for status in live.workspaces()])
        groups, pending = await computed(len(snapshot.alerts), _open_alerts, snapshot.alerts)
        if query.workspace is not None:
            groups = [group for group in groups if group[0].workspace == query.workspace]
            pending = [alert for alert in pending if alert.workspace == query.workspace]
        end = query.skip + query.groups
        shown = groups[query.skip : end]
        alerts = [*itertools.chain(*shown), *pending[:_PENDING]]
        names = AlertNames(
            alert_words.suppressors(snapshot.alerts, alerts),
            snapshot.silences,
            read_at=self._sources.time_of,
        )
        notified = await self._sources.alerting.notifications(alerts)
        found = {alert.fingerprint: said for alert, said in zip(alerts, notified, strict=True)}
        words = _Words(self._sources, names, found, await self._unexplained(alerts))
        return Attention(
            data=tuple([words.group(group) async for group in in_slices(shown, size=20)]),
            next=end if end < len(groups) else None,
            total=len(groups),
            firing=sum(map(len, groups)),
            pending=len(pending),
            unreported=overview.unreported,
            pending_alerts=tuple([words.alert(alert) for alert in pending[:_PENDING]]),
            rules=len(snapshot.rules),
        )

    async def _unexplained(self, alerts: Sequence[Alert]) -> dict[RunKey, RunState]:
        """Return the runs of those that fired without a reason: it may have been read since."""
        keys = {alert.run for alert in alerts if alert.run is not None and _lacks_reason(alert)}
        return await self._sources.runs.runs(keys) if keys else {}


class _Words:
    """Says what alerts are about, in words."""

    def __init__(
        self,
        sources: ViewSources,
        names: AlertNames,
        notified: Mapping[str, NotificationStatus],
        unexplained: Mapping[RunKey, RunState],
    ) -> None:
        self._live = sources.live
        self._names = names
        self._notified = notified  # by fingerprint
        self._unexplained = unexplained

    def group(self, alerts: Sequence[Alert]) -> AttentionGroup:
        first = alerts[0]
        return AttentionGroup(
            workspace=first.workspace,
            kind=first.pipeline.kind if first.pipeline is not None else None,
            pipeline_id=first.pipeline.id if first.pipeline is not None else None,
            subject=alert_words.subject_of(first),
            severity=first.severity,
            is_muted=all(map(_is_quiet, alerts)),
            alerts=tuple(map(self.alert, alerts)),
        )

    def alert(self, alert: Alert) -> AttentionAlert:
        texts = self._names.texts_of(alert)
        notification = self._notified[alert.fingerprint]
        run = self._unexplained.get(alert.run) if alert.run is not None else None
        since_read = None if run is None else reason_of_run(run)
        return AttentionAlert(
            fingerprint=alert.fingerprint,
            name=alert.name,
            severity=alert.severity,
            state=alert.state,
            workspace=alert.workspace,
            subject=alert_words.subject_of(alert),
            what=alert_words.what_of(alert, texts),
            # Of a failure without an error text, the description has nothing to say either.
            reason=since_read if _lacks_reason(alert) else alert_words.reason_of(alert, texts),
            is_reason_read=run is None or is_reason_read(run),
            since=alert.starts_at,
            or_before=alert.preexisting,
            flapping=alert.is_flapping,
            notified_at=notification.at,
            unnotified=notification.why_not,
            muted=tuple(reason.words for reason in self._names.suppressed_by(alert)),
            acknowledged=alert.acknowledged,
            unjudged=self._live.why_unjudged(alert),
            run_kind=alert.run.kind if alert.run is not None else None,
            run_id=alert.run.id if alert.run is not None else None,
            runbook=alert_words.runbook_of(texts),
            url=alert_words.web_address(alert.facts.get("url")),
            silence=alert_words.silence_path(alert),
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


def _lacks_reason(alert: Alert) -> bool:
    return "error" in alert.facts and not alert.facts["error"]


def _subject_of(alert: Alert) -> _Subject:
    if alert.pipeline is not None:
        return alert.workspace, alert.pipeline.kind, alert.pipeline.id
    return alert.workspace, None, alert_words.subject_of(alert)


def _is_quiet(alert: Alert) -> bool:
    """Return True for what nobody is reminded of: it comes behind the rest."""
    return bool(alert.muted_by) or alert.acknowledged is not None


def _worst_first(alert: Alert) -> tuple[bool, int, float]:
    return _is_quiet(alert), _BADNESS[alert.severity], -alert.starts_at.timestamp()


def attention_view(sources: ViewSources, recent: RecentOverview) -> View:
    return View(
        name="attention",
        summary="Open alerts by pipeline, the worst first.",
        api="/api/v1/attention",
        query=AttentionQuery,
        answer=Attention,
        read=AttentionReader(sources, recent).read,
    )
