"""The timeline: which subjects and alerts may have changed, and when to evaluate next.

The daemon's timeline begins a cycle at every interval. A backtest hands its own to the engine,
which passes over the time in which nothing is due.
Due times are in memory: after a restart everything is evaluated once.
"""

from __future__ import annotations

import heapq
from collections import defaultdict
from collections.abc import Collection, Iterator
from datetime import UTC, datetime, timedelta
from itertools import chain
from typing import Generic, TypeVar

from msgspec import Struct

from monitor.alerting.alerts import lifecycle
from monitor.alerting.alerts.instance import AlertInstance
from monitor.alerting.alerts.pending_step import ALERT
from monitor.alerting.attribution.subjects import (
    key_of,
    of_pipeline,
    of_run,
    of_schedule,
    subject_of,
)
from monitor.alerting.engine.evaluation_context import (
    ActiveRunsOfSubject,
    Complete,
    EvaluationContext,
    domain_of,
)
from monitor.alerting.engine.rule_set import RuleSet
from monitor.alerting.rules.contract import Subject, SubjectKind
from monitor.alerting.rules.table import RULE_DEFINITIONS
from monitor.model.inventory import OutputQuality
from monitor.model.live_state import REFRESH_TOKEN, ScheduleKnown, WorkspaceStatus
from monitor.model.runs import RUN_KINDS, Pipeline, PipelineKind, RunKey, RunKind
from monitor.model.slices import in_slices
from monitor.tracking.live_state import LiveStateView

T = TypeVar("T")

_LEAST_ROOM = 64  # entries of a heap, before replaced ones are dropped
_SLOW_CYCLES = 30  # between two evaluations of what changes slowly, though nothing was read
Domain = tuple[str, str]  # workspace, and the kind of run by whose lists it is evaluated
NOW = datetime.min.replace(tzinfo=UTC)  # is due whatever the clock shows
_END = datetime.max.replace(tzinfo=UTC)
# Evaluated in every cycle, because their alerts inhibit others.
VITAL_KINDS = frozenset({SubjectKind.DAEMON, SubjectKind.WORKSPACE})
# The kinds of rules whose alerts are evaluated by the state of other subjects.
_BY_STATE = frozenset(
    kind
    for kind, definition in RULE_DEFINITIONS.items()
    if definition.evaluate is not None and definition.subject_kind not in VITAL_KINDS
)


class DueTimes(Generic[T]):
    """Values by key, each with the time at which it is due: the one that was set last."""

    def __init__(self) -> None:
        self._due: dict[str, tuple[datetime, T]] = {}
        self._heap: list[tuple[datetime, str]] = []  # with entries that were replaced since

    def put(self, key: str, value: T, at: datetime | None) -> None:
        """Set when the value is due; None: never by itself."""
        if at is None:
            self._due.pop(key, None)
            return
        before = self._due.get(key)
        self._due[key] = (at, value)
        if before is None or before[0] != at:
            heapq.heappush(self._heap, (at, key))
        if len(self._heap) > max(_LEAST_ROOM, 2 * len(self._due)):
            # Replaced times may lie weeks ahead, and each run that ends may replace another one.
            self._heap = [(due_at, name) for name, (due_at, _) in self._due.items()]
            heapq.heapify(self._heap)

    def put_earlier(self, key: str, value: T, at: datetime) -> None:
        """Set when the value is due, unless it is due earlier."""
        before = self._due.get(key)
        if before is None or at < before[0]:
            self.put(key, value, at)

    def __len__(self) -> int:
        """Return the number of entries, including replaced ones."""
        return len(self._heap)

    def next_at(self) -> datetime | None:
        """Return when the first value is due, None where none is."""
        while self._heap and self._is_replaced(*self._heap[0]):
            heapq.heappop(self._heap)
        return self._heap[0][0] if self._heap else None

    def take_due(self, now: datetime) -> list[T]:
        """Remove and return what is due."""
        taken: list[T] = []
        while self._heap and self._heap[0][0] <= now:
            at, key = heapq.heappop(self._heap)
            if not self._is_replaced(at, key):
                taken.append(self._due.pop(key)[1])
        return taken

    def _is_replaced(self, at: datetime, key: str) -> bool:
        current = self._due.get(key)
        return current is None or current[0] != at


class NextEvaluation(Struct, frozen=True, kw_only=True):
    """The first instants at which an evaluation is due: by our clock, and by the subjects'."""

    ours: datetime | None = None
    theirs: datetime | None = None


