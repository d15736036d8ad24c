"""The first step, route: from an attributed event to the rules that match it."""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from monitor.alerting.alerts.instance import AlertInstance
from monitor.alerting.alerts.pending_step import LEARNED, PendingStep
from monitor.alerting.attribution.attribution import BAD_ENDS, Attribution, RuleTarget
from monitor.alerting.attribution.parent_correlation import LinkWait, ParentCorrelation
from monitor.alerting.attribution.subjects import fingerprint_of, key_of, of_pipeline, traits_of
from monitor.alerting.engine.evaluation import EvaluationContext
from monitor.alerting.engine.evaluation_facts import read_learned
from monitor.alerting.engine.rule_set import RuleSet
from monitor.alerting.engine.timeline import Timeline
from monitor.alerting.rules.baselines import learn
from monitor.alerting.rules.compiled import Rule
from monitor.alerting.rules.contract import Subject, SubjectKind
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
        compiled = rules.compiled.rules
        # Types of events that rules about runs by themselves, and about pipelines as such, handle.
        self._own_types = {
            event_type
            for rule in compiled
            if rule.names_kind
            for event_type in rule.definition.event_types
        }
        self._pipeline_types = {
            event_type
            for rule in compiled
            if rule.definition.subject_kind is SubjectKind.FLOW_OR_PLAN
            for event_type in rule.definition.event_types
        }

    def route(self, context: EvaluationContext, attribution: Attribution) -> Iterator[RuleTarget]:
        """Yield the rules that match the event, each with its subject."""
        event, own, root = attribution.event, attribution.own, attribution.root
        run, is_success = event.run, event.type is EventType.RUN_SUCCEEDED
        if is_success:
            _learn(context.pending, event, own)
            yield from self.postponed(context, before=run)
        self._timeline.touch(root)
        for rule in self._rules.compiled.rules_for_event(event.type, attribution.traits):
            if rule.definition.subject_kind is SubjectKind.PIPELINE and not rule.names_kind:
                yield self._of_root(context, rule, attribution, LinkWait.ALLOWED)
        if own is not root:
            self._timeline.touch(own)
        if event.type in self._own_types or (own is not root and is_success):
            yield from self._of_run(context, attribution)
        if run.pipeline is not None:
            subject = of_pipeline(run.key.workspace, run.pipeline)
            self._timeline.touch(subject)
            if event.type in self._pipeline_types:
                yield from self._of_pipeline(attribution, subject)

    def postponed(
        self, context: EvaluationContext, *, before: RunState | None = None
    ) -> Iterator[RuleTarget]:
        """Yield the postponed events whose parents are known now, or that have waited enough.

        ``before`` narrows it to those that the success of that run overtakes.
        """
        now = context.facts.now
        for name, attribution, wait in self._correlation.take_due(
            context.pending, now, before=before
        ):
            rule = self._rules.by_name.get(name)
            if rule is not None:
                yield self._of_root(context, rule, attribution, wait)

    def _of_root(
        self, context: EvaluationContext, rule: Rule, attribution: Attribution, wait: LinkWait
    ) -> RuleTarget:
        correlation = None
        if attribution.event.type in BAD_ENDS:
            correlation = self._correlation.decide(
                context.pending, rule, attribution, wait=wait, now=context.facts.now
            )
        return RuleTarget(
            rule=rule,
            subject=attribution.root,
            event=attribution.event,
            root_run=attribution.root_run,
            correlation=correlation,
        )

    def _of_run(self, context: EvaluationContext, attribution: Attribution) -> Iterator[RuleTarget]:
        """Yield the rules about runs by themselves, whatever contains them.

        A success inside another run also ends an alert that began before that run was known.
        """
        event, own = attribution.event, attribution.own
        is_inside = own is not attribution.root and event.type is EventType.RUN_SUCCEEDED
        traits = traits_of(self._view, own, event.run)
        for rule in self._rules.compiled.rules_for_event(event.type, traits):
            if rule.definition.subject_kind is not SubjectKind.PIPELINE:
                continue
            if not rule.names_kind:
                state = context.pending.state_of(fingerprint_of(rule.name, own))
                if not (is_inside and isinstance(state, AlertInstance) and state.is_open):
                    continue
            yield RuleTarget(rule=rule, subject=own, event=event, root_run=event.run.key)

    def _of_pipeline(self, attribution: Attribution, subject: Subject) -> Iterator[RuleTarget]:
        # Who started a run does not matter to the pipeline as such.
        traits = traits_of(self._view, subject)
        event = attribution.event
        for rule in self._rules.compiled.rules_for_event(event.type, traits):
            if rule.definition.subject_kind is SubjectKind.FLOW_OR_PLAN:
                yield RuleTarget(
                    rule=rule, subject=subject, event=event, root_run=attribution.root_run
                )


def _learn(pending: PendingStep, event: RunEvent, own: Subject) -> None:
    """Add a success to the baseline of its pipeline."""
    if own.pipeline is None:
        return
    key = key_of(own)
    known = read_learned(pending.get(LEARNED, key))
    learned = learn(known, event)
    if learned is not None and learned is not known:
        pending.put(LEARNED, key, msgspec.json.encode(learned))
