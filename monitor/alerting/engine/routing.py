"""The first step, route: from an attributed event to the rules that match it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import chain

import msgspec

from monitor.alerting.alerts.instance import AlertInstance
from monitor.alerting.alerts.pending_step import LEARNED, PendingStep
from monitor.alerting.attribution.attribution import Attribution, RuleTarget
from monitor.alerting.attribution.parent_correlation import LinkWait, ParentCorrelation
from monitor.alerting.attribution.subjects import fingerprint_of, key_of, of_pipeline, traits_of
from monitor.alerting.engine.context import EvaluationContext, read_learned
from monitor.alerting.engine.rule_set import RuleSet
from monitor.alerting.engine.timeline import Timeline
from monitor.alerting.rules.baselines import learn
from monitor.alerting.rules.compiled import Compiled, Rule
from monitor.alerting.rules.contract import Subject
from monitor.model.events import EventType, RunEvent
from monitor.model.runs import RunState
from monitor.tracking.live_state import LiveStateView


class EventRouter:
    """Routes events of runs. Events of alerts never come here.

    Its iterators decide by the step as it is when a target is taken from them: handle each target
    before the next one.
    """

    def __init__(
        self,
        rules: RuleSet,
        *,
        correlation: ParentCorrelation,
        timeline: Timeline,
        view: LiveStateView,
    ) -> None:
        self._rules = rules
        self._correlation = correlation
        self._timeline = timeline
        self._view = view
        self._own_types = _event_types(rules.of_own_runs)
        self._pipeline_types = _event_types(rules.of_pipelines)

    def route(self, context: EvaluationContext, attribution: Attribution) -> Iterator[RuleTarget]:
        """Yield the rules that match the event, each with its subject."""
        event, own, root = attribution.event, attribution.own, attribution.root
        run, rules, touched = event.run, self._rules, self._timeline.touched
        if self._view.workspace(run.key.workspace) is None:
            return  # its alerts end because it was removed
        is_success = event.type is EventType.RUN_SUCCEEDED
        if is_success:
            _learn(context.pending, event, own)
            yield from self.postponed(context, before=run)
        touched[root] = None
        matching = rules.of_root_runs.rules_for_event(event.type, attribution.traits)
        yield from self._of_root_run(context, attribution, matching)
        if own is not root:
            touched[own] = None
            if is_success:
                yield from self._of_early_alerts(context, attribution)
        if event.type in self._own_types:
            traits = traits_of(self._view, own, run)
            for rule in rules.of_own_runs.rules_for_event(event.type, traits):
                yield RuleTarget(rule=rule, subject=own, event=event, root_run=run.key)
        if run.pipeline is None:
            return
        subject = of_pipeline(run.key.workspace, run.pipeline)
        touched[subject] = None
        if event.type in self._pipeline_types:
            yield from self._of_pipeline(attribution, subject)

    def postponed(
        self, context: EvaluationContext, *, before: RunState | None = None
    ) -> Iterator[RuleTarget]:
        """Yield the postponed events whose parents are known now, or that have waited enough.

        ``before`` narrows it to those that the success of that run overtakes.
        """
        due = self._correlation.take_due(context.pending, context.now, before=before)
        for name, attribution, wait in due:
            rule = self._rules.by_name.get(name)
            if rule is not None and self._view.workspace(attribution.root.workspace) is not None:
                yield from self._of_root_run(context, attribution, (rule,), wait)

    def _of_root_run(
        self,
        context: EvaluationContext,
        attribution: Attribution,
        rules: Iterable[Rule],
        wait: LinkWait = LinkWait.ALLOWED,
    ) -> Iterator[RuleTarget]:
        may_belong_elsewhere = attribution.related is not None or len(attribution.line) > 1
        for rule in rules:
            correlation = None
            if may_belong_elsewhere:
                correlation = self._correlation.decide(
                    context.pending, rule, attribution, wait=wait, now=context.now
                )
            yield RuleTarget(
                rule=rule,
                subject=attribution.root,
                event=attribution.event,
                root_run=attribution.root_run,
                correlation=correlation,
            )

    def _of_pipeline(self, attribution: Attribution, subject: Subject) -> Iterator[RuleTarget]:
        # Who started a run does not matter to the pipeline as such.
        traits = traits_of(self._view, subject)
        event, root_run = attribution.event, attribution.root_run
        for rule in self._rules.of_pipelines.rules_for_event(event.type, traits):
            yield RuleTarget(rule=rule, subject=subject, event=event, root_run=root_run)

    def _of_early_alerts(
        self, context: EvaluationContext, attribution: Attribution
    ) -> Iterator[RuleTarget]:
        """Yield the rules with an alert that began before the run inside another one was known."""
        event, own = attribution.event, attribution.own
        traits = traits_of(self._view, own, event.run)
        for rule in self._rules.of_root_runs.rules_for_event(event.type, traits):
            state = context.pending.state_of(fingerprint_of(rule.name, own))
            if isinstance(state, AlertInstance) and state.is_open:
                yield RuleTarget(rule=rule, subject=own, event=event, root_run=event.run.key)


def _event_types(rules: Compiled) -> frozenset[EventType]:
    return frozenset(chain.from_iterable(rule.definition.event_types for rule in rules.rules))


def _learn(pending: PendingStep, event: RunEvent, own: Subject) -> None:
    """Add a success to the baseline of its pipeline."""
    if own.pipeline is None:
        return
    key = key_of(own)
    known = read_learned(pending.get(LEARNED, key))
    learned = learn(known, event)
    if learned is not None and learned is not known:
        pending.put(LEARNED, key, msgspec.json.encode(learned))
