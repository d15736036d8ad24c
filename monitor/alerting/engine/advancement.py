"""The third step, advance: answers and time change alerts within a pending step."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from datetime import datetime

import msgspec

from monitor.alerting.alerts import lifecycle
from monitor.alerting.alerts.added_evidence import with_late_evidence
from monitor.alerting.alerts.instance import (
    AlertInstance,
    AlertSpan,
    FingerprintState,
    Inhibitor,
    LifecycleOutcome,
    StepWord,
)
from monitor.alerting.alerts.lifecycle import EvaluationTime
from monitor.alerting.alerts.pending_step import ENDED, MEMORY, EndedAlert, ended_key
from monitor.alerting.attribution.attribution import RuleTarget
from monitor.alerting.attribution.subjects import bounded, keys_of, new_alert, subject_of
from monitor.alerting.engine.evaluation import Answer, EvaluationHistory, RuleFailure
from monitor.alerting.engine.evaluation_context import OURS, EvaluationContext
from monitor.alerting.engine.rule_set import RuleSet
from monitor.alerting.engine.suppression import Inhibitors
from monitor.alerting.rules.compiled import Rule
from monitor.alerting.rules.contract import (
    DeadlineMet,
    EvaluationResult,
    Firing,
    Ok,
    OverWhenSeen,
    Unknown,
)
from monitor.model.alerts import NAME_TAKEN_BY, Alert, AlertState
from monitor.model.events import EventType, WorkspaceEvent, workspace_event_id
from monitor.model.words import iso
from monitor.tracking.live_state import LiveStateView


class Advancer:
    """Advances alerts within a pending step, and records why in the history."""

    def __init__(
        self,
        rules: RuleSet,
        *,
        view: LiveStateView,
        history: EvaluationHistory,
        inhibitors: Inhibitors,
    ) -> None:
        self._rules = rules
        self._inhibitors = inhibitors
        self._view = view
        self._history = history

    def advance(self, context: EvaluationContext, target: RuleTarget, answer: Answer) -> None:
        """Let the answer to a target become of its alert."""
        if answer is None:
            return
        key = target.keys.fingerprint
        word, detail = StepWord.NO_RESULT, ""
        if isinstance(answer, RuleFailure):
            word, detail = StepWord.RULE_FAILED, answer.reason
        else:
            context.pending.put(MEMORY, target.keys.memory, answer.memory)
            context.pending.events += deadline_events(target, answer.met, context.wall_now)
            if answer.result is not None:
                for made in self._outcomes(context, target, answer.result, key):
                    outcome = with_name_taken(self._view, made)
                    context.pending.advance(key, context.pending.state_of(key), outcome)
                    # Of what was over when it was seen the first word says what happened.
                    word = word if word is not StepWord.NO_RESULT else outcome.step
            if isinstance(answer.result, Unknown):
                detail = answer.result.why
        event_id = None if target.event is None else target.event.id
        if event_id is None or word is not StepWord.NO_RESULT or target.attribution is None:
            self._history.add(event_id, key, word, at=context.wall_now, detail=detail)

    def pass_time(
        self, context: EvaluationContext, key: str, instance: AlertInstance, rule: Rule
    ) -> None:
        """Let time alone change an alert."""
        subject = subject_of(rule, instance.alert)
        target = RuleTarget(rule=rule, subject=subject, keys=keys_of(rule.name, subject))
        muted_by: tuple[str, ...] = ()
        before = instance
        if instance.inhibited_by:
            kept = self._inhibitors.lasting(context.pending, instance, context.now)
            instance = msgspec.structs.replace(instance, inhibited_by=kept)
        if instance.is_open:
            muted_by = (
                *self._inhibitors.reasons(context.pending, instance.inhibited_by, context.now),
                *context.suppression.reasons(instance.alert, rule.mute, at=context.wall_now),
            )
        moment = self._evaluation_time(context, target, muted_by)
        outcome = lifecycle.pass_time(instance, rule.settings, moment)
        outcome = with_name_taken(self._view, outcome)
        context.pending.advance(key, before, outcome)
        if outcome.step:
            self._history.add(None, key, outcome.step, at=context.wall_now)

    def apply_link(
        self,
        context: EvaluationContext,
        key: str,
        instance: AlertInstance,
        outcome: LifecycleOutcome,
    ) -> None:
        """Let a link that is known now change an alert that waited for it."""
        if outcome.state is not instance:
            context.pending.advance(key, instance, outcome)

    def _outcomes(
        self, context: EvaluationContext, target: RuleTarget, result: EvaluationResult, key: str
    ) -> tuple[LifecycleOutcome, ...]:
        state = context.pending.state_of(key)
        if isinstance(result, Ok | Unknown):
            return (lifecycle.not_firing(state, result, now=context.now),)
        if isinstance(result, OverWhenSeen):
            return self._over_when_seen(context, target, result, key, state)
        return (self._firing(context, target, result, key, state),)

    def _over_when_seen(
        self,
        context: EvaluationContext,
        target: RuleTarget,
        result: OverWhenSeen,
        key: str,
        state: FingerprintState,
    ) -> tuple[LifecycleOutcome, ...]:
        past = state.past if isinstance(state, AlertInstance) else state
        span = past.span_around(result.since)
        if span is not None:
            self._add_to_ended(context, key, span, result.evidence)
        begun = Firing(
            since=result.since,
            as_of=result.until,
            evidence=result.evidence,
            run=result.run,
            facts=result.facts,
            preexisting=target.preexisting,
        )
        fresh = self._fresh(target, begun, key)
        muted_by = context.suppression.reasons(fresh, target.rule.mute, at=context.wall_now)
        moment = self._evaluation_time(context, target, muted_by)
        return lifecycle.over_when_seen(state, result, fresh, target.rule.settings, moment)

    def _add_to_ended(
        self, context: EvaluationContext, key: str, span: AlertSpan, evidence: tuple[str, ...]
    ) -> None:
        """Add evidence to an alert that has ended, so that it is found by its runs."""
        name = ended_key(key, span.starts_at, span.openings)
        row: EndedAlert | None = context.pending.get(ENDED, name)
        if row is not None:
            instance = AlertInstance(alert=row.alert, since=row.at)
            alert = with_late_evidence(instance, evidence).alert
            context.pending.put(ENDED, name, msgspec.structs.replace(row, alert=alert))

    def _firing(
        self,
        context: EvaluationContext,
        target: RuleTarget,
        result: Firing,
        key: str,
        state: FingerprintState,
    ) -> LifecycleOutcome:
        rule, event = target.rule, target.event
        is_first = event is None and context.first_evaluated_at(rule, target.subject) is None
        if target.preexisting or is_first:
            result = msgspec.structs.replace(result, preexisting=True)
        inhibitors: tuple[Inhibitor, ...] = ()
        if isinstance(state, AlertInstance) and state.is_open:
            inhibitors = state.inhibited_by
            # Facts that a later failure lacks do not take back those of an earlier one.
            facts = {name: fact for name, fact in bounded(result.facts).items() if fact is not None}
            result = msgspec.structs.replace(result, facts={**state.alert.facts, **facts})
        elif target.attribution is not None and target.attribution.related is not None:
            inhibitors = self._inhibitors.of_new_alert(
                context.pending, rule, key, target.attribution.related, context.now
            )
        fresh = self._fresh(target, result, key)
        muted_by: tuple[str, ...] = ()
        if not isinstance(state, AlertInstance) or state.alert.state is not AlertState.FIRING:
            muted_by = (
                *self._inhibitors.reasons(context.pending, inhibitors, context.now),
                *context.suppression.reasons(fresh, rule.mute, at=context.wall_now),
            )
        moment = self._evaluation_time(context, target, muted_by)
        outcome = lifecycle.firing(state, result, fresh, rule.settings, moment)
        if inhibitors and isinstance(outcome.state, AlertInstance):
            after = msgspec.structs.replace(outcome.state, inhibited_by=inhibitors)
            outcome = msgspec.structs.replace(outcome, state=after)
        return outcome

    def _fresh(self, target: RuleTarget, result: Firing, key: str) -> Alert:
        """Return the alert as it would begin now."""
        event, attribution = target.event, target.attribution
        run = None if event is None else event.run
        if run is None and result.run is not None:
            active = self._view.active_run(result.run)
            run = None if active is None else active.run
        plan = None if attribution is None else attribution.plan
        return new_alert(
            self._view,
            target.rule,
            target.subject,
            result,
            fingerprint=key,
            run=run,
            plan=plan,
        )

    def _evaluation_time(
        self, context: EvaluationContext, target: RuleTarget, muted_by: tuple[str, ...]
    ) -> EvaluationTime:
        return EvaluationTime(
            now=context.now,
            as_of=context.as_of(target.subject),
            is_ours=target.subject.subject_kind in OURS,
            muted_by=muted_by,
            is_event=target.event is not None,
            limits=self._rules.limits,
        )


def deadline_events(
    target: RuleTarget, met: Iterable[DeadlineMet], wall_now: datetime
) -> Iterator[WorkspaceEvent]:
    """Yield the events of deadlines that are met; the memory that comes with them holds so."""
    workspace, pipeline = target.subject.workspace, target.subject.pipeline
    for deadline in met:
        if pipeline is None:
            raise TypeError("a deadline is of a flow or plan")
        what = f"deadline:{target.rule.name}:{pipeline.kind}/{pipeline.id}"
        # A function of the deadline alone: another daemon, or a lost memory, makes no second one.
        number = int(deadline.day.strftime("%Y%m%d"))
        yield WorkspaceEvent(
            id=workspace_event_id(workspace, what, number),
            type=EventType.DEADLINE_MET,
            workspace=workspace,
            what=what,
            number=number,
            before=None,
            after=iso(deadline.at),
            occurred_at=deadline.ended_at,
            recorded_at=wall_now,
        )


def end(
    context: EvaluationContext,
    view: LiveStateView,
    key: str,
    instance: AlertInstance,
    reason: str,
) -> None:
    """End an alert that will never be evaluated again."""
    at = max(instance.alert.starts_at, context.wall_now)
    outcome = lifecycle.end(instance, at, now=context.now, reason=reason)
    context.pending.advance(key, instance, with_name_taken(view, outcome))


def with_name_taken(view: LiveStateView, outcome: LifecycleOutcome) -> LifecycleOutcome:
    """Return the outcome; where an alert is over, with what has the name of its pipeline now."""
    state = outcome.state
    if outcome.step is not StepWord.RESOLVED or not isinstance(state, AlertInstance):
        return outcome
    alert, pipeline = state.alert, state.alert.pipeline
    if pipeline is None:
        return outcome
    by = view.named(alert.workspace, pipeline.kind, alert.labels.get("pipeline", ""))
    if by in (None, pipeline.id):
        return outcome
    facts = {**alert.facts, NAME_TAKEN_BY: f"{pipeline.kind} {by}"}
    after = msgspec.structs.replace(state, alert=msgspec.structs.replace(alert, facts=facts))
    return msgspec.structs.replace(outcome, state=after)
