"""A fake of alerting for the server: a snapshot that a test sets, and the requests it received."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import datetime, timedelta
from typing import Any

import msgspec

from monitor.alerting.alerts.instance import StepWord
from monitor.alerting.alerts.pending_step import EndedAlert, ended_key
from monitor.alerting.alerts.silences import labels_to_match
from monitor.alerting.engine.committed_state import PastAlerts
from monitor.alerting.engine.suppression import muted_by
from monitor.alerting.explain.explanation import (
    Explanation,
    ExplanationStage,
    ExplanationStep,
    StepOutcome,
)
from monitor.alerting.reports.merging import merged_report
from monitor.alerting.reports.report_query import ReportQuery
from monitor.model.alerts import (
    Acknowledgement,
    Alert,
    AlertingSnapshot,
    AlertState,
    AppliedRule,
    PastQuery,
    Severity,
    Silence,
)
from monitor.model.days_off import DaysOff
from monitor.model.events import EventType
from monitor.model.notifying import (
    MessagePreview,
    NotificationStatus,
    OutputTypes,
    why_not_notified,
)
from monitor.model.reports import Report
from monitor.model.runs import Pipeline, PipelineKind, RunKey, RunKind
from monitor.outputs.dead_letters import LetterAction, LettersProcessed
from monitor.outputs.replaying import Replayed
from monitor.web.requests import AlertingRequests

KNOWN_RUN = RunKey("acme", RunKind.JOB_GROUP, "17")


class FakeAlerting:
    """Holds a snapshot that a test changes."""

    def __init__(self, *, now: Callable[[], datetime]) -> None:
        self._now = now
        self.snapshot = AlertingSnapshot(rules=(("run_failed", Severity.CRITICAL),))
        self.over: dict[str, list[Alert]] = {}
        self.rules: dict[tuple[str, str], Sequence[AppliedRule]] = {}  # by workspace and pipeline
        self.days_off: dict[tuple[str, str], Sequence[DaysOff]] = {}  # likewise, one a rule
        self.explained: set[str] = set()  # fingerprints beside those of the snapshot
        self.known_runs = {KNOWN_RUN}
        self.known_pipelines = {("acme", PipelineKind.FLOW, "7")}
        self.outputs: OutputTypes = dict.fromkeys(("mqtt", "webhook"), frozenset(EventType))
        self.why_not: str | None = None  # why an alert that fires was not notified
        self.replayed: list[tuple[str, datetime]] = []
        self.report: Report | None = None  # its lines; None: nothing has happened
        self.reports_asked: list[ReportQuery] = []
        self.processed_letters: list[tuple[str, LetterAction, tuple[str, ...] | None]] = []
        self.previews: tuple[MessagePreview, ...] = ()
        self.letters = LettersProcessed(output="mqtt", sent=2, left=1)

    def requests(self) -> AlertingRequests:
        return AlertingRequests(
            snapshot=lambda: self.snapshot,
            ended=lambda fingerprint: self.over.get(fingerprint, []),
            labels=lambda: labels_to_match(
                (), rules=[name for name, _ in self.snapshot.rules], workspaces=["acme", "other"]
            ),
            add_silence=self._add,
            expire_silence=self._expire,
            past=self._past,
            rules_for=lambda workspace, pipeline: self.rules.get((workspace, pipeline.id), ()),
            starts_days_off=lambda workspace, pipeline: self.days_off.get(
                (workspace, pipeline.id), ()
            ),
            acknowledge=self._acknowledge,
            would_mute=lambda matchers: muted_by(matchers, self.snapshot.alerts),
            explain_alert=self._explain_alert,
            explain_run=self._explain_run,
            explain_pipeline=self._explain_pipeline,
            outputs=lambda: self.outputs,
            unnotified=lambda: why_not_notified(self.outputs),
            notifications=self._notifications,
            replay=self._replay,
            report=self._report,
            process_letters=self._process_letters,
            preview=self._preview,
        )

    def show(self, *alerts: Alert, **more: Any) -> None:
        """Let these alerts be the present."""
        self.snapshot = msgspec.structs.replace(self.snapshot, alerts=alerts, **more)

    def alert(self, fingerprint: str = "9f86d081884c7d65", **more: Any) -> Alert:
        """Return an alert about the flow ``orders`` that fires since now."""
        made: dict[str, Any] = {
            "fingerprint": fingerprint,
            "name": "run_failed",
            "rule": "run_failed",
            "severity": Severity.CRITICAL,
            "state": AlertState.FIRING,
            "labels": {"alertname": "run_failed", "pipeline": "orders", "workspace": "acme"},
            "templates": {"summary": "orders has failed"},
            "starts_at": self._now(),
            "workspace": "acme",
            "kind": RunKind.JOB_GROUP,
            "pipeline": Pipeline(kind=PipelineKind.FLOW, id="7", name="orders"),
            "run": KNOWN_RUN,
            "evidence": ("acme:job_group:17:failed",),
            "evidence_count": 1,
            "is_notified": True,
        }
        return Alert(**{**made, **more})

    def silence(self, silence_id: str = "5d3c", **more: Any) -> Silence:
        """Return a silence of the next two hours."""
        made: dict[str, Any] = {
            "id": silence_id,
            "matchers": ("pipeline=daily*",),
            "author": "ann",
            "comment": "planned reload",
            "starts_at": self._now(),
            "ends_at": self._now() + timedelta(hours=2),
            "origin": "api",
        }
        return Silence(**{**made, **more})

    async def _add(self, silence: Silence) -> None:
        others = [other for other in self.snapshot.silences if other.id != silence.id]
        self._silences([*others, silence])

    async def _expire(self, silence_id: str) -> bool:
        left = [silence for silence in self.snapshot.silences if silence.id != silence_id]
        is_gone = len(left) < len(self.snapshot.silences)
        self._silences(left)
        return is_gone

    def _silences(self, silences: Sequence[Silence]) -> None:
        self.snapshot = msgspec.structs.replace(self.snapshot, silences=tuple(silences))

    async def _past(self, query: PastQuery) -> Sequence[Alert]:
        past = PastAlerts()
        alerts = [alert for alerts in self.over.values() for alert in alerts]
        alerts += [alert for alert in self.snapshot.alerts if alert.state is AlertState.RESOLVED]
        await past.load(
            {
                ended_key(alert.fingerprint, alert.starts_at, number): EndedAlert(
                    alert=alert, word=StepWord.RESOLVED, at=alert.ends_at or self._now()
                )
                for number, alert in enumerate(alerts, 1)
            }
        )
        return await past.find(query)

    async def _acknowledge(
        self,
        fingerprint: str,
        starts_at: datetime,
        author: str,
        comment: str,
        until: datetime | None,
    ) -> bool:
        by = Acknowledgement(author=author, comment=comment, at=self._now(), until=until)
        named = (fingerprint, starts_at)
        alerts = tuple(
            msgspec.structs.replace(alert, acknowledged=by)
            if (alert.fingerprint, alert.starts_at) == named
            else alert
            for alert in self.snapshot.alerts
        )
        is_open = alerts != self.snapshot.alerts
        self.show(*alerts)
        return is_open

    async def _notifications(self, alerts: Sequence[Alert]) -> Sequence[NotificationStatus]:
        return [
            NotificationStatus(
                at=alert.notified_at, why_not=self.why_not if alert.is_notified else None
            )
            for alert in alerts
        ]

    async def _explain_alert(self, fingerprint: str) -> Explanation | None:
        alert = next(
            (alert for alert in self.snapshot.alerts if alert.fingerprint == fingerprint),
            None,
        )
        if alert is None and fingerprint in self.explained:
            return _explanation(f"alert {fingerprint}")
        return None if alert is None else _explanation(f"alert {alert.name}", alert)

    async def _explain_run(self, key: RunKey) -> Explanation | None:
        return _explanation(f"run {key}") if key in self.known_runs else None

    async def _explain_pipeline(
        self, workspace: str, kind: PipelineKind, key: str
    ) -> Explanation | None:
        is_known = (workspace, kind, key) in self.known_pipelines
        return _explanation(f"pipeline {workspace}/{kind}/{key}") if is_known else None

    async def _report(self, query: ReportQuery) -> Report:
        self.reports_asked.append(query)
        found = () if self.report is None else (self.report,)
        return await merged_report(found, query, made_at=self._now())

    async def _replay(self, output: str, since: datetime) -> Replayed:
        self.replayed.append((output, since))
        return Replayed(output=output, sent=3, skipped=0, refused=0)

    async def _process_letters(
        self, output: str, action: LetterAction, event_ids: tuple[str, ...] | None
    ) -> LettersProcessed:
        self.processed_letters.append((output, action, event_ids))
        return msgspec.structs.replace(self.letters, output=output)

    async def _preview(self, fingerprint: str) -> Sequence[MessagePreview] | None:
        known = [alert.fingerprint for alert in self.snapshot.alerts]
        return self.previews if fingerprint in known else None


def _explanation(about: str, *alerts: Alert) -> Explanation:
    step = ExplanationStep(
        ExplanationStage.RULE,
        StepOutcome.PENDING,
        "fires after 300 s",
        rule="x",
        subject="job_group orders",
    )
    return Explanation(
        subject=about,
        answer=f"{about} was not notified",
        reason=StepOutcome.PENDING,
        steps=(step,),
        alerts=alerts,
    )
