"""The first step, route: from an attributed event to the rules that match it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from datetime import timedelta
from itertools import chain
from typing import Any

import msgspec
from msgspec import Struct

from monitor.alerting.alerts.firing_runs import FiringRuns
from monitor.alerting.alerts.instance import AlertInstance
from monitor.alerting.alerts.pending_step import ALERT, LEARNED, MEMORY
from monitor.alerting.attribution.attribution import BAD_ENDS, Attribution, RuleTarget
from monitor.alerting.attribution.subjects import (
    RuleKeys,
    key_of,
    keys_of,
    of_pipeline,
    of_run,
    subject_of,
    traits_of,
)
from monitor.alerting.engine.evaluation import EvaluationHistory
from monitor.alerting.engine.evaluation_context import EvaluationContext
from monitor.alerting.engine.rule_set import RuleSet
from monitor.alerting.engine.timeline import Timeline
from monitor.alerting.rules.baselines import Learned, learn
from monitor.alerting.rules.compiled import Rule
from monitor.alerting.rules.contract import EventInput, Subject
from monitor.model.bounded_memory import BoundedMemory
from monitor.model.events import EventType, RunEvent, run_event_ids
from monitor.model.runs import RunKey, RunState, Status
from monitor.tracking.live_state import LiveStateView

# With about a kilobyte each: five types of events of 4,000 pipelines.
_KEPT = 20_000
_SUCCESSES = (EventType.RUN_SUCCEEDED, EventType.RUN_CONFIRMED)
_AFTER_END = (EventType.RUN_DETAILED, EventType.RUN_CONFIRMED)
_OF_SUCCESSES = (*_SUCCESSES, EventType.RUN_DETAILED)
_STARTS = (EventType.RUN_QUEUED, EventType.RUN_STARTED)
# A success allows a limit that is learned to shrink. No such limit is below an hour.
_EVALUATED_WITHIN = timedelta(seconds=60)


class MatchedRule(Struct, frozen=True, gc=False):
    """A rule that matches, what it is evaluated about, and the keys of its rows about that."""

    rule: Rule
    subject: Subject
    keys: RuleKeys


class EventRules(Struct, frozen=True, kw_only=True, gc=False):
    """The rules that handle events of one type of some runs of a pipeline, as in their file."""

    of_root_runs: tuple[MatchedRule, ...]  # where the run is inside no other one
    of_own_runs: tuple[MatchedRule, ...]
    of_pipeline: tuple[MatchedRule, ...]
    pipeline: Subject | None  # the flow or plan as such
    # Rows of the rules that evaluate these subjects by state. With one an event may matter to them.
    fingerprints: tuple[str, ...]
    memories: tuple[str, ...]  # without those that a rule itself changes by the event
    handled: tuple[str, ...]  # the fingerprints that these rules decide about


class EventRuleLookup:
    """Finds the rules once for each type of event of a pipeline, and keeps what was used last."""

    def __init__(self, rules: RuleSet, view: LiveStateView, *, kept: int = _KEPT) -> None:
        self._rules = rules
        self._view = view
        self._found: BoundedMemory[tuple[Any, ...], EventRules] = BoundedMemory(kept)

    def find(self, event_type: EventType, subject: Subject, run: RunState) -> EventRules:
        """Return the rules for an event of a run of the subject, or of what is inside it."""
        # All that `traits_of` depends on.
        place, label = None, None
        if (pipeline := subject.pipeline) is not None:
            place = self._view.place(subject.workspace, pipeline)
            label = pipeline.name or self._view.label(subject.workspace, pipeline)
        key = (event_type, subject, run.owner, run.trigger, place, label)
        found = self._found.get(key)
        if found is None:
            found = self._find(event_type, subject, run)
            self._found.put(key, found)
        return found

    def _find(self, event_type: EventType, subject: Subject, run: RunState) -> EventRules:
        rules, pipeline = self._rules, None
        traits = traits_of(self._view, subject, run)
        of_pipelines: tuple[MatchedRule, ...] = ()
        by_state = _matched(self._rules_by_state(subject), subject)
        if subject.pipeline is not None:
            pipeline = of_pipeline(subject.workspace, subject.pipeline)
            # Who started a run does not matter to the pipeline as such.
            pipeline_traits = traits_of(self._view, pipeline)
            matching = rules.of_pipelines.rules_for_event(event_type, pipeline_traits)
            of_pipelines = _matched(matching, pipeline)
            by_state += _matched(self._rules_by_state(pipeline), pipeline)
        of_root = _matched(rules.of_root_runs.rules_for_event(event_type, traits), subject)
        of_own = _matched(rules.of_own_runs.rules_for_event(event_type, traits), subject)
        return EventRules(
            of_root_runs=of_root,
            of_own_runs=of_own,
            of_pipeline=of_pipelines,
            pipeline=pipeline,
            handled=fingerprints_of(of_root, of_own, of_pipelines),
            fingerprints=fingerprints_of(by_state),
            memories=tuple(
                matched.keys.memory
                for matched in by_state
                if matched.subject is subject
                or event_type not in matched.rule.definition.event_types
            ),
        )

    def _rules_by_state(self, subject: Subject) -> tuple[Rule, ...]:
        traits = traits_of(self._view, subject)
        return self._rules.compiled.rules_for_state(subject.subject_kind, traits)


def _matched(rules: Iterable[Rule], subject: Subject) -> tuple[MatchedRule, ...]:
    return tuple(matched_rule(rule, subject) for rule in rules)


def fingerprints_of(*rules: Iterable[MatchedRule]) -> tuple[str, ...]:
    return tuple(matched.keys.fingerprint for matched in chain.from_iterable(rules))


def matched_rule(rule: Rule, subject: Subject) -> MatchedRule:
    return MatchedRule(rule, subject, keys_of(rule.name, subject))


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
        history: EvaluationHistory,
    ) -> None:
        self._firing = firing
        self._history = history
        self._parts_rules = {rule.name: rule for rule in rules.of_root_runs.rules}
        self._timeline = timeline
        self._view = view
        self._lookup = EventRuleLookup(rules, view)

    def route(self, context: EvaluationContext, attribution: Attribution) -> Iterator[RuleTarget]:
        """Yield the rules that match the event, each with its subject."""
        event, run = attribution.event, attribution.event.run
        if self._view.workspace(run.key.workspace) is None:
            return  # its alerts end because it was removed
        own = root = self._lookup.find(event.type, attribution.own, run)
        own_input = root_input = _input(event, run.key, run)
        handled = own.handled
        if attribution.is_inside:
            state = attribution.line[-1].run
            root = self._lookup.find(event.type, attribution.root, state or run)
            root_input = _input(event, attribution.root_run, state)
            handled = fingerprints_of(root.of_root_runs, own.of_own_runs, own.of_pipeline)
        self._history.add_event(event.id, handled, at=context.wall_now)
        is_success = _is_success(event)
        if is_success:
            _learn(context, event, attribution.own)
        self._touch(context, attribution, own)
        yield from self._of_root_runs(context, attribution, root, root_input)
        if attribution.is_inside:
            counting = (
                matched for matched in own.of_root_runs if _counts_for_own(context, matched, event)
            )
            yield from _targets(context, counting, attribution, own_input)
        elif is_success:
            yield from self._of_parts(context, attribution, own_input)
        yield from _targets(context, own.of_own_runs, attribution, own_input)
        yield from _targets(context, own.of_pipeline, attribution, root_input)

    def _touch(
        self, context: EvaluationContext, attribution: Attribution, rules: EventRules
    ) -> None:
        """Let the next cycle evaluate the subjects of an event, save where nothing is at stake.

        Most events are starts and successes of pipelines for which no rule that evaluates state
        has an alert or remembers anything.
        """
        event, touched, pending = attribution.event, self._timeline.touched, context.pending
        is_success = event.type in _OF_SUCCESSES and event.run.status is Status.SUCCEEDED
        is_harmless = is_success or event.type in _STARTS
        if (
            is_harmless
            and not attribution.is_inside
            and rules.pipeline is not None
            and self._timeline.has_evaluated(rules.pipeline)
            and not pending.has_any(ALERT, rules.fingerprints)
            and not pending.has_any(MEMORY, rules.memories)
        ):
            if event.type in _SUCCESSES:
                self._timeline.evaluate_within(rules.pipeline, _EVALUATED_WITHIN, context.complete)
            return
        touched[attribution.root] = touched[attribution.own] = None
        if rules.pipeline is not None:
            touched[rules.pipeline] = None

    def _of_root_runs(
        self,
        context: EvaluationContext,
        attribution: Attribution,
        rules: EventRules,
        event_input: EventInput,
    ) -> Iterator[RuleTarget]:
        """Yield the rules about the root run, save where an alert of the run itself is older.

        That one began before the run's pipeline was known, and there is no second one.
        """
        event = attribution.event
        if event.type not in _AFTER_END or not self._firing.has_unidentified(context.pending):
            yield from _targets(context, rules.of_root_runs, attribution, event_input)
            return
        own_input = _input(event, event.run.key, event.run)
        for matched in rules.of_root_runs:
            unknown = matched_rule(matched.rule, of_run(event.run.key, None))
            if _is_unidentified(context, unknown, event):
                yield from _targets(context, (unknown,), attribution, own_input)
            else:
                yield from _targets(context, (matched,), attribution, event_input)

    def _of_parts(
        self, context: EvaluationContext, attribution: Attribution, event_input: EventInput
    ) -> Iterator[RuleTarget]:
        """Yield the open alerts of parts, which the success of what contains them ends as well."""
        if attribution.related is None:
            return
        inside = attribution.related.inside
        event_input = msgspec.structs.replace(event_input, cleared=inside)
        for _, instance in list(self._firing.open_alerts(context.pending, inside)):
            rule = self._parts_rules.get(instance.alert.name)
            if rule is not None:
                part = matched_rule(rule, subject_of(rule, instance.alert))
                yield from _targets(context, (part,), attribution, event_input)


def _is_success(event: RunEvent) -> bool:
    return event.type in _SUCCESSES and event.run.status is Status.SUCCEEDED


def _can_react(context: EvaluationContext, matched: MatchedRule) -> bool:
    """False where the rule finds nothing without a memory, and has none of the subject."""
    needs_memory = matched.rule.definition.needs_memory
    return not needs_memory or context.pending.get(MEMORY, matched.keys.memory) is not None


def _counts_for_own(context: EvaluationContext, matched: MatchedRule, event: RunEvent) -> bool:
    """True where a rule knows ends from before a run inside another one was known as such.

    An open alert gets everything but later failures: these count for the run around them, save for
    the end of the alert's own run. Without an alert a success counts here too, so that a failure
    that is seen after it, and happened before it, is over when it is seen.
    """
    pending, keys = context.pending, matched.keys
    state = pending.state_of(keys.fingerprint)
    if isinstance(state, AlertInstance) and state.is_open:
        return event.type not in BAD_ENDS or state.root_run == event.run.key
    is_success = event.run.status is Status.SUCCEEDED
    keeps_ends = matched.rule.definition.keeps_ends
    return keeps_ends and is_success and pending.get(MEMORY, keys.memory) is not None


def _is_unidentified(context: EvaluationContext, unknown: MatchedRule, event: RunEvent) -> bool:
    """True where an open alert without a pipeline is about the failure of this run."""
    state, run = context.pending.state_of(unknown.keys.fingerprint), event.run
    failures = run_event_ids(run.key, (EventType.RUN_FAILED,), corrections=run.corrections)
    if not isinstance(state, AlertInstance) or not state.is_open:
        return False
    return not set(failures).isdisjoint(state.alert.evidence)


def _input(event: RunEvent, root_run: RunKey, state: RunState | None) -> EventInput:
    succeeded = state is not None and state.status is Status.SUCCEEDED
    return EventInput(event=event, root_run=root_run, root_succeeded=succeeded)


def _targets(
    context: EvaluationContext,
    rules: Iterable[MatchedRule],
    attribution: Attribution,
    event_input: EventInput,
) -> Iterator[RuleTarget]:
    for matched in rules:
        if _can_react(context, matched):
            yield RuleTarget(
                rule=matched.rule,
                subject=matched.subject,
                keys=matched.keys,
                event_input=event_input,
                attribution=attribution,
            )


def _learn(context: EvaluationContext, event: RunEvent, own: Subject) -> None:
    """Add a success to the baseline of its pipeline."""
    if own.pipeline is None:
        return
    key = key_of(own)
    before = context.pending.decoded(LEARNED, key, Learned)
    after = learn(before, event)
    if after is not before:
        context.pending.put(LEARNED, key, after)
