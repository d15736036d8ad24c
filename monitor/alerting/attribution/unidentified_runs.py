"""What failed before anybody could say of which pipeline is told under no name, and ends under one.

The next success of that pipeline is heard under its name, so it would never end such an alert.
Neither is the failure told again when its pipeline becomes known: the alert goes on as it was
told, until every failure in it was settled by a later success of its own pipeline, was followed by
a failure that is told under the name, or is of a pipeline that is gone.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from datetime import datetime

from monitor.alerting.alerts.labels import subject_of
from monitor.alerting.alerts.lifecycle import AlertInstance
from monitor.alerting.alerts.pending_step import ALERT, MEMORY, Draft
from monitor.alerting.engine.evaluation import (
    EvaluationContext,
    Evaluator,
    RuleTarget,
    end,
    memory_key,
)
from monitor.alerting.engine.rule_removal import RemovedSubjects
from monitor.alerting.rules.compiled import Rule
from monitor.alerting.rules.contract import PIPELINE_REMOVED, SubjectKind
from monitor.alerting.rules.rule_settings import RuleKind
from monitor.alerting.store import Store
from monitor.model.live_state import PipelineHealth
from monitor.model.runs import RunKey, RunKind, RunState
from monitor.tracking.live_state import LiveStateView

_KINDS = frozenset(RunKind)
_WORDS_OF_A_RUN = 3
PIPELINE_KNOWN = "pipeline known since, and run again"


class UnidentifiedRuns:
    """Asks the store for the pipelines of such failures; costs nothing where there are none."""

    def __init__(self, evaluator: Evaluator, *, view: LiveStateView) -> None:
        self._evaluator = evaluator
        self._view = view
        self._runs: dict[RunKey, RunState] = {}

    async def prepare(self, pending: Draft, bus: Store) -> None:
        """Learn what is known by now of what failed.

        Raises:
            BusUnavailableError: the store does not answer.
        """
        wanted = {run for _, item, _ in self._nameless(pending) for run in _runs_of(item)}
        self._runs = await bus.runs(wanted) if wanted else {}

    def end_settled(self, context: EvaluationContext) -> None:
        """End the alerts whose failures all have a name, and are settled under it."""
        known = [run for run in self._runs.values() if run.pipeline is not None]
        if not known:
            return
        gone = RemovedSubjects(self._view)
        lost = {run.key for run in known if gone.why(run.key.workspace, run.pipeline) is not None}
        later = {run.key: self._ends_of(run) for run in known}
        for key, instance, rule in list(self._nameless(context.pending)):
            failed = _runs_of(instance)
            if failed and all(
                run in lost or (run in later and _is_settled(self._runs[run], later[run], rule))
                for run in failed
            ):
                end(context, key, instance, PIPELINE_REMOVED if failed <= lost else PIPELINE_KNOWN)
                case = RuleTarget(rule=rule, subject=subject_of(rule, instance.alert))
                context.pending.put(MEMORY, memory_key(case), None)

    def _nameless(self, pending: Draft) -> Iterator[tuple[str, AlertInstance, Rule]]:
        """Yield what is open, is of no pipeline, and ends by nothing but events of runs."""
        for key, instance in pending.rows(ALERT):
            if not instance.is_open or instance.alert.pipeline is not None:
                continue
            rule = self._evaluator.rules.get(instance.alert.name)
            if rule is None or rule.definition.subject_kind is not SubjectKind.PIPELINE:
                continue
            if rule.definition.evaluate is None:
                yield key, instance, rule

    def _ends_of(self, run: RunState) -> list[PipelineHealth]:
        """Return how the newest runs have ended that can settle this one."""
        pipeline, recipe = run.pipeline, run.recipe
        is_part = run.key.kind is RunKind.JOB_GROUP and recipe is not None
        return [
            health
            for health in self._view.pipeline_health()
            if (health.workspace, health.run_kind) == (run.key.workspace, run.key.kind)
            and pipeline is not None
            and (health.pipeline.kind, health.pipeline.id) == (pipeline.kind, pipeline.id)
            and (not is_part or recipe is None or health.recipe_id == recipe.id)
        ]


def _runs_of(instance: AlertInstance) -> set[RunKey]:
    """Return the runs of which an alert's evidence tells."""
    told = (event_id.rpartition(":")[0].split(":", 2) for event_id in instance.alert.evidence)
    return {
        RunKey(workspace=event_id[0], kind=RunKind(event_id[1]), id=event_id[2])
        for event_id in told
        if len(event_id) == _WORDS_OF_A_RUN and event_id[1] in _KINDS
    }


def _is_settled(run: RunState, later: Collection[PipelineHealth], rule: Rule) -> bool:
    at = run.finished_at or run.updated_at or run.confirmed_at
    if any(health.last_success_at is not None and health.last_success_at > at for health in later):
        return True
    # Only this rule tells each first failure under the name; others may not tell it at all.
    return rule.settings.rule is RuleKind.RUN_FAILED and any(
        _has_failed_after(health, at) for health in later
    )


def _has_failed_after(health: PipelineHealth, at: datetime) -> bool:
    return any(failed_at > at for failed_at in health.failed_at)
