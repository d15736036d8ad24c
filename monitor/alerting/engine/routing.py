"""The first step, route: from an attributed event to the rules that match it."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain

import msgspec

from monitor.alerting.alerts.content import subject_of
from monitor.alerting.alerts.firing_runs import FiringRuns
from monitor.alerting.alerts.instance import AlertInstance
from monitor.alerting.alerts.pending_step import LEARNED, MEMORY, PendingStep
from monitor.alerting.attribution.attribution import BAD_ENDS, Attribution, RuleTarget
from monitor.alerting.attribution.subjects import (
    fingerprint_of,
    key_of,
    keys_of,
    of_pipeline,
    of_run,
    traits_of,
)
from monitor.alerting.engine.context import EvaluationContext
from monitor.alerting.engine.learned_rows import with_learned
from monitor.alerting.engine.rule_set import RuleSet
from monitor.alerting.engine.timeline import Timeline
from monitor.alerting.rules.compiled import Compiled, Rule
from monitor.alerting.rules.contract import Subject
from monitor.model.events import EventType, RunEvent, run_event_ids
from monitor.model.runs import RunKey, Status
from monitor.tracking.live_state import LiveStateView

_SUCCESSES = (EventType.RUN_SUCCEEDED, EventType.RUN_CONFIRMED)
_AFTER_END = (EventType.RUN_DETAILED, EventType.RUN_CONFIRMED)


class EventRouter:
    """Routes events of runs. Events of alerts never come here.

    Its iterators decide by the step as it is when a target is taken from them: handle each target
    before the next one.
    """

    def __init__(
        self,
        rules: RuleSet,
        *,
        timeline: Timeline,
        view: LiveStateView,
        firing: FiringRuns,
    ) -> None:
        self._rules = rules
        self._firing = firing
        self._parts_rules = {rule.name: rule for rule in rules.of_root_runs.rules}
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
        if _is_success(attribution):
            _learn(context.pending, event, own)
        touched[root] = None
        for rule in rules.of_root_runs.rules_for_event(event.type, attribution.traits):
            if _is_unidentified(context, rule, event):
                # Its alert began before its pipeline was known, and there is no second one.
                yield _target(rule, of_run(run.key, None), attribution, run.key)
            else:
                yield _target(rule, root, attribution, attribution.root_run)
        if own is not root:
            touched[own] = None
            yield from self._of_own_ends(context, attribution)
        yield from self._of_parts(context, attribution)
        if event.type in self._own_types:
            traits = traits_of(self._view, own, run)
            for rule in rules.of_own_runs.rules_for_event(event.type, traits):
                yield _target(rule, own, attribution, run.key)
        if run.pipeline is None:
            return
        subject = of_pipeline(run.key.workspace, run.pipeline)
        touched[subject] = None
        if event.type in self._pipeline_types:
            yield from self._of_pipeline(attribution, subject)

    def _of_pipeline(self, attribution: Attribution, subject: Subject) -> Iterator[RuleTarget]:
        # Who started a run does not matter to the pipeline as such.
        traits = traits_of(self._view, subject)
        event_type = attribution.event.type
        for rule in self._rules.of_pipelines.rules_for_event(event_type, traits):
            yield _target(rule, subject, attribution, attribution.root_run)

    def _of_own_ends(
        self, context: EvaluationContext, attribution: Attribution
    ) -> Iterator[RuleTarget]:
        """Yield the rules that know ends from before a run inside another one was known as such.

        An open alert is told everything but later failures: these count for the run around them,
        save for the end of the alert's own run. Without an alert a success counts here too, so
        that a failure that is seen after it, and happened before it, is over when it is seen.
        """
        event, own, pending = attribution.event, attribution.own, context.pending
        traits = traits_of(self._view, own, event.run)
        for rule in self._rules.of_root_runs.rules_for_event(event.type, traits):
            keys = keys_of(rule.name, own)
            state = pending.state_of(keys.fingerprint)
            if isinstance(state, AlertInstance) and state.is_open:
                counts = event.type not in BAD_ENDS or state.root_run == event.run.key
            else:
                keeps_ends = rule.definition.kept_ends is not None
                is_success = event.run.status is Status.SUCCEEDED
                counts = keeps_ends and is_success and pending.get(MEMORY, keys.memory) is not None
            if counts:
                yield _target(rule, own, attribution, event.run.key)

    def _of_parts(
        self, context: EvaluationContext, attribution: Attribution
    ) -> Iterator[RuleTarget]:
        """Yield the open alerts of parts, which the success of what contains them ends as well."""
        related, run = attribution.related, attribution.event.run
        if related is None or attribution.root_run != run.key or not _is_success(attribution):
            return
        inside = related.inside
        for _, instance in list(self._firing.open_alerts(context.pending, inside)):
            rule = self._parts_rules.get(instance.alert.name)
            if rule is not None:
                target = _target(rule, subject_of(rule, instance.alert), attribution, run.key)
                yield msgspec.structs.replace(target, clears=inside)


def _is_success(attribution: Attribution) -> bool:
    event = attribution.event
    return event.type in _SUCCESSES and event.run.status is Status.SUCCEEDED


def _is_unidentified(context: EvaluationContext, rule: Rule, event: RunEvent) -> bool:
    """True where an open alert without a pipeline is about the failure of this run."""
    if event.type not in _AFTER_END:
        return False
    unknown = of_run(event.run.key, None)
    state = context.pending.state_of(fingerprint_of(rule.name, unknown))
    run = event.run
    failures = run_event_ids(run.key, (EventType.RUN_FAILED,), corrections=run.corrections)
    if not isinstance(state, AlertInstance) or not state.is_open:
        return False
    return not set(failures).isdisjoint(state.alert.evidence)


def _target(rule: Rule, subject: Subject, attribution: Attribution, root_run: RunKey) -> RuleTarget:
    return RuleTarget(
        rule=rule,
        subject=subject,
        event=attribution.event,
        root_run=root_run,
        attribution=attribution,
    )


def _event_types(rules: Compiled) -> frozenset[EventType]:
    return frozenset(chain.from_iterable(rule.definition.event_types for rule in rules.rules))


def _learn(pending: PendingStep, event: RunEvent, own: Subject) -> None:
    """Add a success to the baseline of its pipeline."""
    if own.pipeline is None:
        return
    key = key_of(own)
    pending.put(LEARNED, key, with_learned(pending.get(LEARNED, key), (event,)))
