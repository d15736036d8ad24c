"""From one event to the rules that are to hear it, each under the subject that it is about."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import msgspec

from monitor.alerting.baselines import learn
from monitor.alerting.episodes.draft import LEARNED, Draft
from monitor.alerting.episodes.firing_runs import FiringRuns
from monitor.alerting.episodes.lifecycle import Episode
from monitor.alerting.judging.evaluation import Case, Evaluator, Sitting
from monitor.alerting.judging.late_parents import BAD_ENDS, LateParents, Patience
from monitor.alerting.judging.made_known import MadeKnown
from monitor.alerting.store import Store
from monitor.alerting.subjects.outermost import (
    Subjects,
    Whose,
    key_of,
    of_pipeline,
    of_run,
    traits_of,
)
from monitor.alerting.subjects.present import read_learned
from monitor.alerting.verdicts import About, Subject
from monitor.model.alerts import AlertState
from monitor.model.events import EventType, RunEvent
from monitor.model.runs import RunKey, RunState
from monitor.tracking.knowledge import KnowledgeView


class Hearing:
    """Hands events of runs on. Alerts' own events are never handed to it."""

    def __init__(
        self,
        evaluator: Evaluator,
        *,
        subjects: Subjects,
        firing: FiringRuns,
        view: KnowledgeView,
        touch: Callable[[Subject], None],
        parents_wait_seconds: float,
    ) -> None:
        self._evaluator = evaluator
        self._subjects = subjects
        self._view = view
        self._touch = touch
        self._late_parents = LateParents(
            evaluator,
            firing,
            subjects=subjects,
            view=view,
            wait_seconds=parents_wait_seconds,
        )
        self._made_known = MadeKnown(evaluator, view=view)
        rules = evaluator.compiled.rules
        self._by_kind = {t for rule in rules if rule.names_kind for t in rule.condition.hears}
        self._as_such = {
            event_type
            for rule in rules
            if rule.condition.about is About.FLOW_OR_PLAN
            for event_type in rule.condition.hears
        }

    async def prepare(self, draft: Draft, events: Sequence[RunEvent], bus: Store) -> None:
        """Learn what the events are a part of, and what may be a part of them.

        Raises:
            BusUnavailableError: the store does not answer.
        """
        await self._late_parents.prepare(draft, events, bus)
        if not events:
            await self._made_known.prepare(draft, bus)

    def take_up(self, sitting: Sitting, *, before: RunState | None = None) -> None:
        """Hear what waited for what it is a part of, where that is known now or waited enough.

        ``before`` narrows it to what has been overtaken by that run's success.
        """
        if before is None:
            self._late_parents.bring_errors(sitting)
            self._made_known.end_settled(sitting)
        for event, name, patience in self._late_parents.take_due(sitting, before=before):
            rule = self._evaluator.rules.get(name)
            if rule is None:
                continue
            whose = self._subjects.outermost(event.run)
            subject = of_run(whose.key, whose.pipeline)
            case = Case(rule=rule, subject=subject, event=event)
            self._hear_outermost(sitting, case, whose.key, patience)

    def hear(self, sitting: Sitting, event: RunEvent) -> None:
        """Let every rule hear the event that it concerns."""
        run = event.run
        whose = self._subjects.outermost(run)
        own, outer = of_run(run.key, run.pipeline), of_run(whose.key, whose.pipeline)
        self._learn(sitting.draft, event, own)
        if event.type is EventType.RUN_SUCCEEDED:
            self.take_up(sitting, before=run)
        self._hear_outer(sitting, event, outer, whose)
        self._touch(outer)
        if whose.key != run.key:
            self._touch(own)
            self._hear_beside(sitting, event, own)
        if event.type in self._by_kind:
            for rule in self._evaluator.compiled.hearing(
                event.type, traits_of(self._view, own, run)
            ):
                if rule.names_kind and rule.condition.about is About.PIPELINE:
                    case = Case(rule=rule, subject=own, event=event)
                    self._evaluator.hear(sitting, case, run.key)
        if run.pipeline is not None:
            self._hear_as_such(sitting, event, of_pipeline(run.key.workspace, run.pipeline), whose)

    def _hear_outer(self, sitting: Sitting, event: RunEvent, outer: Subject, whose: Whose) -> None:
        traits = traits_of(self._view, outer, whose.run or event.run)
        for rule in self._evaluator.compiled.hearing(event.type, traits):
            if not rule.names_kind and rule.condition.about is About.PIPELINE:
                case = Case(rule=rule, subject=outer, event=event)
                self._hear_outermost(sitting, case, whose.key, Patience.WAIT)

    def _hear_outermost(
        self, sitting: Sitting, case: Case, whose: RunKey, patience: Patience
    ) -> None:
        if not (
            self._is_told_of_inner(sitting, case)
            or self._late_parents.takes(sitting, case, whose, patience)
        ):
            self._evaluator.hear(sitting, case, whose)

    def _is_told_of_inner(self, sitting: Sitting, case: Case) -> bool:
        """True where a run's failure goes on with what was told before its parents were known."""
        event = case.event
        if event is None or event.type not in BAD_ENDS:
            return False
        for inner in self._subjects.line(event.run)[:-1]:
            subject = of_run(inner.key, inner.pipeline)
            key = Case(rule=case.rule, subject=subject).fingerprint
            held = sitting.draft.held(key)
            # Of that very run; what else is open about the same pipeline is another story.
            if isinstance(held, Episode) and held.is_open and held.about_run == inner.key:
                self._evaluator.add_evidence(sitting, key, case, run=inner.key)
                return True
        return False

    def _hear_beside(self, sitting: Sitting, event: RunEvent, own: Subject) -> None:
        """Let a success inside another run end what was told before that run was known."""
        if event.type is not EventType.RUN_SUCCEEDED:
            return
        traits = traits_of(self._view, own, event.run)
        for rule in self._evaluator.compiled.hearing(event.type, traits):
            if rule.names_kind or rule.condition.about is not About.PIPELINE:
                continue
            case = Case(rule=rule, subject=own, event=event)
            held = sitting.draft.held(case.fingerprint)
            if isinstance(held, Episode) and held.alert.state is not AlertState.RESOLVED:
                self._evaluator.hear(sitting, case, event.run.key)

    def _hear_as_such(
        self, sitting: Sitting, event: RunEvent, subject: Subject, whose: Whose
    ) -> None:
        self._touch(subject)
        if event.type not in self._as_such:
            return
        # By whom a run was started is no matter of the pipeline as such.
        traits = traits_of(self._view, subject)
        for rule in self._evaluator.compiled.hearing(event.type, traits):
            if rule.condition.about is About.FLOW_OR_PLAN:
                self._evaluator.hear(
                    sitting, Case(rule=rule, subject=subject, event=event), whose.key
                )

    @staticmethod
    def _learn(draft: Draft, event: RunEvent, own: Subject) -> None:
        if event.type is not EventType.RUN_SUCCEEDED or own.pipeline is None:
            return
        key = key_of(own)
        held = read_learned(draft.get(LEARNED, key))
        learned = learn(held, event)
        if learned is not None and learned is not held:
            draft.put(LEARNED, key, msgspec.json.encode(learned))
