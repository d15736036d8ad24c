"""Ends and forgets what nobody will ever judge again: its rule, workspace or pipeline is gone."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime
from itertools import islice
from operator import itemgetter
from urllib.parse import unquote

import msgspec

from monitor.alerting.alerts.labels import subject_of
from monitor.alerting.alerts.lifecycle import AlertInstance
from monitor.alerting.alerts.pending_step import ALERT, LEARNED, MEMORY, Draft
from monitor.alerting.attribution.subjects import traits_of
from monitor.alerting.engine.evaluation import EvaluationContext, Evaluator, end
from monitor.alerting.engine.present import read_learned
from monitor.alerting.rules.baselines import is_idle
from monitor.alerting.rules.compiled import Rule
from monitor.alerting.rules.contract import PIPELINE_REMOVED, SubjectKind
from monitor.model.alerts import BRIDGE, Alert
from monitor.model.runs import Pipeline, PipelineKind, RunKind
from monitor.tracking.live_state import LiveStateView

RULE_REMOVED = "rule removed"
WORKSPACE_REMOVED = "workspace removed"
PIPELINE_RENAMED = "pipeline renamed"

_LISTS = {PipelineKind.FLOW: "list_flows", PipelineKind.PLAN: "list_plans"}
_INVENTORY = "names"  # the poll that reads which pipelines there are
_ROWS_AT_ONCE = 500  # of what is remembered, with each sweep


class RemovedSubjects:
    """Knows what is no longer there, by the lists that have been read in this life."""

    def __init__(self, view: LiveStateView) -> None:
        self._view = view
        self._watched = {status.workspace: status for status in view.workspaces()}
        self._schedules: dict[str, frozenset[str]] = {}
        self._read = {
            poll.workspace
            for poll in view.polls()
            if poll.poll == _INVENTORY and poll.last_success_at is not None
        }

    def why(self, workspace: str, pipeline: Pipeline | None) -> str | None:
        """Return what is gone, as a reason; None where all may still be there."""
        status = self._watched.get(workspace)
        if status is None:
            return None if workspace == BRIDGE else WORKSPACE_REMOVED
        if pipeline is None or workspace not in self._read:
            return None
        if _LISTS[pipeline.kind] not in status.capabilities:
            return None
        return None if self._view.knows(workspace, pipeline) else PIPELINE_REMOVED

    def is_deleted(self, workspace: str, schedule: str) -> bool:
        """True for the id of a schedule that the newest reading of this life does not name."""
        status = self._watched.get(workspace)
        if status is None or status.schedules_read_at is None:
            return False
        if workspace not in self._schedules:
            self._schedules[workspace] = frozenset(
                other_schedule.id for other_schedule in status.schedules
            )
        return schedule not in self._schedules[workspace]


def retire(context: EvaluationContext, evaluator: Evaluator, view: LiveStateView) -> None:
    """End the episodes that nothing stands behind any more, and forget those that ended so."""
    gone = RemovedSubjects(view)
    for key, instance in sorted(context.pending.rows(ALERT), key=itemgetter(0)):
        alert = instance.alert
        if not instance.is_open:
            if alert.name not in evaluator.rules:
                _let_go(context, evaluator, key, instance)
            continue
        reason = gone.why(alert.workspace, alert.pipeline)
        rule = evaluator.rules.get(alert.name)
        if rule is None or not _is_of(rule, alert, view):
            reason = RULE_REMOVED
        elif not _fits_by_name(rule, alert, view):
            reason = PIPELINE_RENAMED
        if reason is not None:
            end(context, key, instance, reason)


def _let_go(
    context: EvaluationContext, evaluator: Evaluator, key: str, instance: AlertInstance
) -> None:
    """Forget what is over when it was in view for long enough: no rule is left to do so."""
    age_seconds = (context.present.now - instance.since).total_seconds()
    if age_seconds >= evaluator.limits.resolved_kept_seconds:
        context.pending.hold(key, instance, instance.past, "")


def _is_of(rule: Rule, alert: Alert, view: LiveStateView) -> bool:
    if rule.settings.rule != alert.rule:
        return False
    match = rule.settings.match
    # Owner and folder may not have been read yet, and were judged when it began.
    return bool(match.owner or match.folder) or rule.matches(
        traits_of(view, subject_of(rule, alert))
    )


def _fits_by_name(rule: Rule, alert: Alert, view: LiveStateView) -> bool:
    """False where the rule hears of the pipeline no more, so not of its success either."""
    if alert.pipeline is None:
        return True
    name = view.name_of(alert.workspace, alert.pipeline) or alert.pipeline.name
    pipeline = msgspec.structs.replace(alert.pipeline, name=name)
    subject = msgspec.structs.replace(subject_of(rule, alert), pipeline=pipeline)
    traits = traits_of(view, subject)
    return all(field.matches(traits) for field in rule.match_fields if field.name == "pipeline")


class MemoryRetention:
    """Goes through what is remembered, a part at a time, and drops what is about nothing."""

    def __init__(self) -> None:
        self._left: Iterator[tuple[str, str]] = iter(())

    def go_on(self, pending: Draft, view: LiveStateView) -> None:
        """Look at the next rows; after the last one all over again."""
        rows = list(islice(self._left, _ROWS_AT_ONCE))
        if not rows:
            keys = [(MEMORY, key) for key, _ in pending.rows(MEMORY)]
            keys += [(LEARNED, key) for key, _ in pending.rows(LEARNED)]
            self._left = iter(keys)
            rows = list(islice(self._left, _ROWS_AT_ONCE))
        gone, known_until = RemovedSubjects(view), _known_until(view)
        # What is late by what was learned is late until it succeeds, however long that takes.
        late = {
            (instance.alert.workspace, _without_name(instance.alert.pipeline))
            for _, instance in pending.rows(ALERT)
            if instance.is_open
        }
        for letter, key in rows:
            subject_key = key.partition(":")[2] if letter == MEMORY else key
            place = _place(subject_key)
            now = known_until.get(place[0]) if letter == LEARNED and place not in late else None
            is_idle = now is not None and _is_idle(pending, key, now)
            if is_idle or gone.why(*place) is not None or _is_deleted(subject_key, gone):
                pending.put(letter, key, None)


def _known_until(view: LiveStateView) -> dict[str, datetime]:
    """Return the newest instant that is known of each workspace, which no jump of ours moves."""
    known: dict[str, datetime] = {}
    for (workspace, _), at in view.complete().items():
        known[workspace] = max(at, known.get(workspace, at))
    return known


def _is_idle(pending: Draft, key: str, now: datetime) -> bool:
    """True for what is learned of a pipeline that no list tells to be gone and nobody runs."""
    learned = read_learned(pending.get(LEARNED, key))
    return learned is not None and is_idle(learned, now)


def _is_deleted(subject_key: str, gone: RemovedSubjects) -> bool:
    subject_kind, workspace, _, _, thing = map(unquote, subject_key.split(":"))
    return subject_kind == SubjectKind.SCHEDULE and gone.is_deleted(workspace, thing)


def _place(subject_key: str) -> tuple[str, Pipeline | None]:
    """Return the workspace and the pipeline that a subject is of."""
    _, workspace, kind, pipeline_id, _ = map(unquote, subject_key.split(":"))
    if not pipeline_id or not kind:
        return workspace, None
    of = PipelineKind.PLAN if kind == RunKind.PLAN_RUN else PipelineKind.FLOW
    return workspace, Pipeline(kind=of, id=pipeline_id)


def _without_name(pipeline: Pipeline | None) -> Pipeline | None:
    return None if pipeline is None else Pipeline(kind=pipeline.kind, id=pipeline.id)
