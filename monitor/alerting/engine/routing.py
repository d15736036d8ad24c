"""From one event to the rules that are to hear it, each under the subject that it is about."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import msgspec

from monitor.alerting.alerts.firing_runs import FiringRuns
from monitor.alerting.alerts.lifecycle import AlertInstance
from monitor.alerting.alerts.pending_step import LEARNED, Draft
from monitor.alerting.attribution.parent_correlation import BAD_ENDS, ParentCorrelation, WaitState
from monitor.alerting.attribution.subjects import (
    Lineage,
    RootRun,
    key_of,
    of_pipeline,
    of_run,
    traits_of,
)
from monitor.alerting.attribution.unidentified_runs import UnidentifiedRuns
from monitor.alerting.engine.evaluation import EvaluationContext, Evaluator, RuleTarget
from monitor.alerting.engine.present import read_learned
from monitor.alerting.rules.baselines import learn
from monitor.alerting.rules.contract import Subject, SubjectKind
from monitor.alerting.store import Store
from monitor.model.alerts import AlertState
from monitor.model.events import EventType, RunEvent
from monitor.model.runs import RunKey, RunState
from monitor.tracking.live_state import LiveStateView


class EventRouter:
    """Hands events of runs on. Alerts' own events are never handed to it."""

    def __init__(
        self,
        evaluator: Evaluator,
        *,
        subjects: Lineage,
        firing: FiringRuns,
        view: LiveStateView,
        touch: Callable[[Subject], None],
        parents_wait_seconds: float,
    ) -> None:
        self._evaluator = evaluator
        self._subjects = subjects
        self._view = view
        self._touch = touch
        self._parent_correlation = ParentCorrelation(
            evaluator,
            firing,
            subjects=subjects,
            view=view,
            wait_seconds=parents_wait_seconds,
        )
        self._made_known = UnidentifiedRuns(evaluator, view=view)
        rules = evaluator.compiled.rules
        self._by_kind = {
            t for rule in rules if rule.names_kind for t in rule.definition.event_types
        }
        self._as_such = {
            event_type
            for rule in rules
            if rule.definition.subject_kind is SubjectKind.FLOW_OR_PLAN
            for event_type in rule.definition.event_types
        }

    async def prepare(self, pending: Draft, events: Sequence[RunEvent], bus: Store) -> None:
        """Learn what the events are a part of, and what may be a part of them.

        Raises:
            BusUnavailableError: the store does not answer.
        """
        await self._parent_correlation.prepare(pending, events, bus)
        if not events:
            await self._made_known.prepare(pending, bus)

    def take_up(self, context: EvaluationContext, *, before: RunState | None = None) -> None:
        """Hear what waited for what it is a part of, where that is known now or waited enough.

        ``before`` narrows it to what has been overtaken by that run's success.
        """
        if before is None:
            self._parent_correlation.bring_errors(context)
            self._made_known.end_settled(context)
        for event, name, patience in self._parent_correlation.take_due(context, before=before):
            rule = self._evaluator.rules.get(name)
            if rule is None:
                continue
            root = self._subjects.root_run(event.run)
            subject = of_run(root.key, root.pipeline)
            case = RuleTarget(rule=rule, subject=subject, event=event)
            self._hear_outermost(context, case, root.key, patience)

    def on_event(self, context: EvaluationContext, event: RunEvent) -> None:
        """Let every rule hear the event that it concerns."""
        run = event.run
        root = self._subjects.root_run(run)
        own, outer = of_run(run.key, run.pipeline), of_run(root.key, root.pipeline)
        self._learn(context.pending, event, own)
        if event.type is EventType.RUN_SUCCEEDED:
            self.take_up(context, before=run)
        self._hear_outer(context, event, outer, root)
        self._touch(outer)
        if root.key != run.key:
            self._touch(own)
            self._hear_beside(context, event, own)
        if event.type in self._by_kind:
            for rule in self._evaluator.compiled.rules_for_event(
                event.type, traits_of(self._view, own, run)
            ):
                if rule.names_kind and rule.definition.subject_kind is SubjectKind.PIPELINE:
                    case = RuleTarget(rule=rule, subject=own, event=event)
                    self._evaluator.on_event(context, case, run.key)
        if run.pipeline is not None:
            self._hear_as_such(context, event, of_pipeline(run.key.workspace, run.pipeline), root)

    def _hear_outer(
        self, context: EvaluationContext, event: RunEvent, outer: Subject, root: RootRun
    ) -> None:
        traits = traits_of(self._view, outer, root.run or event.run)
        for rule in self._evaluator.compiled.rules_for_event(event.type, traits):
            if not rule.names_kind and rule.definition.subject_kind is SubjectKind.PIPELINE:
                case = RuleTarget(rule=rule, subject=outer, event=event)
                self._hear_outermost(context, case, root.key, WaitState.WAIT)

    def _hear_outermost(
        self, context: EvaluationContext, case: RuleTarget, root: RunKey, patience: WaitState
    ) -> None:
        if not (
            self._is_told_of_inner(context, case)
            or self._parent_correlation.takes(context, case, root, patience)
        ):
            self._evaluator.on_event(context, case, root)

    def _is_told_of_inner(self, context: EvaluationContext, case: RuleTarget) -> bool:
        """True where a run's failure goes on with what was told before its parents were known."""
        event = case.event
        if event is None or event.type not in BAD_ENDS:
            return False
        for inner in self._subjects.line(event.run)[:-1]:
            subject = of_run(inner.key, inner.pipeline)
            key = RuleTarget(rule=case.rule, subject=subject).fingerprint
            held = context.pending.held(key)
            # Of that very run; what else is open about the same pipeline is another story.
            if isinstance(held, AlertInstance) and held.is_open and held.about_run == inner.key:
                self._evaluator.add_evidence(context, key, case, run=inner.key)
                return True
        return False

    def _hear_beside(self, context: EvaluationContext, event: RunEvent, own: Subject) -> None:
        """Let a success inside another run end what was told before that run was known."""
        if event.type is not EventType.RUN_SUCCEEDED:
            return
        traits = traits_of(self._view, own, event.run)
        for rule in self._evaluator.compiled.rules_for_event(event.type, traits):
            if rule.names_kind or rule.definition.subject_kind is not SubjectKind.PIPELINE:
                continue
            case = RuleTarget(rule=rule, subject=own, event=event)
            held = context.pending.held(case.fingerprint)
            if isinstance(held, AlertInstance) and held.alert.state is not AlertState.RESOLVED:
                self._evaluator.on_event(context, case, event.run.key)

    def _hear_as_such(
        self, context: EvaluationContext, event: RunEvent, subject: Subject, root: RootRun
    ) -> None:
        self._touch(subject)
        if event.type not in self._as_such:
            return
        # By whom a run was started is no matter of the pipeline as such.
        traits = traits_of(self._view, subject)
        for rule in self._evaluator.compiled.rules_for_event(event.type, traits):
            if rule.definition.subject_kind is SubjectKind.FLOW_OR_PLAN:
                self._evaluator.on_event(
                    context, RuleTarget(rule=rule, subject=subject, event=event), root.key
                )

    @staticmethod
    def _learn(pending: Draft, event: RunEvent, own: Subject) -> None:
        if event.type is not EventType.RUN_SUCCEEDED or own.pipeline is None:
            return
        key = key_of(own)
        held = read_learned(pending.get(LEARNED, key))
        learned = learn(held, event)
        if learned is not None and learned is not held:
            pending.put(LEARNED, key, msgspec.json.encode(learned))
