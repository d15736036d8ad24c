"""Ends alerts that will never be evaluated again: their rule, workspace or pipeline was removed."""

from __future__ import annotations

import msgspec

from monitor.alerting.alerts.content import subject_of
from monitor.alerting.alerts.outcome import LifecycleOutcome
from monitor.alerting.alerts.pending_step import ALERT
from monitor.alerting.attribution.removed_subjects import RemovedSubjects
from monitor.alerting.attribution.subjects import traits_of
from monitor.alerting.engine.advancement import end
from monitor.alerting.engine.evaluation_context import EvaluationContext
from monitor.alerting.engine.rule_set import RuleSet
from monitor.alerting.rules.compiled import Rule
from monitor.model.alerts import Alert
from monitor.model.slices import in_slices
from monitor.tracking.live_state import LiveStateView

RULE_REMOVED = "rule removed"
_AT_ONCE = 50  # of 5,000 alerts and more, at 30 us
PIPELINE_RENAMED = "pipeline renamed"


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
