"""The third step, advance: answers, correlation and time change alerts within a pending step."""

from __future__ import annotations

import msgspec

from monitor.alerting.alerts import lifecycle
from monitor.alerting.alerts.content import bounded, new_alert, subject_of
from monitor.alerting.alerts.instance import AlertInstance, FingerprintState
from monitor.alerting.alerts.lifecycle import EvaluationTime
from monitor.alerting.alerts.outcome import LifecycleOutcome, StepWord
from monitor.alerting.alerts.pending_step import MEMORY
from monitor.alerting.attribution.attribution import Correlation, RuleTarget
from monitor.alerting.attribution.subjects import fingerprint_of, keys_of
from monitor.alerting.engine.context import OURS, EvaluationContext
from monitor.alerting.engine.evaluation import Answer, RuleFailure
from monitor.alerting.engine.history import EvaluationHistory
from monitor.alerting.engine.rule_set import RuleSet
from monitor.alerting.rules.compiled import Rule
from monitor.alerting.rules.results import EvaluationResult, Firing, Unknown
from monitor.model.alerts import Alert, AlertState
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
        name, subject = target.rule.settings.name, target.subject
        keys = keys_of(name, subject)
        key = keys.fingerprint
        word, detail = StepWord.NO_RESULT, ""
        if isinstance(answer, RuleFailure):
            word, detail = StepWord.RULE_FAILED, answer.reason
        else:
            memory = None if answer.memory is None else msgspec.json.encode(answer.memory)
            context.pending.put(MEMORY, keys.memory, memory)
            if answer.result is not None:
                before = context.pending.state_of(key)
                outcome = self._outcome(context, target, answer.result, key, before)
                context.pending.advance(key, before, outcome)
                word = outcome.step
            if isinstance(answer.result, Unknown):
                detail = answer.result.why
        event_id = None if target.event is None else target.event.id
        self._history.add(event_id, name, key, word, at=context.wall_now, detail=detail)

    def pass_time(
        self, context: EvaluationContext, key: str, instance: AlertInstance, rule: Rule
    ) -> None:
        """Let time alone change an alert."""
        target = RuleTarget(rule=rule, subject=subject_of(rule, instance.alert))
        muted_by: tuple[str, ...] = ()
        if instance.is_open:
            muted_by = context.suppression.reasons(instance.alert, rule.mute, at=context.wall_now)
        moment = self._evaluation_time(context, target, muted_by)
        outcome = lifecycle.pass_time(instance, rule.settings, moment)
        context.pending.advance(key, instance, outcome)
        if outcome.step:
            self._history.add(None, rule.name, key, outcome.step, at=context.wall_now)

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
        fresh = self._refreshed(rule, alert, result, url if isinstance(url, str) else None)
        after = lifecycle.with_facts(instance, facts, fresh)
        context.pending.advance(key, instance, LifecycleOutcome(state=after))

    def _correlate(
        self, context: EvaluationContext, target: RuleTarget, correlation: Correlation
    ) -> None:
        """Record a postponed event, or add it as evidence to the alert that it belongs to."""
        key, event = correlation.evidence_of, target.event
        if event is None:
            return
        if key is None:
            word = StepWord.POSTPONED
            detail = f"at most until {correlation.due_at:%H:%M:%S} UTC, for a run that contains it"
        else:
            word, detail = StepWord.DEDUPLICATED, f"evidence of {key}"
            instance = context.pending.state_of(key)
            if not isinstance(instance, AlertInstance):
                return
            at, facts = instance.alert.starts_at, instance.alert.facts
            if event.run.error is not None and facts.get("error") is None:
                facts = {**facts, **bounded({"error": event.run.error})}
            run = correlation.newest_run
            result = Firing(since=at, as_of=at, evidence=(event.id,), run=run, facts=facts)
            fresh = self._refreshed(target.rule, instance.alert, result, event.run.url)
            after = lifecycle.with_evidence(instance, result, fresh, is_news=False)
            context.pending.advance(key, instance, LifecycleOutcome(state=after, step=word))
        name = target.rule.settings.name
        own_key = fingerprint_of(name, target.subject)
        self._history.add(event.id, name, own_key, word, at=context.wall_now, detail=detail)

    def _refreshed(self, rule: Rule, alert: Alert, result: Firing, url: str | None) -> Alert:
        """Return an open alert with the content that the result gives it."""
        return new_alert(
            self._view,
            rule,
            subject_of(rule, alert),
            result,
            fingerprint=alert.fingerprint,
            url=url,
            known=alert.evidence,
        )

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
            return lifecycle.not_firing(state, result, now=context.now)
        is_first = event is None and context.first_evaluated_at(rule, target.subject) is None
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
            muted_by = context.suppression.reasons(fresh, rule.mute, at=context.wall_now)
        moment = self._evaluation_time(context, target, muted_by)
        return lifecycle.firing(state, result, fresh, rule.settings, moment)

    def _url_of(self, run: RunKey | None) -> str | None:
        active = self._view.active_run(run) if run is not None else None
        return active.run.url if active is not None else None

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


def end(context: EvaluationContext, key: str, instance: AlertInstance, reason: str) -> None:
    """End an alert that will never be evaluated again."""
    at = max(instance.alert.starts_at, context.wall_now)
    outcome = lifecycle.end(instance, at, now=context.now, reason=reason)
    context.pending.advance(key, instance, outcome)
