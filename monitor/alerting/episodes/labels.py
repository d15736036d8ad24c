"""The labels of an alert, from its subject; and its subject, from the labels."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from monitor.alerting.compiled import Rule
from monitor.alerting.settings.rules import RuleSettings
from monitor.alerting.verdicts import About, Subject
from monitor.model.alerts import Alert
from monitor.tracking.knowledge import KnowledgeView

# Under which name the thing that an alert is about is shown.
_THINGS: Mapping[About, str] = MappingProxyType(
    {
        About.SCHEDULE: "schedule",
        About.OUTPUT: "output",
        About.TOKEN: "token_id",
        About.DAEMON: "part",
    }
)


def labels_of(view: KnowledgeView, rule: RuleSettings, subject: Subject) -> dict[str, str]:
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
        _THINGS.get(subject.about, ""): subject.thing,
    }
    return {name: str(value) for name, value in shown.items() if name and value}


def subject_of(rule: Rule, alert: Alert) -> Subject:
    """Return what an alert of the rule is about."""
    about = rule.condition.about
    return Subject(
        about=about,
        workspace=alert.workspace,
        kind=alert.kind,
        pipeline=alert.pipeline,
        thing=alert.labels.get(_THINGS.get(about, ""), ""),
    )
