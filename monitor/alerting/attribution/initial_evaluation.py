"""What had failed last when a rule is judged for the first time: told once, as it was there.

Runs that ended before a workspace was followed make no events, and what ended before a rule was
there was never heard by it. So once for each rule, workspace and kind of run, the failures that
nothing has followed yet are taken from the store and heard as if they were told now.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping
from datetime import datetime, timedelta
from typing import Protocol

from msgspec import Struct

from monitor.alerting.alerts.pending_step import (
    ALERT,
    FIRST,
    MEMORY,
    POSTPONED,
    Draft,
    FirstEvaluated,
)
from monitor.alerting.attribution.parent_correlation import SIZES, are_likely_related, is_of_a_plan
from monitor.alerting.attribution.subjects import NEEDS, Lineage, RootRun, of_run, traits_of
from monitor.alerting.engine.evaluation import (
    EvaluationContext,
    Evaluator,
    RuleTarget,
    first_key,
    memory_key,
)
from monitor.alerting.engine.present import Present
from monitor.alerting.rules.compiled import Rule
from monitor.alerting.store import Store
from monitor.model.clock import Clock
from monitor.model.events import EventType, RunEvent, run_event_id
from monitor.model.live_state import PipelineHealth
from monitor.model.runs import RunKey, RunKind, RunState, Status
from monitor.tracking.live_state import LiveStateView

# What a run is a part of shows only once its own kind is known, which may never come to be.
_WAIT = timedelta(seconds=60)
_IN_ONE_GO = 20  # runs, without letting others have a turn

BAD = Status.FAILED

Place = tuple[str, RunKind]
ByPlace = Mapping[Place, tuple[Rule, ...]]


class PastFailures(Protocol):
    """Hears what had failed before."""

    def begin_anew(self) -> None:
        """Ask again which rules have not been judged yet, as after a start."""

    async def judge(self, context: EvaluationContext, evaluator: Evaluator) -> None:
        """Let rules that have not been judged yet hear what had failed last."""


class NoPastFailures:
    """For a past that is let go by again from its beginning: nothing came before it."""

    def begin_anew(self) -> None:
        pass

    async def judge(self, context: EvaluationContext, evaluator: Evaluator) -> None:
        pass


class InitialEvaluation:
    """Goes through what had failed last. Afterwards it costs a look into a set for each round."""

    def __init__(self, *, bus: Store, subjects: Lineage, view: LiveStateView, clock: Clock) -> None:
        self._bus = bus
        self._subjects = subjects
        self._view = view
        self._clock = clock
        self._waits_since: dict[str, datetime] = {}  # ours, by workspace
        self._judged: set[Place] = set()

    def begin_anew(self) -> None:
        self._judged.clear()

    async def judge(self, context: EvaluationContext, evaluator: Evaluator) -> None:
        """Hear them in the order of their ends, so that the first begins the alert.

        Raises:
            BusUnavailableError: the store does not answer.
        """
        rules = self._not_judged(context, evaluator)
        if not rules:
            return
        pipeline_health = [*self._view.pipeline_health()]
        keys = {
            RunKey(health.workspace, health.run_kind, health.last_run_id)
            for health in pipeline_health
            if health.last_status is BAD
            and health.last_run_id is not None
            and (health.workspace, health.run_kind) in rules
        }
        told = _told_before(context.pending, rules)
        asked = keys | told.keys()
        stored = await self._bus.runs(asked) if asked else {}
        await self._subjects.prepare(stored.values())
        failed = [stored[key] for key in keys & stored.keys() if stored[key].status is BAD]
        root = _Parents(self._subjects, failed, pipeline_health)
        around = {
            (name, root.of(stored[key]).key)
            for key in told.keys() & stored.keys()
            for name in told[key]
        }
        rules_for_event = _Hearing(context, evaluator, view=self._view, around=around)
        for number, run in enumerate(sorted(failed, key=_order), 1):
            outer = root.of(run)
            for case, root_run in rules_for_event.cases(
                run, outer, rules[run.key.workspace, run.key.kind]
            ):
                if root_run == run.key or not root.is_over(run, outer):
                    rules_for_event.on_event(case, root_run)
            if number % _IN_ONE_GO == 0:
                await self._clock.sleep(0)
        for (workspace, kind), some in rules.items():
            at = FirstEvaluated(at=context.present.complete[workspace, kind])
            for rule in some:
                context.pending.put(FIRST, first_key(rule, workspace, kind), at)

    def _not_judged(self, context: EvaluationContext, evaluator: Evaluator) -> ByPlace:
        """Return the rules to be judged now for the first time, by workspace and kind of run."""
        found: dict[Place, tuple[Rule, ...]] = {}
        for place in context.present.complete.keys() - self._judged:
            if not self._is_time(place[0], context.present):
                continue
            self._judged.add(place)
            rules = tuple(
                rule
                for rule in evaluator.compiled.rules
                if rule.definition.considers_past
                and context.pending.get(FIRST, first_key(rule, *place)) is None
            )
            if rules:
                found[place] = rules
        return found

    def _is_time(self, workspace: str, present: Present) -> bool:
        """True where every kind of run that can be followed is known, or one takes too long."""
        health = self._view.workspace(workspace)
        rights = frozenset() if health is None else health.capabilities
        kinds = [RunKind.JOB_GROUP, *(kind for kind, need in NEEDS.items() if need in rights)]
        if all((workspace, kind) in present.complete for kind in kinds):
            return True
        since = self._waits_since.setdefault(workspace, present.now)
        return present.now - since >= _WAIT


class _Parents:
    """What failed runs were a part of, and whether that has gone well since."""

    def __init__(
        self,
        subjects: Lineage,
        failed: Iterable[RunState],
        pipeline_health: Iterable[PipelineHealth],
    ) -> None:
        self._subjects = subjects
        self._plan_runs = [run for run in failed if run.key.kind is RunKind.PLAN_RUN]
        self._successes: dict[tuple[str, RunKind, str], datetime] = {}
        for health in pipeline_health:
            if health.last_success_at is not None:
                place = health.workspace, health.run_kind, health.pipeline.id
                newest = self._successes.get(place, health.last_success_at)
                self._successes[place] = max(newest, health.last_success_at)

    def of(self, run: RunState) -> RootRun:
        """Return the outermost run; of one that a plan started, the failed one that fits."""
        root = self._subjects.root_run(run)
        if root.key.kind is RunKind.PLAN_RUN or not is_of_a_plan(run):
            return root
        for plan_run in self._plan_runs:
            is_near = plan_run.key.workspace == run.key.workspace
            if is_near and are_likely_related(run, plan_run):
                return RootRun(key=plan_run.key, pipeline=plan_run.pipeline, run=plan_run)
        return root

    def is_over(self, run: RunState, root: RootRun) -> bool:
        """True where the pipeline of what it was a part of has succeeded since."""
        if root.pipeline is None:
            return False
        place = root.key.workspace, root.key.kind, root.pipeline.id
        success_at = self._successes.get(place)
        return success_at is not None and success_at >= _ended_at(run)


class _Heard(Struct, frozen=True):
    """What rules have heard already: ids of events by the name of the rule."""

    ids: frozenset[tuple[str, str]]

    @classmethod
    def of(cls, pending: Draft) -> _Heard:
        waiting = [(row.rule, row.event_id) for _, row in pending.rows(POSTPONED)]
        evidence = [
            (instance.alert.name, event_id)
            for _, instance in pending.rows(ALERT)
            for event_id in instance.alert.evidence
        ]
        return cls(frozenset((*waiting, *evidence)))


class _Hearing:
    """Lets rules hear of a run that has failed before, each under the subject it is about."""

    def __init__(
        self,
        context: EvaluationContext,
        evaluator: Evaluator,
        *,
        view: LiveStateView,
        around: Collection[tuple[str, RunKey]],
    ) -> None:
        """``around`` are runs of which a part was told before they were known, by rule."""
        self._around = around
        self._context = context
        self._evaluator = evaluator
        self._view = view
        self._heard = _Heard.of(context.pending)

    def cases(
        self, run: RunState, root: RootRun, rules: tuple[Rule, ...]
    ) -> Iterator[tuple[RuleTarget, RunKey]]:
        """Yield the rules that the run concerns, with the run that it is a part of for them."""
        own = RootRun(key=run.key, pipeline=run.pipeline, run=run)
        event = _event(run)
        for rule in rules:
            judged = own if rule.names_kind else root
            subject = of_run(judged.key, judged.pipeline)
            if rule.matches(traits_of(self._view, subject, judged.run or run)):
                yield (
                    RuleTarget(rule=rule, subject=subject, event=event, preexisting=True),
                    judged.key,
                )

    def on_event(self, case: RuleTarget, root_run: RunKey) -> None:
        """Let the rule hear of it, if it has not heard of it as an event."""
        event = case.event
        if event is None or (case.rule.name, event.run.key) in self._around:
            return
        if not event.run.historical and self._is_heard(case, event):
            return
        self._evaluator.on_event(self._context, case, root_run)

    def _is_heard(self, case: RuleTarget, event: RunEvent) -> bool:
        if (case.rule.name, event.id) in self._heard.ids:
            return True
        return self._context.pending.get(MEMORY, memory_key(case)) is not None


def _told_before(pending: Draft, rules: ByPlace) -> dict[RunKey, list[str]]:
    """Return the runs that rules have told of by a first look at their own kind, before this one.

    What they are a part of may be known only now, and is not told beside them.
    """
    names = {
        (workspace, rule.name)
        for (workspace, _), some in rules.items()
        for rule in some
        if not rule.names_kind
    }
    told: defaultdict[RunKey, list[str]] = defaultdict(list)
    for _, instance in pending.rows(ALERT):
        alert, run = instance.alert, instance.about_run
        if run is None or (run.workspace, run.kind) in rules or not instance.is_open:
            continue
        if alert.preexisting and (run.workspace, alert.name) in names:
            told[run].append(alert.name)
    return told


def _event(run: RunState) -> RunEvent:
    """Return the event that the failure would have made, all of it as the store has it."""
    return RunEvent(
        id=run_event_id(run.key, EventType.RUN_FAILED),
        type=EventType.RUN_FAILED,
        run=run,
        before=None,
        occurred_at=run.finished_at,
        recorded_at=run.confirmed_at,
        observed_by=run.ended_by or run.confirmed_by,
    )


def _ended_at(run: RunState) -> datetime:
    return run.finished_at or run.confirmed_at


def _order(run: RunState) -> tuple[datetime, int, RunKey]:
    # Of what ended in the same second what is inside comes first: it is what knows the error.
    return _ended_at(run), SIZES[run.key.kind], run.key
