"""The rules at work beside one pipeline: which apply to it, and in words from when on they fire."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType

from monitor.alerting.attribution.subjects import (
    key_of,
    of_pipeline,
    of_run,
    of_schedule,
    traits_of,
)
from monitor.alerting.engine.engine import Engine
from monitor.alerting.rules.baselines import (
    Baseline,
    Learned,
    age_seconds,
    known_durations,
    known_gaps,
    limit_seconds,
    usual_seconds,
)
from monitor.alerting.rules.contract import Subject, SubjectKind
from monitor.alerting.rules.deadline_settings import EVERY_DAY
from monitor.alerting.rules.rule_settings import RuleKind, RuleSettings
from monitor.model.alerts import AppliedRule
from monitor.model.days_off import DaysOff
from monitor.model.runs import RUN_KINDS, Pipeline, RunKey
from monitor.model.words import duration
from monitor.tracking.live_state import LiveStateView

_NO_SUBJECT = {SubjectKind.SCHEDULE: "no schedule of it is visible to the token"}


def applied_rules(
    engine: Engine, view: LiveStateView, workspace: str, pipeline: Pipeline
) -> list[AppliedRule]:
    """Return the rules about runs, pipelines, schedules and outputs, in the order of their file.

    None of a workspace that is not followed. What its owner and its triggers exclude is not known
    of a pipeline, only of each run.
    """
    if view.workspace(workspace) is None:
        return []
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


def starts_days_off(
    engine: Engine, view: LiveStateView, workspace: str, pipeline: Pipeline
) -> list[DaysOff]:
    """Return the days on which each rule that awaits starts by schedules expects none."""
    traits = traits_of(view, of_pipeline(workspace, pipeline))
    return [
        rule.settings.days_off
        for rule in engine.compiled.rules_for_state(SubjectKind.FLOW_OR_PLAN, traits)
        if rule.settings.rule is RuleKind.SCHEDULE_MISSED and rule.settings.expect is None
    ]


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


def threshold_words(rule: RuleSettings, learned: Learned | None) -> str:
    """Return from when on the rule fires; ``learned``: what is usual for the pipeline."""
    words = _WORDS[rule.rule](rule, learned)
    if rule.for_seconds > 0:
        words += f", once that has lasted {duration(rule.for_seconds)}"
    if rule.match.trigger:
        triggers = " or ".join(glob.replace("!", "not ", 1) for glob in rule.match.trigger)
        words += f"; only runs whose trigger is {triggers}"
    return words


def _overdue(rule: RuleSettings, learned: Learned | None) -> str:
    limit = limit_seconds(learned, minimum_runs=rule.minimum)
    return _longer_than("longer than", "run", rule, limit, _count(known_durations(learned)))


def _not_fresh(rule: RuleSettings, learned: Learned | None) -> str:
    limit = age_seconds(learned, minimum_runs=rule.minimum)
    gaps = _count(known_gaps(learned))
    successes = gaps + 1 if learned is not None and learned.newest_at is not None else 0
    return _longer_than("no success for more than", "success", rule, limit, successes)


def _longer_than(
    words: str, noun: str, rule: RuleSettings, learned: float | None, count: int
) -> str:
    if rule.threshold:
        return f"{words} {duration(rule.threshold)}"
    plural = f"{noun}es" if noun.endswith("s") else f"{noun}s"
    if learned is None:
        return f"{words} usual; not learned yet, from {count} of {rule.minimum} {plural} so far"
    return f"{words} {duration(learned)} (learned from {count} {plural})"


def _count(baseline: Baseline | None) -> int:
    return 0 if baseline is None else baseline.count


def _deadline(rule: RuleSettings, _: Learned | None) -> str:
    return f"no success by {_deadline_words(rule)}"


def _at_risk(rule: RuleSettings, learned: Learned | None) -> str:
    usual = rule.threshold or usual_seconds(learned, minimum_runs=rule.minimum)
    words = "usual" if usual is None else duration(usual)
    if usual is None:
        count = _count(known_durations(learned))
        words += f"; not learned yet, from {count} of {rule.minimum} runs so far"
    return f"less time left before {_deadline_words(rule)} than {words}"


def _deadline_words(rule: RuleSettings) -> str:
    if rule.deadline is None:
        return "a time of day that is not set"
    days = "" if rule.deadline_days == EVERY_DAY else f" on {rule.deadline_days}"
    return f"{rule.deadline} {rule.deadline_timezone}{days}{_not_on_days_off(rule)}"


def _not_on_days_off(rule: RuleSettings) -> str:
    days_off = rule.days_off.in_words
    return f", not on {days_off}" if days_off else ""


def _schedule_missed(rule: RuleSettings, _: Learned | None) -> str:
    grace = duration(rule.threshold)
    return f"no start {grace} after the expected time{_not_on_days_off(rule)}"


def _repeatedly(rule: RuleSettings, _: Learned | None) -> str:
    if rule.threshold >= 1:
        count = int(rule.threshold)
        return "each failure" if count == 1 else f"{count} failures in a row"
    return (
        f"more than {100 * rule.threshold:.3g} % of the last runs failed, at least {rule.minimum}"
    )


def _with(text: str) -> Callable[[RuleSettings, Learned | None], str]:
    """Return a text that may name ``{threshold}`` as a duration, and other numbers of the rule."""

    def words(rule: RuleSettings, _: Learned | None) -> str:
        return text.format(
            threshold=duration(rule.threshold),
            percent=f"{100 * rule.threshold:.3g} %",
            number=f"{rule.threshold:g}",
            window=duration(rule.window_seconds),
            minimum=rule.minimum,
        )

    return words


_WORDS: Mapping[RuleKind, Callable[[RuleSettings, Learned | None], str]] = MappingProxyType(
    {
        RuleKind.RUN_FAILED: _with("each failure, until the next success"),
        RuleKind.RUN_OVERDUE: _overdue,
        RuleKind.RUN_STUCK: _with("no progress for {threshold}; while it waits, four times that"),
        RuleKind.QUEUE_SLOW: _with("waits longer than {threshold} for its start"),
        RuleKind.SCHEDULE_MISSED: _schedule_missed,
        RuleKind.SCHEDULE_DISABLED: _with("its schedule is disabled"),
        RuleKind.NOT_FRESH: _not_fresh,
        RuleKind.DEADLINE_MISSED: _deadline,
        RuleKind.DEADLINE_AT_RISK: _at_risk,
        RuleKind.FAILING_REPEATEDLY: _repeatedly,
        RuleKind.CANCELED: _with("each canceled run"),
        RuleKind.RUN_LOST: _with("each run that the workspace no longer knows"),
        RuleKind.SUCCESS_DOUBTED: _with("each success that may hide a failure"),
        RuleKind.PIPELINES_UNSHARED: _with("flows or plans are no longer shared"),
        RuleKind.WORKSPACE_UNREACHABLE: _with("the workspace does not answer"),
        RuleKind.TOKEN_EXPIRING: _with("expires in less than {threshold}"),
        RuleKind.CALLBACKS_MISSED: _with("{number} missed callbacks within {window}"),
        RuleKind.QUALITY_DROPPED: _with(
            "{percent} fewer valid values than usual, learned from {minimum} profiles or more"
        ),
        RuleKind.BUDGET_EXHAUSTED: _with("requests run short"),
        RuleKind.MONITOR_DEGRADED: _with("a part of the monitor fails, or lags by {threshold}"),
    }
)
