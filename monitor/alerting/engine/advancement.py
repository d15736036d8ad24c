"""The third step, advance: answers, correlation and time change alerts within a pending step."""

from __future__ import annotations

import msgspec

from monitor.alerting.alerts import lifecycle
from monitor.alerting.alerts.content import bounded, new_alert, subject_of
from monitor.alerting.alerts.instance import AlertInstance, FingerprintHistory, FingerprintState
from monitor.alerting.alerts.lifecycle import EvaluationTime
from monitor.alerting.alerts.outcome import LifecycleOutcome, StepWord
from monitor.alerting.alerts.pending_step import MEMORY
from monitor.alerting.attribution.attribution import Correlation, RuleTarget
from monitor.alerting.attribution.subjects import fingerprint_of, memory_key
from monitor.alerting.engine.evaluation import (
    Answer,
    EvaluationContext,
    RuleFailure,
    first_evaluated_at,
)
from monitor.alerting.engine.evaluation_facts import OURS
from monitor.alerting.engine.history import EvaluationHistory, EvaluationRecord
from monitor.alerting.engine.rule_set import RuleSet
from monitor.alerting.rules.compiled import Rule
from monitor.alerting.rules.results import EvaluationResult, Firing, Unknown
from monitor.model.alerts import AlertState
from monitor.model.runs import RunKey
from monitor.tracking.live_state import LiveStateView


