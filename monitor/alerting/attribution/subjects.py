"""The subjects of alerts: how they are made, identified and matched by rules."""

from __future__ import annotations

from functools import lru_cache
from urllib.parse import quote

from msgspec import Struct

from monitor.alerting.rules.compiled import Traits
from monitor.alerting.rules.contract import Subject, SubjectKind
from monitor.model.alerts import fingerprint
from monitor.model.live_state import ScheduleKnown
from monitor.model.runs import RUN_KINDS, Pipeline, PipelineKind, RunKey, RunState
from monitor.tracking.live_state import LiveStateView

_KEYS_CACHED = 65_536
_OF_PIPELINES = frozenset({SubjectKind.PIPELINE, SubjectKind.FLOW_OR_PLAN})
_UNKNOWN = Pipeline(kind=PipelineKind.FLOW, id="")


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
