"""Subjects of alerts: identities, what rules match them by, and the content of their alerts."""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from types import MappingProxyType
from urllib.parse import quote

from msgspec import Struct

from monitor.alerting.rules.compiled import Rule, Traits
from monitor.alerting.rules.contract import Firing, Subject, SubjectKind
from monitor.alerting.rules.rule_settings import RuleSettings
from monitor.model.alerts import Alert, AlertState, fingerprint
from monitor.model.live_state import ScheduleKnown
from monitor.model.runs import RUN_KINDS, Pipeline, PipelineKind, RunKey, RunKind, RunState
from monitor.tracking.live_state import LiveStateView

_KEYS_CACHED = 65_536
_OF_PIPELINES = frozenset({SubjectKind.PIPELINE, SubjectKind.FLOW_OR_PLAN})
_UNKNOWN = Pipeline(kind=PipelineKind.FLOW, id="")
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


def of_run(key: RunKey, pipeline: Pipeline | None) -> Subject:
    """Return the pipeline as runs of that kind execute it."""
    return Subject(
        subject_kind=SubjectKind.PIPELINE, workspace=key.workspace, kind=key.kind, pipeline=pipeline
    )


def of_pipeline(workspace: str, pipeline: Pipeline) -> Subject:
    """Return the flow or plan as such. Its kind is that of the runs that schedules start.

    It is the same also where flow runs cannot be followed: identities do not change with rights.
    """
    return Subject(
        subject_kind=SubjectKind.FLOW_OR_PLAN,
        workspace=workspace,
        kind=RUN_KINDS[pipeline.kind][0],
        pipeline=pipeline,
    )


def of_schedule(workspace: str, schedule: ScheduleKnown) -> Subject:
    """Return the schedule, with the first existing pipeline that it starts."""
    pipeline = next(iter((*schedule.starts, *schedule.pipelines)), None)
    return Subject(
        subject_kind=SubjectKind.SCHEDULE,
        workspace=workspace,
        kind=None if pipeline is None else RUN_KINDS[pipeline.kind][0],
        pipeline=pipeline,
        thing=schedule.id,
    )


@lru_cache(_KEYS_CACHED)
def key_of(subject: Subject) -> str:
    """Return the identity of a subject; a pipeline's new name does not change it."""
    pipeline = subject.pipeline.id if subject.pipeline is not None else ""
    words = (subject.workspace, subject.kind or "", pipeline, subject.thing)
    return ":".join((subject.subject_kind, *(quote(word, safe="") for word in words)))


class RuleKeys(Struct, frozen=True, gc=False):
    """The keys of stored rows of one rule about one subject."""

    fingerprint: str  # of its alerts
    memory: str  # what the rule remembers


@lru_cache(_KEYS_CACHED)
def keys_of(rule_name: str, subject: Subject) -> RuleKeys:
    """Return the keys of the rule's rows about the subject."""
    return RuleKeys(
        fingerprint=fingerprint(rule_name, subject.identity()),
        memory=f"{rule_name}:{key_of(subject)}",
    )


def fingerprint_of(rule_name: str, subject: Subject) -> str:
    """Return the fingerprint of the rule's alerts about the subject."""
    return keys_of(rule_name, subject).fingerprint


@lru_cache(_KEYS_CACHED)
def first_key(rule_name: str, workspace: str, kind: str) -> str:
    """Return the key of when the rule was evaluated first; ``kind`` "": by our clock."""
    return f"{rule_name}:{workspace}:{kind}"


def traits_of(view: LiveStateView, subject: Subject, run: RunState | None = None) -> Traits:
    """Return what rules match by: of one run of the subject, or of the subject as such.

    Runs of one pipeline have owners and triggers of their own, so without a run both stay open.
    """
    pipeline = subject.pipeline
    folder = owner = None
    if pipeline is not None:
        folder, owner = view.place(subject.workspace, pipeline)
    if run is not None:
        owner = run.owner
    has_pipeline = subject.subject_kind in _OF_PIPELINES or pipeline is not None
    has_owner = has_pipeline and (
        run is not None or subject.subject_kind is not SubjectKind.PIPELINE
    )
    named = pipeline or _UNKNOWN
    name = named.name or (view.label(subject.workspace, pipeline) if pipeline is not None else "")
    return Traits(
        workspace=subject.workspace,
        kind=(subject.kind or "") if has_pipeline else None,
        pipeline=name if has_pipeline else None,
        pipeline_id=named.id if has_pipeline else None,
        folder=(folder or "") if has_pipeline else None,
        owner=(owner or "") if has_owner else None,
        trigger=run.trigger if run is not None else None,
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
