"""Decides from one lookup which events of runs change nothing but the newest successes.

Most events are of pipelines that have no alert and whose runs succeed. Such a *healthy subject* is
the pipeline of a run that is inside no other run, of which no matching rule has an alert, or a
memory of anything but successes. Its events are not routed: a run that waits or starts changes
nothing, a success joins the successes that the rules keep. That waits in memory, and one row for
each rule becomes durable with the next step, together with the position behind the events. After a
crash the events are read again. Whatever is not surely harmless is routed as ever.

What an entry holds is as if it were committed; a step that fails clears all of it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime, timedelta

from monitor.alerting.alerts.firing_runs import FiringRuns
from monitor.alerting.alerts.outcome import StepWord
from monitor.alerting.alerts.pending_step import ALERT, LEARNED, MEMORY, PendingStep, Tables
from monitor.alerting.attribution.attribution import Attribution
from monitor.alerting.attribution.lineage import has_parents
from monitor.alerting.attribution.subjects import keys_of, traits_of
from monitor.alerting.engine.context import Complete
from monitor.alerting.engine.evaluation import Evaluator
from monitor.alerting.engine.healthy_subject import (
    HARMLESS,
    SUCCESSES,
    AskedRule,
    HealthySubject,
    is_plain,
)
from monitor.alerting.engine.history import EvaluationHistory, Words
from monitor.alerting.engine.learned_rows import with_learned
from monitor.alerting.engine.rule_set import RuleSet
from monitor.alerting.engine.timeline import Timeline
from monitor.alerting.rules.compiled import Compiled, Rule, Traits
from monitor.alerting.rules.contract import EventInput, Subject, SubjectKind
from monitor.model.events import EventType, RunEvent
from monitor.model.runs import Pipeline, RunKey, RunKind
from monitor.model.slices import in_slices
from monitor.tracking.live_state import LiveStateView

BOUND = 20_000  # subjects; the others are routed as ever
_NOT_WRITTEN = b""
_DECIDED_AT_ONCE, _STORED_AT_ONCE, _FOUND_AT_ONCE, _ROWS_AT_ONCE = 50, 40, 10, 500
# A later success allows a limit that is learned to shrink. No such limit is below an hour.
_EVALUATED_WITHIN = timedelta(seconds=60)

_SubjectId = tuple[str, RunKind, str]  # workspace, kind of run, id of the pipeline


class HealthySubjects:
    """The healthy subjects, and what their newest successes change in the next step."""

    def __init__(
        self,
        rules: RuleSet,
        *,
        view: LiveStateView,
        firing: FiringRuns,
        timeline: Timeline,
        evaluator: Evaluator,
        history: EvaluationHistory,
        bound: int,
    ) -> None:
        self._rules = rules
        self._view = view
        self._firing = firing
        self._timeline = timeline
        self._evaluator = evaluator
        self._history = history
        self._bound = bound
        self._by_run = any(
            not rule.globs.keys().isdisjoint(("folder", "owner", "trigger"))
            for rule in rules.compiled.rules
        )
        self._subjects: dict[_SubjectId, HealthySubject] = {}
        self._by_row: dict[str, _SubjectId] = {}
        # By the rules that match; few combinations of them do.
        self._words: dict[tuple[Rule, ...], Mapping[EventType, Words]] = {}
        self._changed: dict[_SubjectId, HealthySubject] = {}
        self._written: dict[str, bytes | None] = {}

    def clear(self) -> None:
        """Forget all: the tables were loaded anew, and the position with them."""
        self._subjects.clear()
        self._by_row.clear()
        self._changed.clear()
        self._written.clear()

    async def without_harmless(
        self, events: Sequence[RunEvent], tables: Tables, *, wall_now: datetime
    ) -> list[RunEvent]:
        """Handle what changes nothing but newest successes; return the others, in their order.

        Behind an event that is returned, none about the same subject is handled.
        """
        if not self._subjects or self._evaluator.is_failing:
            return list(events)
        others: list[RunEvent] = []
        routed: set[_SubjectId] = set()
        async for event in in_slices(events, size=_DECIDED_AT_ONCE):
            key, pipeline = event.run.key, event.run.pipeline
            subject_id = (key.workspace, key.kind, "" if pipeline is None else pipeline.id)
            subject = self._subjects.get(subject_id)
            if subject is not None and subject_id not in routed:
                is_plan_free = key.kind is not RunKind.PLAN_RUN or _any_plan(key) not in routed
                if is_plan_free and self._is_harmless(subject, event, tables):
                    words, fingerprints = subject.words[event.type], subject.fingerprints
                    self._history.add_harmless(event.id, words, fingerprints, at=wall_now)
                    continue
            others.append(event)
            # What contains its run may be known only once it is attributed.
            flow_run = (key.workspace, RunKind.FLOW_RUN, subject_id[2])
            routed.update((subject_id, flow_run, _any_plan(key)))
        return others

    def _is_harmless(self, subject: HealthySubject, event: RunEvent, tables: Tables) -> bool:
        """Handle an event that changes no more than successes; False where it may change more."""
        run, key, memories = event.run, event.run.key, tables[MEMORY]
        if (
            not is_plain(event)
            or run.pipeline != subject.pipeline
            or not tables[ALERT].keys().isdisjoint(subject.fingerprints)
            or self._view.workspace(key.workspace) is None
            or self._firing.may_concern(key, subject.pipeline.id)
            or (self._by_run and subject.traits != traits_of(self._view, subject.own, run))
        ):
            return False
        has_memory = not memories.keys().isdisjoint(subject.memories)
        if has_memory and not self._is_unmoved(subject, event, memories):
            return False
        # Whoever knows the secret must not hide a failure: only the workspace reports successes.
        if event.type in SUCCESSES and run.unconfirmed_end is None:
            subject.add_success(event)
            if event.type is not EventType.RUN_DETAILED:
                subject.successes.append(event)
            self._changed[key.workspace, key.kind, subject.pipeline.id] = subject
        return True

    def _is_unmoved(
        self, subject: HealthySubject, event: RunEvent, memories: Mapping[str, bytes]
    ) -> bool:
        """True where the rules that remember something answer that nothing changed."""
        if not memories.keys().isdisjoint(subject.watched):
            return False
        event_input = EventInput(event=event, root_run=event.run.key)
        for asked in subject.asked:
            stored = memories.get(asked.key)
            if stored is None or event.type not in asked.rule.definition.event_types:
                continue
            memory = asked.memory(stored)
            answer = self._evaluator.ask(asked.rule, event_input, memory)
            if answer is None or answer.result is not None or answer.memory is not memory:
                return False
            if asked.rule.definition.subject_kind is SubjectKind.PIPELINE:
                # What it remembers of active runs is over once the next cycle does not see them.
                self._timeline.touched[subject.own] = None
        return True

    async def store(self, pending: PendingStep, complete: Complete) -> None:
        """Put what newest successes have changed into a step that will be committed."""
        changed, self._changed = self._changed, {}
        async for subject in in_slices(changed.values(), size=_STORED_AT_ONCE):
            for kept in subject.kept:
                if kept.is_changed:
                    kept.is_changed = False
                    for key, rule in kept.rows:
                        self._written[key] = row = kept.row(rule)
                        pending.put(MEMORY, key, row)
            if subject.successes:
                learned = with_learned(pending.get(LEARNED, subject.learned_key), subject.successes)
                pending.put(LEARNED, subject.learned_key, learned)
                subject.successes.clear()
                self._timeline.evaluate_within(
                    subject.pipeline_subject, _EVALUATED_WITHIN, complete
                )

    async def committed(self, pending: PendingStep) -> None:
        """Forget the subjects whose successes somebody else has changed."""
        async for key, row in in_slices(pending.changed[MEMORY].items(), size=_ROWS_AT_ONCE):
            subject_id = self._by_row.get(key)
            if subject_id is not None and self._written.get(key, _NOT_WRITTEN) is not row:
                self._forget(subject_id)
        self._written.clear()

    async def find(self, attributions: Iterable[Attribution], tables: Tables) -> None:
        """Find healthy subjects among those of events that were routed and are committed."""
        async for attribution in in_slices(attributions, size=_FOUND_AT_ONCE):
            event, pipeline = attribution.event, attribution.event.run.pipeline
            if event.type not in SUCCESSES or has_parents(event.run):
                continue
            if pipeline is None or pipeline.name is None or event.run.historical:
                continue
            subject_id = (event.run.key.workspace, event.run.key.kind, pipeline.id)
            if subject_id in self._subjects:
                if self._subjects[subject_id].pipeline == pipeline and not self._by_run:
                    continue
                self._forget(subject_id)
            if len(self._subjects) >= self._bound:
                continue
            subject = self._healthy(attribution, pipeline, tables)
            if subject is not None:
                self._subjects[subject_id] = subject
                for kept in subject.kept:
                    self._by_row.update((key, subject_id) for key, _ in kept.rows)

    def _healthy(
        self, attribution: Attribution, pipeline: Pipeline, tables: Tables
    ) -> HealthySubject | None:
        """Return the subject where its rules have no alert, and remember successes alone."""
        subject = HealthySubject(attribution, pipeline)
        fingerprints: set[str] = set()
        watched: set[str] = set()
        rules = self._rules_about(subject)
        for rule, about in rules.items():
            keys = keys_of(rule.name, about)
            fingerprints.add(keys.fingerprint)
            if HARMLESS.isdisjoint(rule.definition.event_types):
                watched.add(keys.memory)
            elif rule.definition.kept_ends is not None:
                if not subject.keep(rule, keys.memory, tables[MEMORY].get(keys.memory)):
                    return None
            elif rule.definition.needs_memory:
                subject.asked.append(AskedRule(rule, keys.memory))
            else:
                return None
        subject.words = self._words_of(tuple(rules))
        subject.fingerprints, subject.watched = frozenset(fingerprints), frozenset(watched)
        subject.memories = subject.watched.union(asked.key for asked in subject.asked)
        is_without_alerts = tables[ALERT].keys().isdisjoint(fingerprints)
        return subject if is_without_alerts else None

    def _rules_about(self, subject: HealthySubject) -> dict[Rule, Subject]:
        """Return the rules that match the pipeline, by its runs and as such."""
        rules, of_pipeline = self._rules, traits_of(self._view, subject.pipeline_subject)
        of_runs: tuple[tuple[Compiled, Traits, Subject], ...] = (
            (rules.of_root_runs, subject.traits, subject.own),
            (rules.of_own_runs, subject.traits, subject.own),
            (rules.of_pipelines, of_pipeline, subject.pipeline_subject),
        )
        found = {
            rule: about
            for compiled, traits, about in of_runs
            for event_type in HARMLESS
            for rule in compiled.rules_for_event(event_type, traits)
        }
        for about in (subject.own, subject.pipeline_subject):
            traits = traits_of(self._view, about)
            for rule in rules.compiled.rules_for_state(about.subject_kind, traits):
                found[rule] = about
        return found

    def _words_of(self, rules: tuple[Rule, ...]) -> Mapping[EventType, Words]:
        """Return what these rules make of harmless events, as the history shows it."""
        if rules not in self._words:
            self._words[rules] = {
                event_type: {
                    rule.name: StepWord.OK
                    if rule.definition.kept_ends and event_type is EventType.RUN_SUCCEEDED
                    else StepWord.NO_RESULT
                    for rule in rules
                    if event_type in rule.definition.event_types
                }
                for event_type in HARMLESS
            }
        return self._words[rules]

    def _forget(self, subject_id: _SubjectId) -> None:
        subject = self._subjects.pop(subject_id, None)
        for kept in subject.kept if subject is not None else ():
            for key, _ in kept.rows:
                self._by_row.pop(key, None)


def _any_plan(key: RunKey) -> _SubjectId:
    return key.workspace, RunKind.PLAN_RUN, ""
