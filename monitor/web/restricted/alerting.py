"""Answers what is asked of alerting, as far as it is about some workspaces."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from datetime import datetime
from typing import TypeVar

import msgspec

from monitor.alerting.alerts.silences import Labels, matcher
from monitor.alerting.engine.committed_state import place_of
from monitor.alerting.explain.explanation import Explanation
from monitor.alerting.reports.merging import merged_report
from monitor.alerting.reports.report_query import ReportQuery
from monitor.model.alerts import (
    Alert,
    AlertingSnapshot,
    AppliedRule,
    PastQuery,
    PipelineOfKind,
    Silence,
)
from monitor.model.days_off import DaysOff
from monitor.model.errors import ConfigurationError
from monitor.model.globs import parse_globs
from monitor.model.notifying import MessagePreview, NotificationStatus, OutputTypes
from monitor.model.public_shapes import filled
from monitor.model.reports import Report
from monitor.model.runs import Pipeline, PipelineKind, RunKey
from monitor.outputs.dead_letters import LetterAction, LettersProcessed
from monitor.outputs.replaying import Replayed
from monitor.web.requests import AlertingRequests
from monitor.web.restricted.live_state import Sees

T = TypeVar("T")
_WORKSPACE = "workspace"
_GLOB = frozenset("*?[")


def restricted_alerting(
    whole: AlertingRequests, sees: Sees, workspaces: Callable[[], Iterable[str]]
) -> AlertingRequests:
    """Return the same requests, which know of no workspace that is not shown.

    ``workspaces`` returns the names of those that are shown now.
    """
    return filled(AlertingRequests, _RestrictedAlerting(whole, sees, workspaces))


class _RestrictedAlerting:
    def __init__(
        self, whole: AlertingRequests, sees: Sees, workspaces: Callable[[], Iterable[str]]
    ) -> None:
        self._whole = whole
        self._sees = sees
        self._workspaces = workspaces
        self._made_of: AlertingSnapshot | None = None
        self._snapshot = AlertingSnapshot()

    def snapshot(self) -> AlertingSnapshot:
        """Return the same snapshot until the whole changes."""
        whole = self._whole.snapshot()
        if whole is not self._made_of:
            self._snapshot, self._made_of = self._restricted(whole), whole
        return self._snapshot

    def _restricted(self, whole: AlertingSnapshot) -> AlertingSnapshot:
        sees = self._sees
        return AlertingSnapshot(
            alerts=tuple(self._shown(whole.alerts)),
            silences=tuple(filter(self._is_within, whole.silences)),
            limits=tuple(limit for limit in whole.limits if sees(limit.workspace)),
            cadences=tuple(limit for limit in whole.cadences if sees(limit.workspace)),
            expected=self._of_pipelines(whole.expected),
            after_grace=self._of_pipelines(whole.after_grace),
            missed=self._of_pipelines(whole.missed),
            deadlines=self._of_pipelines(whole.deadlines),
            rules=whole.rules,  # transitions and failures of rules are counted over everything
        )

    def _of_pipelines(self, mapping: Mapping[PipelineOfKind, T]) -> dict[PipelineOfKind, T]:
        return {key: value for key, value in mapping.items() if self._sees(key[0])}

    def _shown(self, alerts: Iterable[Alert]) -> list[Alert]:
        return [alert for alert in alerts if self._sees(alert.workspace)]

    def _is_within(self, silence: Silence) -> bool:
        """True where a silence names one workspace, and that is shown."""
        return any(
            wanted.label == _WORKSPACE
            and wanted.is_wanted
            and not _GLOB & set(wanted.glob)
            and self._sees(wanted.glob)
            for wanted in (matcher(text, labels=None) for text in silence.matchers)
        )

    def ended(self, fingerprint: str) -> Sequence[Alert]:
        return self._shown(self._whole.ended(fingerprint))

    def labels(self) -> Labels:
        labels: dict[str, Collection[str]] = dict(self._whole.labels())
        labels[_WORKSPACE] = tuple(filter(self._sees, labels.get(_WORKSPACE, ())))
        return labels

    async def add_silence(self, silence: Silence) -> None:
        """Add a silence of one workspace that is shown.

        Raises:
            ConfigurationError: it is of more than that.
        """
        if not self._is_within(silence):
            raise ConfigurationError(
                "matchers: name the workspace that is to be silent, such as workspace=NAME; you "
                "may silence nothing else"
            )
        await self._whole.add_silence(silence)

    async def expire_silence(self, silence_id: str) -> bool:
        if not any(silence.id == silence_id for silence in self.snapshot().silences):
            return False
        return await self._whole.expire_silence(silence_id)

    async def past(self, query: PastQuery) -> Sequence[Alert]:
        names = self._workspaces() if query.workspace is None else [query.workspace]
        found: list[Alert] = []
        for name in filter(self._sees, names):
            found += await self._whole.past(msgspec.structs.replace(query, workspace=name))
        return sorted(found, key=place_of, reverse=True)[: query.limit]

    def rules_for(self, workspace: str, pipeline: Pipeline) -> Sequence[AppliedRule]:
        return self._whole.rules_for(workspace, pipeline) if self._sees(workspace) else ()

    def starts_days_off(self, workspace: str, pipeline: Pipeline) -> Sequence[DaysOff]:
        return self._whole.starts_days_off(workspace, pipeline) if self._sees(workspace) else ()

    async def acknowledge(
        self,
        fingerprint: str,
        starts_at: datetime,
        author: str,
        comment: str,
        until: datetime | None,
    ) -> bool:
        if not self._knows(fingerprint):
            return False
        return await self._whole.acknowledge(fingerprint, starts_at, author, comment, until)

    def would_mute(self, matchers: tuple[str, ...]) -> Sequence[Alert]:
        return self._shown(self._whole.would_mute(matchers))

    async def explain_alert(self, fingerprint: str) -> Explanation | None:
        is_known = self._knows(fingerprint)
        return await self._whole.explain_alert(fingerprint) if is_known else None

    async def explain_run(self, key: RunKey) -> Explanation | None:
        return await self._whole.explain_run(key) if self._sees(key.workspace) else None

    async def explain_pipeline(
        self, workspace: str, kind: PipelineKind, key: str
    ) -> Explanation | None:
        if not self._sees(workspace):
            return None
        return await self._whole.explain_pipeline(workspace, kind, key)

    def outputs(self) -> OutputTypes:
        return self._whole.outputs()

    def unnotified(self) -> str | None:
        return self._whole.unnotified()

    async def notifications(self, alerts: Sequence[Alert]) -> Sequence[NotificationStatus]:
        return await self._whole.notifications(alerts)

    async def replay(self, output: str, since: datetime) -> Replayed:
        raise ConfigurationError(f"{output}: a replay is of all workspaces since {since}")

    async def report(self, query: ReportQuery) -> Report:
        """Return one report of the workspaces that are shown and that it is to be about."""
        wanted = parse_globs(query.match.workspace)
        parts = [
            await self._whole.report(
                msgspec.structs.replace(
                    query, match=msgspec.structs.replace(query.match, workspace=(name,))
                )
            )
            for name in self._workspaces()
            if wanted.match([name])
        ]
        made_at = max((part.made_at for part in parts), default=query.until)
        return await merged_report(parts, query, made_at=made_at)

    async def process_letters(
        self, output: str, action: LetterAction, event_ids: tuple[str, ...] | None
    ) -> LettersProcessed:
        del event_ids
        raise ConfigurationError(f"{output}: dead letters to {action} are of all workspaces")

    async def preview(self, fingerprint: str) -> Sequence[MessagePreview] | None:
        return await self._whole.preview(fingerprint) if self._knows(fingerprint) else None

    def _knows(self, fingerprint: str) -> bool:
        alerts = self.snapshot().alerts
        is_open = any(alert.fingerprint == fingerprint for alert in alerts)
        return is_open or bool(self.ended(fingerprint))
