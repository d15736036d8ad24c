"""The labels of an alert, from its subject; and its subject, from the labels."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from monitor.alerting.rules.compiled import Rule
from monitor.alerting.rules.contract import Subject, SubjectKind
from monitor.alerting.rules.rule_settings import RuleSettings
from monitor.model.alerts import Alert
from monitor.tracking.live_state import LiveStateView

# Under which name the thing that an alert is about is shown.
_THINGS: Mapping[SubjectKind, str] = MappingProxyType(
    {
        SubjectKind.SCHEDULE: "schedule",
        SubjectKind.OUTPUT: "output",
        SubjectKind.TOKEN: "token_id",
        SubjectKind.DAEMON: "part",
    }
)


def labels_of(view: LiveStateView, rule: RuleSettings, subject: Subject) -> dict[str, str]:
    """Return what an alert of the rule about the subject is labelled with."""
    pipeline = subject.pipeline
    shown = {
        **rule.labels,
        "alertname": rule.name,
        "rule": rule.rule,
        "severity": rule.severity,
        "workspace": subject.workspace,
        "kind": subject.kind or "",
        "pipeline": view.label(subject.workspace, pipeline) if pipeline is not None else "",
        "pipeline_id": pipeline.id if pipeline is not None else "",
        _THINGS.get(subject.subject_kind, ""): subject.thing,
    }
    return {name: str(value) for name, value in shown.items() if name and value}


def subject_of(rule: Rule, alert: Alert) -> Subject:
    """Return what an alert of the rule is about."""
    subject_kind = rule.definition.subject_kind
    return Subject(
        subject_kind=subject_kind,
        workspace=alert.workspace,
        kind=alert.kind,
        pipeline=alert.pipeline,
        thing=alert.labels.get(_THINGS.get(subject_kind, ""), ""),
    )
