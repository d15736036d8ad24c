"""A look at the present: which subjects, by which rules, and in which order."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from datetime import UTC, datetime
from operator import itemgetter

from msgspec import Struct

from monitor.alerting.alerts.labels import subject_of
from monitor.alerting.alerts.lifecycle import AlertInstance
from monitor.alerting.alerts.pending_step import ALERT, FIRST, Draft, FirstEvaluated
from monitor.alerting.alerts.timers import AlertTimers, NextTimers
from monitor.alerting.attribution.initial_evaluation import PastFailures
from monitor.alerting.attribution.subjects import (
    key_of,
    of_pipeline,
    of_run,
    of_schedule,
    traits_of,
)
from monitor.alerting.engine.evaluation import EvaluationContext, Evaluator, RuleTarget, first_key
from monitor.alerting.engine.present import KINDS, ActiveRunsOfSubject
from monitor.alerting.engine.rule_removal import retire
from monitor.alerting.engine.subject_timers import Domain, SubjectTimers
from monitor.alerting.rules.contract import Subject, SubjectKind
from monitor.model.clock import Clock
from monitor.model.inventory import OutputQuality
from monitor.model.live_state import ScheduleKnown, WorkspaceStatus
from monitor.model.runs import Pipeline, PipelineKind, RunKey
from monitor.tracking.live_state import LiveStateView

_IN_ONE_GO = 20  # subjects, without letting others have a turn
_SLOW_ROUNDS = 30  # between two looks at what changes slowly, though nothing has been read
_EVERY_ROUND = frozenset({SubjectKind.DAEMON, SubjectKind.WORKSPACE})
_OF_RUNS = frozenset({SubjectKind.PIPELINE, SubjectKind.FLOW_OR_PLAN})


class SlowReadings(Struct, frozen=True):
    """What the slow readings of a workspace had brought when a round looked at it."""

    schedules: tuple[ScheduleKnown, ...] = ()
    schedules_read_at: datetime | None = None
    outputs: tuple[OutputQuality, ...] = ()
    tokens: frozenset[str] = frozenset()


class EvaluationCycle:
    """Looks at what may have changed, and at all there is where nothing was looked at before."""

    def __init__(
        self,
        *,
        view: LiveStateView,
        clock: Clock,
        considers_past: PastFailures,
        by_events: bool = False,
    ) -> None:
        """``by_events``: nothing but events and new definitions ever changes what is known.

        Then whatever they do not touch is looked at only when its time has come.
        """
        self._view = view
        self._clock = clock
        self._looks_back = considers_past
        self._by_events = by_events
        self._touched: dict[str, Subject] = {}
        self.begin_anew()

    def begin_anew(self) -> None:
        """Look at everything with the next round, as after a start and with other rules."""
        self._looks_back.begin_anew()
        self._agenda = SubjectTimers()
        self._sleeping = AlertTimers()
        self._seen: set[Domain] = set()
        self._pipelines: set[tuple[str, PipelineKind, str]] = set()
        self._read: dict[str, SlowReadings] = {}
        self._running: dict[str, ActiveRunsOfSubject] = {}  # as they were at their last look
        self._number = 0
        self._is_new = True

    def touch(self, subject: Subject) -> None:
        """Look at the subject with the next round, because something was heard of it."""
        self._touched[key_of(subject)] = subject

    async def evaluate(self, context: EvaluationContext, evaluator: Evaluator) -> None:
        """Judge all that is to be judged now. What explains others comes first."""
        if self._is_new or self._number % _SLOW_ROUNDS == 0:
            retire(context, evaluator, self._view)
        await self._looks_back.judge(context, evaluator)
        vital = list(_vital(context, evaluator))
        for subject in vital:
            self._evaluate(context, evaluator, subject, explainer=True)
        await self._pass_time(context, evaluator, explainer=True)
        context.suppress()
        due = self._due(context, evaluator)
        for number, subject in enumerate([*vital, *due], 1):
            self._evaluate(context, evaluator, subject, explainer=False)
            if number % _IN_ONE_GO == 0:
                await self._clock.sleep(0)  # thousands must not hold up a callback
        await self._pass_time(context, evaluator, explainer=False)
        _note_firsts(context, evaluator, [*vital, *due])

    def changed(self, pending: Draft, evaluator: Evaluator) -> None:
        """Take note of what a step changed, once it is durable."""
        if self._by_events:
            self._sleeping.take(pending.changes(ALERT), evaluator.rules, evaluator.limits)

    def next_timers(self) -> NextTimers:
        """Return when a look is worth it though nothing is heard. Asked of ``by_events`` only."""
        if self._is_new or self._touched:
            return NextTimers(ours=datetime.min.replace(tzinfo=UTC))
        ours, theirs = [self._sleeping.next_at()], list[datetime | None]()
        for domain in self._agenda.domains():
            (theirs if domain[1] else ours).append(self._agenda.next_at(domain))
        return NextTimers(
            ours=min((at for at in ours if at is not None), default=None),
            theirs=min((at for at in theirs if at is not None), default=None),
        )

    def has_looked(self) -> None:
        """Forget what was to be looked at; to be called once the look is durable."""
        self._touched.clear()
        self._is_new = False
        self._number += 1

    async def _pass_time(
        self, context: EvaluationContext, evaluator: Evaluator, *, explainer: bool
    ) -> None:
        # In an order that does not depend on what this process has lived through.
        instances = sorted(self._stirring(context, evaluator), key=itemgetter(0))
        for number, (key, instance) in enumerate(instances, 1):
            rule = evaluator.rules.get(instance.alert.name)
            if rule is not None and bool(rule.definition.inhibits) is explainer:
                evaluator.pass_time(context, key, instance, rule)
                if number % _IN_ONE_GO == 0:
                    await self._clock.sleep(0)

    def _stirring(
        self, context: EvaluationContext, evaluator: Evaluator
    ) -> Iterable[tuple[str, AlertInstance]]:
        """Return the episodes that time may make something of."""
        pending = context.pending
        if not self._by_events or not context.suppression.is_idle:
            return pending.rows(ALERT)
        if self._is_new:
            self._sleeping.take(pending.rows(ALERT), evaluator.rules, evaluator.limits)
        keys = self._sleeping.awake(context.present.now)
        keys |= {key for key, _ in pending.changes(ALERT)}
        rows = ((key, pending.get(ALERT, key)) for key in keys)
        return [(key, instance) for key, instance in rows if instance is not None]

    def _evaluate(
        self, context: EvaluationContext, evaluator: Evaluator, subject: Subject, *, explainer: bool
    ) -> None:
        again: datetime | None = None
        number = context.pending.number
        traits = traits_of(self._view, subject)
        for rule in evaluator.compiled.rules_for_state(subject.subject_kind, traits):
            if bool(rule.definition.inhibits) is explainer:
                at = evaluator.evaluate(context, RuleTarget(rule=rule, subject=subject))
                again = at if again is None or (at is not None and at < again) else again
        if self._by_events and context.pending.number != number:
            # With other memories rules may answer otherwise, though nothing else has changed.
            again = context.present.as_of(subject)
        if not explainer:
            self._agenda.put(_domain(context, subject), subject, again)

    def _due(self, context: EvaluationContext, evaluator: Evaluator) -> list[Subject]:
        """Return the pipelines to be looked at in this round, each once."""
        due: dict[str, Subject] = dict(self._touched)
        for running in self._moved(context):
            due[key_of(running.subject)] = running.subject
        # What only events change was looked at when the newest of them was heard.
        is_all = self._is_new or not self._by_events
        for _, instance in context.pending.rows(ALERT) if is_all else ():
            rule = evaluator.rules.get(instance.alert.name)
            if rule is None or rule.definition.evaluate is None:
                continue
            if rule.definition.subject_kind not in _EVERY_ROUND:
                subject = subject_of(rule, instance.alert)
                due.setdefault(key_of(subject), subject)
        for subject in self._unseen(context):
            due.setdefault(key_of(subject), subject)
        for domain in self._agenda.domains():
            as_of = context.present.complete_of(*domain)
            if as_of is not None:
                for subject in self._agenda.take_due(domain, as_of):
                    due.setdefault(key_of(subject), subject)
        return [due[key] for key in sorted(due)]

    def _moved(self, context: EvaluationContext) -> list[ActiveRunsOfSubject]:
        """Return those whose active runs are others than before, or were seen again since.

        Of the rest nothing becomes late but at the time that its rules have asked for.
        """
        present = context.present
        known = {
            key: running
            for key, running in present.running().items()
            if present.as_of(running.subject) is not None
        }
        before, self._running = self._running, known
        return [item for key, item in present.running().items() if before.get(key) != item]

    def _unseen(self, context: EvaluationContext) -> Iterator[Subject]:
        """Yield what has not been looked at since the start, and what was edited."""
        complete = context.present.complete
        new = set(complete) - self._seen
        self._seen.update(new)
        if new:
            for other_standing in self._view.pipeline_health():
                if (other_standing.workspace, other_standing.run_kind) in new:
                    yield of_run(
                        RunKey(other_standing.workspace, other_standing.run_kind, ""),
                        other_standing.pipeline,
                    )
        if new or self._number % _SLOW_ROUNDS == 0:
            for named in self._view.pipelines():
                identity = (named.workspace, named.kind, named.id)
                if identity not in self._pipelines and self._is_seen(named.workspace, named.kind):
                    self._pipelines.add(identity)
                    pipeline = Pipeline(kind=named.kind, id=named.id, name=named.name)
                    yield of_pipeline(named.workspace, pipeline)
        for status in self._view.workspaces():
            yield from self._news(status)

    def _is_seen(self, workspace: str, kind: PipelineKind) -> bool:
        return (workspace, KINDS[kind][-1]) in self._seen

    def _news(self, status: WorkspaceStatus) -> Iterator[Subject]:
        """Yield what a workspace's slow readings tell of, where they are new; also what is gone."""
        name, inventory = status.workspace, status.inventory
        before = self._read.get(name, SlowReadings())
        is_time = self._number % _SLOW_ROUNDS == 0
        is_read = before.schedules_read_at != status.schedules_read_at
        if self._by_events:
            is_read = before.schedules is not status.schedules
        if is_read:
            gone = {other_schedule.id: other_schedule for other_schedule in before.schedules}
            for schedule in (
                gone | {other_schedule.id: other_schedule for other_schedule in status.schedules}
            ).values():
                yield of_schedule(name, schedule)
                for pipeline in schedule.pipelines:
                    yield of_pipeline(name, pipeline)
        if is_time or before.outputs is not inventory.outputs:
            outputs = {
                other_output.id: other_output
                for other_output in (*before.outputs, *inventory.outputs)
            }
            for output in outputs.values():
                yield Subject(
                    subject_kind=SubjectKind.OUTPUT,
                    workspace=name,
                    pipeline=output.pipeline,
                    thing=output.id,
                )
        tokens = frozenset(inventory.tokens.values if inventory.tokens is not None else ())
        for token_id in (
            sorted(tokens | before.tokens) if is_time or tokens != before.tokens else ()
        ):
            yield Subject(subject_kind=SubjectKind.TOKEN, workspace=name, thing=token_id)
        self._read[name] = SlowReadings(
            schedules=status.schedules,
            schedules_read_at=status.schedules_read_at,
            outputs=inventory.outputs,
            tokens=tokens,
        )