class SlowReads(Struct, frozen=True):
    """The slow reads of a workspace when a cycle evaluated them."""

    schedules: tuple[ScheduleKnown, ...] = ()
    schedules_read_at: datetime | None = None
    outputs: tuple[OutputQuality, ...] = ()
    tokens: frozenset[str] = frozenset()


class Timeline:
    """The daemon's timeline: a cycle at each interval, whatever happens."""

    considers_past = True  # False: nothing came before the first event
    sweep_seconds = 60.0  # between two sweeps of what is kept too long

    def __init__(self, view: LiveStateView) -> None:
        # In order. Events were about them, so the next cycle evaluates them.
        self.touched: dict[Subject, None] = {}
        self._view = view
        self._evaluated_at: datetime | None = None

    def reset(self, rules: RuleSet) -> None:
        """Evaluate everything in the next cycle, as after a start and with other rules."""
        self._rules = rules
        self._alert_timers: DueTimes[str] = DueTimes()  # as long as nothing suppresses any
        self._timers: defaultdict[Domain, DueTimes[Subject]] = defaultdict(DueTimes)
        self._complete: dict[Domain, datetime] = {}  # of the cycle before
        self._known: set[Domain] = set()
        self._pipelines: set[tuple[str, PipelineKind, str]] = set()
        self._slow_reads: dict[str, SlowReads] = {}
        self._running: dict[str, ActiveRunsOfSubject] = {}  # as of their last evaluation
        self._cycle = 0
        self._is_new = True

    def checks_removed(self) -> bool:
        """True where this cycle checks for alerts whose rule or subject was removed."""
        return self._is_new or self._is_slow_cycle

    async def subjects(self, context: EvaluationContext) -> list[Subject]:
        """Return the subjects to evaluate now, each once, besides the vital ones."""
        due: dict[str, Subject] = {}
        # Of 10,000 pipelines, here and below.
        async for subject in in_slices(self.touched):
            due[key_of(subject)] = subject
        before, self._running = self._running, {}
        async for key, running in in_slices(context.running.items()):
            # What was not observed again is late only at the time that its rules have asked for.
            if before.get(key) != running:
                due[key] = running.subject
            if context.as_of(running.subject) is not None:
                self._running[key] = running
        async for subject in in_slices(
            chain(self._of_alerts(context), self._new_subjects(context))
        ):
            due.setdefault(key_of(subject), subject)
        for domain, timers in self._timers.items():
            as_of = context.complete_of(*domain)
            if as_of is not None:
                # Times that were asked for by a clock that was set back since are not waited for.
                is_set_back = as_of < self._complete.get(domain, as_of)
                for subject in timers.take_due(_END if is_set_back else as_of):
                    due.setdefault(key_of(subject), subject)
        self._complete = {(name, kind.value): at for (name, kind), at in context.complete.items()}
        # In an order that does not depend on what this process has lived through.
        return [due[key] for key in sorted(due)]

    async def alerts(self, context: EvaluationContext) -> Collection[str]:
        """Return the fingerprints of the alerts that time may change now."""
        if self._is_new:
            # Thousands in an outage.
            async for key, instance in in_slices(context.pending.rows(ALERT)):
                self._alert_timers.put(key, key, self._timer_of(instance))
        elif context.suppression.is_idle:
            due = self._alert_timers.take_due(context.now)
            for key in due:  # which stays due until it is committed as another
                self._alert_timers.put(key, key, context.now)
            return context.pending.changed[ALERT].keys() | due
        return context.pending.keys(ALERT)

    def evaluated(
        self,
        context: EvaluationContext,  # noqa: ARG002 - for a backtest
        subject: Subject,
        again_at: datetime | None,
        *,
        is_changed: bool,  # noqa: ARG002
    ) -> None:
        """Set when the subject is due again; ``is_changed``: its rules changed stored rows."""
        domain = subject.workspace, domain_of(subject)
        self._timers[domain].put(key_of(subject), subject, again_at)

    def evaluate_within(self, subject: Subject, wait: timedelta, complete: Complete) -> None:
        """Let the subject be due so long after all that is known now, if it is not due earlier."""
        domain = subject.workspace, domain_of(subject)
        as_of = complete.get((domain[0], RunKind(domain[1])))
        if as_of is None:
            self.touched[subject] = None
        else:
            self._timers[domain].put_earlier(key_of(subject), subject, as_of + wait)

    def has_evaluated(self, pipeline: Subject) -> bool:
        """True where a cycle has evaluated the flow or plan since the start."""
        known = pipeline.pipeline
        return known is not None and (pipeline.workspace, known.kind, known.id) in self._pipelines

    def committed(self, fingerprint: str, instance: AlertInstance | None) -> None:
        """Apply one alert as a durable step changed it; None: it was dropped."""
        at = None if instance is None else self._timer_of(instance)
        self._alert_timers.put(fingerprint, fingerprint, at)

    def _timer_of(self, instance: AlertInstance) -> datetime | None:
        """Return when time alone changes an alert (ours)."""
        rule = self._rules.by_name.get(instance.alert.name)
        if rule is None:
            return None
        if rule.mute and instance.is_open:
            return instance.since  # mute times begin and end by the wall clock
        return lifecycle.next_timer_at(instance, rule.settings, self._rules.limits)

    def cycle_committed(self, now: datetime) -> None:
        """Begin the next cycle: the changes of this one are durable."""
        self.touched.clear()
        self._is_new = False
        self._cycle += 1
        self._evaluated_at = now

    def next_evaluation(self) -> NextEvaluation:
        """Return when a cycle is due."""
        if self._evaluated_at is None:
            return NextEvaluation(ours=NOW)
        interval = timedelta(seconds=self._rules.settings.evaluation_interval_seconds)
        return NextEvaluation(ours=self._evaluated_at + interval)

    @property
    def _is_slow_cycle(self) -> bool:
        return self._cycle % _SLOW_CYCLES == 0

    def _of_alerts(self, context: EvaluationContext) -> Iterator[Subject]:
        """Yield the subjects of alerts that rules evaluate by state."""
        for _, instance in context.firing.of_rules(context.pending, _BY_STATE):
            rule = self._rules.by_name.get(instance.alert.name)
            if rule is not None and rule.definition.evaluate is not None:
                yield subject_of(rule, instance.alert)

    def _new_subjects(self, context: EvaluationContext) -> Iterator[Subject]:
        """Yield what was never evaluated since the start, and what was edited or deleted."""
        complete = context.complete
        new = set(complete) - self._known
        self._known.update(new)
        if new:
            for health in self._view.pipeline_health():
                if (health.workspace, health.run_kind) in new:
                    yield of_run(RunKey(health.workspace, health.run_kind, ""), health.pipeline)
        if new or self._is_slow_cycle:
            for named in self._view.pipelines():
                identity = (named.workspace, named.kind, named.id)
                is_known = (named.workspace, RUN_KINDS[named.kind][-1]) in self._known
                if identity not in self._pipelines and is_known:
                    self._pipelines.add(identity)
                    pipeline = Pipeline(kind=named.kind, id=named.id, name=named.name)
                    yield of_pipeline(named.workspace, pipeline)
        for status in self._view.workspaces():
            yield from self._of_slow_reads(status)

    def _of_slow_reads(self, status: WorkspaceStatus) -> Iterator[Subject]:
        """Yield the schedules, outputs and tokens that were read again, also deleted ones."""
        name, inventory = status.workspace, status.inventory
        before = self._slow_reads.get(name, SlowReads())
        tokens = frozenset(inventory.tokens.values if inventory.tokens is not None else ())
        if status.token is not None:
            trouble = status.token.trouble
            tokens |= {REFRESH_TOKEN, *([] if trouble is None else [trouble.kind.token_id])}
        self._slow_reads[name] = SlowReads(
            schedules=status.schedules,
            schedules_read_at=status.schedules_read_at,
            outputs=inventory.outputs,
            tokens=tokens,
        )
        if self._are_schedules_new(before, status):
            schedules = {known.id: known for known in (*before.schedules, *status.schedules)}
            for schedule in schedules.values():
                yield of_schedule(name, schedule)
                for pipeline in schedule.pipelines:
                    yield of_pipeline(name, pipeline)
        if self._is_slow_cycle or before.outputs is not inventory.outputs:
            outputs = {output.id: output for output in (*before.outputs, *inventory.outputs)}
            for output in outputs.values():
                yield Subject(
                    subject_kind=SubjectKind.OUTPUT,
                    workspace=name,
                    pipeline=output.pipeline,
                    thing=output.id,
                )
        if self._is_slow_cycle or tokens != before.tokens:
            for token_id in sorted(tokens | before.tokens):
                yield Subject(subject_kind=SubjectKind.TOKEN, workspace=name, thing=token_id)

    def _are_schedules_new(self, before: SlowReads, status: WorkspaceStatus) -> bool:
        return before.schedules_read_at != status.schedules_read_at
