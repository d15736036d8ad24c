"""Ends alerts that will never be evaluated again.

Their rule, workspace or pipeline was removed. Or they are about failed runs whose pipeline was
unknown when they failed: the next success of that pipeline is handled under its name, so it never
ends such an alert. The alert stays as it began until each failure in it was followed by a success
of its own pipeline, or by a failure that has an alert under the name, or until the pipeline was
removed.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from types import MappingProxyType

import msgspec

from monitor.alerting.alerting_store import Store
from monitor.alerting.alerts.instance import AlertInstance, LifecycleOutcome
from monitor.alerting.alerts.pending_step import ALERT
from monitor.alerting.attribution.subjects import subject_of, traits_of
from monitor.alerting.engine.advancement import end
from monitor.alerting.engine.evaluation_context import EvaluationContext
from monitor.alerting.engine.removed_subjects import RemovedSubjects
from monitor.alerting.engine.rule_set import RuleSet
from monitor.alerting.rules.compiled import Rule
from monitor.alerting.rules.contract import PIPELINE_REMOVED, SubjectKind
from monitor.alerting.rules.rule_settings import RuleKind
from monitor.model.alerts import Alert
from monitor.model.ends import run_end
from monitor.model.live_state import PipelineHealth
from monitor.model.runs import RunKind, RunState, Status
from monitor.model.slices import in_slices
from monitor.tracking.live_state import LiveStateView

RULE_REMOVED = "rule removed"
PIPELINE_RENAMED = "pipeline renamed"
PIPELINE_KNOWN = "pipeline known since, and run again"
_AT_ONCE = 50  # of 5,000 alerts and more, at 30 us
# The end that a rule is about; that of all others is a failure.
_ABOUT = MappingProxyType({RuleKind.CANCELED: Status.CANCELED, RuleKind.RUN_LOST: Status.LOST})


async def ended_unidentified(
    alerts: Iterable[tuple[str, AlertInstance]],
    rules: Mapping[str, Rule],
    *,
    view: LiveStateView,
    bus: Store,
) -> dict[str, str]:
    """Return the fingerprints of alerts to end, with the reason. Reads nothing if there are none.

    ``alerts`` are the open ones without a pipeline.

    Raises:
        BusUnavailableError: the store does not answer.
    """
    failures = {
        key: (rule, instance.evidence_runs) for key, instance, rule in _unidentified(alerts, rules)
    }
    keys = set().union(*(runs for _, runs in failures.values()))
    stored = await bus.runs(keys) if keys else {}
    known = {key: run for key, run in stored.items() if run.pipeline is not None}
    if not known:
        return {}
    removed = RemovedSubjects(view)
    lost = {key for key, run in known.items() if removed.reason(key.workspace, run.pipeline)}
    later = {key: _health_of(run, view) for key, run in known.items()}
    return {
        key: PIPELINE_REMOVED if runs <= lost else PIPELINE_KNOWN
        for key, (rule, runs) in failures.items()
        if runs
        and all(
            run in lost or (run in known and _is_followed(known[run], later[run], rule))
            for run in runs
        )
    }


def _unidentified(
    alerts: Iterable[tuple[str, AlertInstance]], rules: Mapping[str, Rule]
) -> Iterator[tuple[str, AlertInstance, Rule]]:
    """Yield the alerts that only events of runs can end."""
    for key, instance in alerts:
        rule = rules.get(instance.alert.name)
        if rule is None or rule.definition.subject_kind is not SubjectKind.PIPELINE:
            continue
        if rule.definition.evaluate is None:
            yield key, instance, rule


def _health_of(run: RunState, view: LiveStateView) -> list[PipelineHealth]:
    """Return the health of the run's pipeline; of a job group, that of its recipe."""
    pipeline, recipe = run.pipeline, run.recipe
    is_part = run.key.kind is RunKind.JOB_GROUP and recipe is not None
    return [
        health
        for health in view.pipeline_health()
        if (health.workspace, health.run_kind) == (run.key.workspace, run.key.kind)
        and pipeline is not None
        and (health.pipeline.kind, health.pipeline.id) == (pipeline.kind, pipeline.id)
        and (not is_part or recipe is None or health.recipe_id == recipe.id)
    ]


def _is_followed(run: RunState, later: Collection[PipelineHealth], rule: Rule) -> bool:
    end = run_end(run)
    if end is None:
        return False  # only a callback has reported its end
    if run.status is not _ABOUT.get(rule.settings.rule, Status.FAILED):
        return True  # the workspace has corrected what a callback reported
    at = end.at
    if any(health.last_success_at is not None and health.last_success_at > at for health in later):
        return True
    # Only this rule has an alert for each first failure under the name; others may have none.
    return rule.settings.rule is RuleKind.RUN_FAILED and any(
        failure.at > at for health in later for failure in health.open_failures
    )


async def end_removed(context: EvaluationContext, rules: RuleSet, view: LiveStateView) -> None:
    """End such alerts, and drop those of removed rules that were shown long enough."""
    removed = RemovedSubjects(view)
    async for key in in_slices(sorted(context.pending.keys(ALERT)), size=_AT_ONCE):
        instance = context.pending.get(ALERT, key)
        if instance is None:
            continue
        alert = instance.alert
        rule = rules.by_name.get(alert.name)
        if not instance.is_open:
            age_seconds = (context.now - instance.since).total_seconds()
            if rule is None and age_seconds >= rules.limits.resolved_kept_seconds:
                context.pending.advance(key, instance, LifecycleOutcome(state=instance.past))
            continue
        reason = removed.reason(alert.workspace, alert.pipeline)
        if rule is None or not _is_of(rule, alert, view):
            reason = RULE_REMOVED
        elif not _matches_name(rule, alert, view):
            reason = PIPELINE_RENAMED
        if reason is not None:
            end(context, view, key, instance, reason)


def _is_of(rule: Rule, alert: Alert, view: LiveStateView) -> bool:
    if rule.settings.rule != alert.rule:
        return False
    match = rule.settings.match
    # Owner and folder may not have been read yet, and matched when the alert began.
    return bool(match.owner or match.folder) or rule.matches(
        traits_of(view, subject_of(rule, alert))
    )


def _matches_name(rule: Rule, alert: Alert, view: LiveStateView) -> bool:
    """False where the rule no longer matches the pipeline, so never handles its success."""
    if alert.pipeline is None:
        return True
    name = view.name_of(alert.workspace, alert.pipeline) or alert.pipeline.name
    pipeline = msgspec.structs.replace(alert.pipeline, name=name)
    subject = msgspec.structs.replace(subject_of(rule, alert), pipeline=pipeline)
    traits = traits_of(view, subject)
    return rule.fits("pipeline", traits)