class Advancer:
    """Advances alerts within a pending step, and records why in the history."""

    def __init__(self, rules: RuleSet, *, view: LiveStateView, history: EvaluationHistory) -> None:
        self._rules = rules
        self._view = view
        self._history = history

    def advance(self, context: EvaluationContext, target: RuleTarget, answer: Answer) -> None:
        """Let the answer to a target become of its alert."""
        if target.correlation is not None:
            self._correlate(context, target, target.correlation)
            return
        if answer is None:
            return
        key = fingerprint_of(target.rule.settings.name, target.subject)
        if isinstance(answer, RuleFailure):
            self._record(context, target, key, StepWord.RULE_FAILED, answer.reason)
            return
        memory = None if answer.memory is None else msgspec.json.encode(answer.memory)
        context.pending.put(MEMORY, memory_key(target.rule.settings.name, target.subject), memory)
        result = answer.result
        if result is None:
            self._record(context, target, key, StepWord.NO_RESULT)
            return
        state = context.pending.state_of(key)
        outcome = self._outcome(context, target, result, key, state)
        context.pending.advance(key, state, outcome)
        why = result.why if isinstance(result, Unknown) else ""
        self._record(context, target, key, outcome.step, why)

    def pass_time(
        self, context: EvaluationContext, key: str, instance: AlertInstance, rule: Rule
    ) -> None:
        """Let time alone change an alert."""
        target = RuleTarget(rule=rule, subject=subject_of(rule, instance.alert))
        muted_by: tuple[str, ...] = ()
        if instance.is_open:
            wall_now = context.facts.wall_now
            muted_by = context.suppression.reasons(instance.alert, rule.mute, at=wall_now)
        moment = self._evaluation_time(context, target, muted_by)
        outcome = lifecycle.pass_time(instance, rule.settings, moment)
        context.pending.advance(key, instance, outcome)
        if outcome.step:
            self._record(context, target, key, outcome.step)

    def add_error(self, context: EvaluationContext, key: str, error: str) -> None:
        """Add the error of a run inside to an alert that has none; publishes nothing."""
        instance = context.pending.state_of(key)
        if not isinstance(instance, AlertInstance):
            return
        alert = instance.alert
        rule = self._rules.by_name.get(alert.name)
        if rule is None:
            return
        facts = {**alert.facts, **bounded({"error": error})}
        result = Firing(since=alert.starts_at, as_of=alert.starts_at, facts=facts)
        url = facts.get("url")
        fresh = new_alert(
            self._view,
            rule,
            subject_of(rule, alert),
            result,
            fingerprint=key,
            url=url if isinstance(url, str) else None,
            known=alert.evidence,
        )
        after = lifecycle.with_facts(instance, facts, fresh)
        context.pending.advance(key, instance, LifecycleOutcome(state=after))

    def _correlate(
        self, context: EvaluationContext, target: RuleTarget, correlation: Correlation
    ) -> None:
        """Record a postponed event, or add it as evidence to the alert that it belongs to."""
        own_key = fingerprint_of(target.rule.settings.name, target.subject)
        key = correlation.evidence_of
        if key is None:
            detail = f"at most until {correlation.due_at:%H:%M:%S} UTC, for a run that contains it"
            self._record(context, target, own_key, StepWord.POSTPONED, detail)
            return
        instance, event = context.pending.state_of(key), target.event
        if not isinstance(instance, AlertInstance) or event is None:
            return
        at, facts = instance.alert.starts_at, instance.alert.facts
        if event.run.error is not None and facts.get("error") is None:
            facts = {**facts, **bounded({"error": event.run.error})}
        run = correlation.newest_run
        result = Firing(since=at, as_of=at, evidence=(event.id,), run=run, facts=facts)
        fresh = new_alert(
            self._view,
            target.rule,
            subject_of(target.rule, instance.alert),
            result,
            fingerprint=key,
            url=event.run.url,
            known=instance.alert.evidence,
        )
        after = lifecycle.with_evidence(instance, result, fresh, is_news=False)
        outcome = LifecycleOutcome(state=after, step=StepWord.DEDUPLICATED)
        context.pending.advance(key, instance, outcome)
        self._record(context, target, own_key, StepWord.DEDUPLICATED, f"evidence of {key}")

    def _outcome(
        self,
        context: EvaluationContext,
        target: RuleTarget,
        result: EvaluationResult,
        key: str,
        state: FingerprintState,
    ) -> LifecycleOutcome:
        rule, event = target.rule, target.event
        if not isinstance(result, Firing):
            if isinstance(state, FingerprintHistory):
                return lifecycle.without_alert(state, result)
            moment = self._evaluation_time(context, target)
            return lifecycle.advance(state, result, state.alert, rule.settings, moment)
        is_first = event is None and first_evaluated_at(context, rule, target.subject) is None
        if target.preexisting or is_first:
            result = msgspec.structs.replace(result, preexisting=True)
        known: tuple[str, ...] = ()
        if isinstance(state, AlertInstance) and state.is_open:
            known = state.alert.evidence
            # Facts that a later failure lacks do not take back those of an earlier one.
            facts = {name: fact for name, fact in bounded(result.facts).items() if fact is not None}
            result = msgspec.structs.replace(result, facts={**state.alert.facts, **facts})
        fresh = new_alert(
            self._view,
            rule,
            target.subject,
            result,
            fingerprint=key,
            url=event.run.url if event is not None else self._url_of(result.run),
            known=known,
        )
        muted_by: tuple[str, ...] = ()
        if not isinstance(state, AlertInstance) or state.alert.state is not AlertState.FIRING:
            wall_now = context.facts.wall_now
            muted_by = context.suppression.reasons(fresh, rule.mute, at=wall_now)
        moment = self._evaluation_time(context, target, muted_by)
        return lifecycle.advance(state, result, fresh, rule.settings, moment)

    def _url_of(self, run: RunKey | None) -> str | None:
        active = self._view.active_run(run) if run is not None else None
        return active.run.url if active is not None else None

    def _evaluation_time(
        self, context: EvaluationContext, target: RuleTarget, muted_by: tuple[str, ...] = ()
    ) -> EvaluationTime:
        return EvaluationTime(
            now=context.facts.now,
            as_of=context.facts.as_of(target.subject),
            is_ours=target.subject.subject_kind in OURS,
            muted_by=muted_by,
            is_event=target.event is not None,
            limits=self._rules.limits,
        )

    def _record(
        self,
        context: EvaluationContext,
        target: RuleTarget,
        key: str,
        word: StepWord,
        detail: str = "",
    ) -> None:
        record = EvaluationRecord(
            rule=target.rule.settings.name,
            fingerprint=key,
            word=word,
            at=context.facts.wall_now,
            detail=detail,
        )
        self._history.add(target.event.id if target.event is not None else None, record)


def end(context: EvaluationContext, key: str, instance: AlertInstance, reason: str) -> None:
    """End an alert that will never be evaluated again."""
    facts = context.facts
    at = max(instance.alert.starts_at, facts.wall_now)
    outcome = lifecycle.end(instance, at, now=facts.now, reason=reason)
    context.pending.advance(key, instance, outcome)
