"""One evaluation cycle: route, evaluate and advance what may be due by the state of everything."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime

from monitor.alerting.alerting_store import Store
from monitor.alerting.alerts.instance import AlertInstance
from monitor.alerting.alerts.pending_step import ALERT, FIRST, MEMORY, FirstEvaluated
from monitor.alerting.attribution.attribution import Lineage, RuleTarget
from monitor.alerting.attribution.initial_evaluation import InitialEvaluation
from monitor.alerting.attribution.subjects import first_key, key_of, keys_of, subject_of, traits_of
from monitor.alerting.engine.advancement import Advancer, end
from monitor.alerting.engine.evaluation import Answer, Evaluator
from monitor.alerting.engine.evaluation_context import EvaluationContext, domain_of
from monitor.alerting.engine.past_successes import PastSuccesses
from monitor.alerting.engine.removal import end_removed, ended_unidentified
from monitor.alerting.engine.rule_set import RuleSet
from monitor.alerting.engine.suppression import Inhibitors
from monitor.alerting.engine.timeline import VITAL_KINDS, Timeline
from monitor.alerting.rules.contract import RuleAnswer, Subject, SubjectKind
from monitor.alerting.rules.table import RULE_DEFINITIONS
from monitor.model.slices import in_slices
from monitor.tracking.live_state import LiveStateView

# Subjects or alerts: after a start all of them, with 10,000 pipelines 20,000 at 0.1 ms each.
_AT_ONCE = 10  # of thousands of failures, subjects and alerts
_VITAL_RULES = frozenset(
    kind for kind, definition in RULE_DEFINITIONS.items() if definition.subject_kind in VITAL_KINDS
)
_OF_RUNS = frozenset({SubjectKind.PIPELINE, SubjectKind.FLOW_OR_PLAN})


class EvaluationCycle:
    """Evaluates what is due. Rules whose alerts inhibit others come first."""

    def __init__(
        self, *, bus: Store, view: LiveStateView, lineage: Lineage, timeline: Timeline
    ) -> None:
        self._bus = bus
        self._view = view
        self._lineage = lineage
        self._timeline = timeline
        self._initial = InitialEvaluation(bus=bus, lineage=lineage, view=view)
        self._past = PastSuccesses(bus=bus, view=view, timeline=timeline)

    def reset(
        self,
        rules: RuleSet,
        *,
        inhibitors: Inhibitors,
        evaluator: Evaluator,
        advancer: Advancer,
    ) -> None:
        """Evaluate by these rules from now on, everything in the next cycle."""
        self._rules = rules
        self._inhibitors = inhibitors
        self._advancer = advancer
        self._evaluator = evaluator
        self.restart()

    def restart(self) -> None:
        """Evaluate everything in the next cycle, as after a start."""
        self._initial.reset()
        self._past.reset()
        self._timeline.reset(self._rules)

    async def run(self, context: EvaluationContext) -> None:
        """Evaluate all that is due. After a cancelled call `restart` is due.

        Raises:
            BusUnavailableError: the store does not answer; `restart` is due.
        """
        await self._lineage.prepare(active.run for active in self._view.active_runs())
        await context.gather_runs()
        await self._correlate(context)
        if self._timeline.checks_removed():
            await end_removed(context, self._rules, self._view)
        if self._timeline.considers_past:
            await self._evaluate_past(context)
            await self._past.learn(context)
        vital = _vital_subjects(context, self._rules)
        await self._evaluate(context, vital, is_inhibiting=True)
        await self._pass_time(context, is_inhibiting=True)
        context.renew_suppression()
        subjects = [*vital, *await self._timeline.subjects(context)]
        if any(subject.subject_kind is SubjectKind.FLOW_OR_PLAN for subject in subjects):
            await context.gather_health()
        evaluated = await self._evaluate(context, subjects, is_inhibiting=False)
        await self._pass_time(context, is_inhibiting=False)
        _store_first(context, self._rules, evaluated)

    async def _correlate(self, context: EvaluationContext) -> None:
        """Handle what became known late: links and pipelines of failed runs."""
        pending = context.pending
        linked = await self._inhibitors.resolve_links(pending, self._rules.by_name, context.now)
        for key, waiting, outcome in linked:
            self._advancer.apply_link(context, key, waiting, outcome)
        unidentified = context.firing.unidentified(pending)
        ended = await ended_unidentified(
            unidentified, self._rules.by_name, view=self._view, bus=self._bus
        )
        for key, reason in ended.items():
            instance = pending.state_of(key)
            if isinstance(instance, AlertInstance):
                rule = self._rules.by_name[instance.alert.name]
                end(context, self._view, key, instance, reason)
                subject = subject_of(rule, instance.alert)
                pending.put(MEMORY, keys_of(rule.name, subject).memory, None)

    async def _evaluate_past(self, context: EvaluationContext) -> None:
        """Let rules that are evaluated for the first time handle earlier failures."""
        pending = context.pending
        failures = await self._initial.load(
            pending, self._rules.compiled.rules, complete=context.complete, now=context.now
        )
        if failures is None:
            return
        async for run in in_slices(failures.runs, size=_AT_ONCE):
            for target in failures.targets(pending, run):
                self._process(context, target)
        failures.store_first(pending)

    async def _evaluate(
        self, context: EvaluationContext, subjects: Iterable[Subject], *, is_inhibiting: bool
    ) -> set[tuple[SubjectKind, str]]:
        """Return the kinds of the subjects, each with its workspace."""
        kinds: set[tuple[SubjectKind, str]] = set()
        async for subject in in_slices(subjects, size=_AT_ONCE):
            kinds.add((subject.subject_kind, subject.workspace))
            again_at: datetime | None = None
            changes = context.pending.changes
            traits = traits_of(self._view, subject)
            for rule in self._rules.compiled.rules_for_state(subject.subject_kind, traits):
                if bool(rule.definition.inhibits) is not is_inhibiting:
                    continue
                keys = keys_of(rule.name, subject)
                answer = self._process(context, RuleTarget(rule=rule, subject=subject, keys=keys))
                if isinstance(answer, RuleAnswer) and answer.again_at is not None:
                    again_at = min(again_at or answer.again_at, answer.again_at)
            if not is_inhibiting:
                is_changed = context.pending.changes != changes
                self._timeline.evaluated(context, subject, again_at, is_changed=is_changed)
        return kinds

    def _process(self, context: EvaluationContext, target: RuleTarget) -> Answer:
        answer = self._evaluator.evaluate(context, target)
        self._advancer.advance(context, target, answer)
        return answer

    async def _pass_time(self, context: EvaluationContext, *, is_inhibiting: bool) -> None:
        # In an order that does not depend on what this process has lived through.
        alerts = sorted(await self._timeline.alerts(context))
        async for key in in_slices(alerts, size=_AT_ONCE):
            instance: AlertInstance | None = context.pending.get(ALERT, key)
            if instance is None:
                continue
            rule = self._rules.by_name.get(instance.alert.name)
            if rule is not None and bool(rule.definition.inhibits) is is_inhibiting:
                self._advancer.pass_time(context, key, instance, rule)


def _vital_subjects(context: EvaluationContext, rules: RuleSet) -> list[Subject]:
    """Return what may inhibit all else, also what is gone but still has an alert."""
    vital = {key_of(subject): subject for subject in context.vital_subjects()}
    for _, instance in context.firing.of_rules(context.pending, _VITAL_RULES):
        rule = rules.by_name.get(instance.alert.name)
        if rule is not None:
            subject = subject_of(rule, instance.alert)
            vital.setdefault(key_of(subject), subject)
    return list(vital.values())


def _store_first(
    context: EvaluationContext, rules: RuleSet, evaluated: Iterable[tuple[SubjectKind, str]]
) -> None:
    """Store what rules have evaluated now, so that later failures are not preexisting."""
    for rule in rules.compiled.rules:
        if rule.definition.evaluate is None:
            continue
        subject_kind = rule.definition.subject_kind
        if subject_kind in _OF_RUNS:
            for (workspace, kind), at in context.complete.items():
                _put_first(context, first_key(rule.name, workspace, kind), at)
            continue
        for workspace in {name for kind, name in evaluated if kind is subject_kind}:
            subject = Subject(subject_kind=subject_kind, workspace=workspace)
            as_of = context.as_of(subject)
            if as_of is not None:
                _put_first(context, first_key(rule.name, workspace, domain_of(subject)), as_of)


def _put_first(context: EvaluationContext, key: str, at: datetime) -> None:
    if context.pending.get(FIRST, key) is None:
        context.pending.put(FIRST, key, FirstEvaluated(at=at))
