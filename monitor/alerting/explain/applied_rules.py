"""The rules at work beside one pipeline: which apply to it, and from when on they fire."""

from __future__ import annotations

from monitor.alerting.attribution.subjects import (
    key_of,
    of_pipeline,
    of_run,
    of_schedule,
    traits_of,
)
from monitor.alerting.engine.engine import Engine
from monitor.alerting.explain.threshold_words import threshold_words
from monitor.alerting.rules.baselines import Learned
from monitor.alerting.rules.contract import Subject, SubjectKind
from monitor.model.alerts import AppliedRule
from monitor.model.runs import RUN_KINDS, Pipeline, RunKey
from monitor.tracking.live_state import LiveStateView

_NO_SUBJECT = {SubjectKind.SCHEDULE: "no schedule of it is visible to the token"}


def applied_rules(
    engine: Engine, view: LiveStateView, workspace: str, pipeline: Pipeline
) -> list[AppliedRule]:
    """Return the rules about runs, pipelines, schedules and outputs, in the order of their file.

    What its owner and its triggers exclude is not known of a pipeline, only of each run.
    """
    of_runs = [of_run(RunKey(workspace, kind, ""), pipeline) for kind in RUN_KINDS[pipeline.kind]]
    learned = _learned(engine, of_runs)
    subjects = {
        SubjectKind.PIPELINE: of_runs,
        SubjectKind.FLOW_OR_PLAN: [of_pipeline(workspace, pipeline)],
        SubjectKind.SCHEDULE: _schedules(view, workspace, pipeline),
        SubjectKind.OUTPUT: [
            Subject(subject_kind=SubjectKind.OUTPUT, workspace=workspace, pipeline=pipeline)
        ],
    }
    found: list[AppliedRule] = []
    for rule in engine.compiled.rules:
        kind = rule.definition.subject_kind
        if kind not in subjects:
            continue
        mismatches = [rule.why_not(traits_of(view, subject)) for subject in subjects[kind]]
        applies = None in mismatches
        first = next(iter(mismatches), _NO_SUBJECT.get(kind))
        found.append(
            AppliedRule(
                name=rule.name,
                rule=rule.settings.rule,
                severity=rule.settings.severity,
                applies=applies,
                threshold=threshold_words(rule.settings, learned),
                why_not=None if applies else first,
            )
        )
    return found


def _learned(engine: Engine, subjects: list[Subject]) -> Learned | None:
    """Return what was learned of the containing kind of run, as rules use it."""
    known = (engine.learned(key_of(subject)) for subject in subjects)
    return next((learned for learned in known if learned is not None), None)


def _schedules(view: LiveStateView, workspace: str, pipeline: Pipeline) -> list[Subject]:
    status = view.workspace(workspace)
    return [
        of_schedule(workspace, schedule)
        for schedule in (status.schedules if status is not None else ())
        if any((of.kind, of.id) == (pipeline.kind, pipeline.id) for of in schedule.pipelines)
    ]
