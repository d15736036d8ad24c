"""One lookup by pipeline and type of event: the rules that can react to it, and their rows."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import chain
from typing import Any

from msgspec import Struct

from monitor.alerting.attribution.subjects import RuleKeys, keys_of, of_pipeline, traits_of
from monitor.alerting.engine.rule_set import RuleSet
from monitor.alerting.rules.compiled import Rule
from monitor.alerting.rules.contract import Subject
from monitor.model.events import EventType
from monitor.model.runs import RunState
from monitor.tracking.live_state import LiveStateView

# With about a kilobyte each: five types of events of 4,000 pipelines.
_KEPT = 20_000


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
        self._kept = kept
        self._found: dict[tuple[Any, ...], EventRules] = {}

    def find(self, event_type: EventType, subject: Subject, run: RunState) -> EventRules:
        """Return the rules for an event of a run of the subject, or of what is inside it."""
        # All that `traits_of` depends on.
        place, label = None, None
        if (pipeline := subject.pipeline) is not None:
            place = self._view.place(subject.workspace, pipeline)
            label = pipeline.name or self._view.label(subject.workspace, pipeline)
        key = (event_type, subject, run.owner, run.trigger, place, label)
        found = self._found.pop(key, None) or self._find(event_type, subject, run)
        self._found[key] = found
        if len(self._found) > self._kept:
            del self._found[next(iter(self._found))]
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
