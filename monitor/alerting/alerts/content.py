"""The content of an alert (labels, annotations, facts) from its subject, and the way back."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from monitor.alerting.rules.compiled import Rule
from monitor.alerting.rules.contract import Subject, SubjectKind
from monitor.alerting.rules.results import Firing
from monitor.alerting.rules.rule_settings import RuleSettings
from monitor.model.alerts import Alert, AlertState
from monitor.model.runs import RunKind, RunState
from monitor.tracking.live_state import LiveStateView

_TEXT_KEPT = 4_000  # characters of one fact
# The label of `Subject.thing`.
_THINGS: Mapping[SubjectKind, str] = MappingProxyType(
    {
        SubjectKind.SCHEDULE: "schedule",
        SubjectKind.OUTPUT: "output",
        SubjectKind.TOKEN: "token_id",
        SubjectKind.DAEMON: "part",
    }
)


def labels_of(view: LiveStateView, rule: RuleSettings, subject: Subject) -> dict[str, str]:
    """Return the labels of an alert of the rule about the subject."""
    pipeline = subject.pipeline
    labels = {
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
    return {name: str(value) for name, value in labels.items() if name and value}


def subject_of(rule: Rule, alert: Alert) -> Subject:
    """Return the subject of an alert of the rule."""
    subject_kind = rule.definition.subject_kind
    return Subject(
        subject_kind=subject_kind,
        workspace=alert.workspace,
        kind=alert.kind,
        pipeline=alert.pipeline,
        thing=alert.labels.get(_THINGS.get(subject_kind, ""), ""),
    )


def new_alert(
    view: LiveStateView,
    rule: Rule,
    subject: Subject,
    result: Firing,
    *,
    fingerprint: str,
    run: RunState | None,
    plan: str | None = None,
) -> Alert:
    """Return the alert as it would begin now.

    ``run`` is the run that the result is about, ``plan`` the name of the plan around it.
    """
    settings = rule.settings
    facts = {**result.facts, **_place_facts(view, subject, run, plan)}
    return Alert(
        fingerprint=fingerprint,
        name=settings.name,
        rule=settings.rule,
        severity=settings.severity,
        state=AlertState.PENDING,
        labels=labels_of(view, settings, subject),
        templates=dict(settings.annotations),
        starts_at=result.since,
        workspace=subject.workspace,
        kind=subject.kind,
        pipeline=subject.pipeline,
        run=result.run,
        evidence=result.evidence,
        evidence_count=len(result.evidence),
        facts=bounded(facts),
        preexisting=result.preexisting,
    )


def _place_facts(
    view: LiveStateView, subject: Subject, run: RunState | None, plan: str | None
) -> dict[str, str]:
    """Return what is known of where, by whom and how it ran; without what is not known."""
    folder = owner = None
    if subject.pipeline is not None:
        folder, owner = view.place(subject.workspace, subject.pipeline)
    if plan is None and subject.kind is RunKind.PLAN_RUN and subject.pipeline is not None:
        plan = view.label(subject.workspace, subject.pipeline)
    facts = {"folder": folder, "owner": owner, "plan": plan}
    if run is not None:
        facts |= {"owner": run.owner or owner, "trigger": str(run.trigger), "url": run.url}
    return {name: fact for name, fact in facts.items() if fact}


def bounded(facts: Mapping[str, str | float | None]) -> dict[str, str | float | None]:
    """Return the facts as the store gives them back: texts of a bounded length, no integers."""
    return {
        name: fact[:_TEXT_KEPT] if isinstance(fact, str) else None if fact is None else float(fact)
        for name, fact in facts.items()
    }
