"""Ends alerts about failed runs whose pipeline was unknown when they failed.

The next success of that pipeline is handled under its name, so it never ends such an alert. The
alert stays as it began until each failure in it was followed by a success of its own pipeline, or
by a failure that has an alert under the name, or until the pipeline was removed.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from types import MappingProxyType

from monitor.alerting.alerting_store import Store
from monitor.alerting.alerts.instance import AlertInstance
from monitor.alerting.attribution.removed_subjects import RemovedSubjects
from monitor.alerting.rules.compiled import Rule
from monitor.alerting.rules.contract import PIPELINE_REMOVED, SubjectKind
from monitor.alerting.rules.rule_settings import RuleKind
from monitor.model.ends import run_end
from monitor.model.live_state import PipelineHealth
from monitor.model.runs import RunKind, RunState, Status
from monitor.tracking.live_state import LiveStateView

PIPELINE_KNOWN = "pipeline known since, and run again"
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
        failed_at > at for health in later for failed_at in health.failed_at
    )