def _vital(context: EvaluationContext, evaluator: Evaluator) -> Iterable[Subject]:
    """Return what may explain all else, also what is there no more but still holds an episode."""
    vital = {key_of(item): item for item in context.present.vital()}
    for _, instance in context.pending.rows(ALERT):
        rule = evaluator.rules.get(instance.alert.name)
        if rule is not None and rule.definition.subject_kind in _EVERY_ROUND:
            subject = subject_of(rule, instance.alert)
            vital.setdefault(key_of(subject), subject)
    return vital.values()


def _note_firsts(
    context: EvaluationContext, evaluator: Evaluator, looked: Iterable[Subject]
) -> None:
    """Note what has been judged now, so that what is wrong later was not there before."""
    present, seen = (
        context.present,
        {(other_subject.subject_kind, other_subject.workspace) for other_subject in looked},
    )
    for rule in evaluator.compiled.rules:
        subject_kind = rule.definition.subject_kind
        if rule.definition.evaluate is None:
            continue
        if subject_kind in _OF_RUNS:
            for (workspace, kind), at in present.complete.items():
                _note_first(context, first_key(rule, workspace, kind), at)
            continue
        for workspace in {item for other, item in seen if other is subject_kind}:
            subject = Subject(subject_kind=subject_kind, workspace=workspace)
            as_of = present.as_of(subject)
            if as_of is not None:
                key = first_key(rule, workspace, present.domain(subject))
                _note_first(context, key, as_of)


def _note_first(context: EvaluationContext, key: str, at: datetime) -> None:
    if context.pending.get(FIRST, key) is None:
        context.pending.put(FIRST, key, FirstEvaluated(at=at))


def _domain(context: EvaluationContext, subject: Subject) -> Domain:
    return subject.workspace, context.present.domain(subject)
