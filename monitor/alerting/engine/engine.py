"""The consumer ``alerting``: from events and the live state to alerts.

Alerts, the events that they cause and the position after a batch commit together: inside the store
each event counts once, also over a crash. The outputs deliver alert events at least once. What
changes no alert lingers for up to a second, and is committed with what follows.

A batch of events, or an evaluation cycle, goes route -> evaluate -> advance -> commit, each of them
a module of this folder. An `EvaluationContext` holds what they decide by, a `PendingStep` what they
change, which is one durable step of the store.

Who owns what. The task of `Engine.run` takes batches and runs cycles. Tasks of requests add and
expire silences, and a reload changes the rules. Each of them decides only while it holds
``_deciding``, one at a time, because a step is right only on top of the step before it. The tables
in memory (`CommittedState`) change under that lock alone, after the store has confirmed; so
snapshots read them without it. A task that fails or is cancelled on the way leaves ``_is_current``
False: the store may or may not have the step. The next one to decide loads the state from the
store first, whichever task that is. Rules are replaced as a whole (`RuleSet`) under the lock.
Timeline, timers, caches and the evaluation history belong to the holder of the lock; they are in
memory only and are rebuilt.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from datetime import datetime, timedelta

import structlog

from monitor.alerting.alerting_store import Store
from monitor.alerting.alerts.acknowledging import acknowledged, end_problem
from monitor.alerting.alerts.pending_step import ALERT, LEARNED, SILENCE, PendingStep
from monitor.alerting.attribution.attribution import Attribution, Attributor, Lineage
from monitor.alerting.engine import alert_retention
from monitor.alerting.engine.advancement import Advancer
from monitor.alerting.engine.alert_retention import MemoryRetention
from monitor.alerting.engine.committed_state import (
    CONSUMER,
    LINGER_SECONDS,
    CommittedState,
)
from monitor.alerting.engine.cycle import EvaluationCycle
from monitor.alerting.engine.evaluation import EvaluationHistory, Evaluator, Guard
from monitor.alerting.engine.evaluation_context import Complete, EvaluationContext, ScheduleIndex
from monitor.alerting.engine.event_routing import EventRouter
from monitor.alerting.engine.rule_set import RuleSet
from monitor.alerting.engine.snapshots import Snapshots
from monitor.alerting.engine.suppression import Inhibitors
from monitor.alerting.engine.timeline import NextEvaluation, Timeline
from monitor.alerting.rules.baselines import Learned
from monitor.alerting.rules.compiled import Compiled
from monitor.alerting.settings import AlertingSettings
from monitor.bus.contract import Retention, StoreStatus
from monitor.model.alerts import Acknowledgement, AlertingSnapshot, DaemonCondition, Silence
from monitor.model.clock import Clock
from monitor.model.errors import BusUnavailableError, ConfigurationError
from monitor.model.events import RunEvent
from monitor.model.slices import in_slices
from monitor.tracking.live_state import LiveStateView

log = structlog.get_logger()

_BATCH = 100  # events
_AT_ONCE = 5  # of them: the first failure of a pipeline takes up to 0.4 ms
_SILENCES_BOUND = 1_000


class Engine:
    """Evaluates events as they come, and everything that may be due in cycles."""

    def __init__(
        self,
        *,
        bus: Store,
        view: LiveStateView,
        clock: Clock,
        settings: AlertingSettings,
        retention: Retention,
        guard: Guard,
        timeline: Timeline | None = None,
    ) -> None:
        """``timeline`` None: the daemon's."""
        self.history = EvaluationHistory()
        self.lineage = Lineage(bus=bus, view=view)
        self._bus = bus
        self._view = view
        self._clock = clock
        self._retention = retention
        self._evaluator = Evaluator(guard)
        self._state = CommittedState(bus=bus, clock=clock)
        self.past = self._state.past
        self._timeline = timeline or Timeline(view)
        self._cycle = EvaluationCycle(
            bus=bus, view=view, lineage=self.lineage, timeline=self._timeline
        )
        self._complete: Complete = {}
        self._schedules = ScheduleIndex()
        # Our steady clock, which no jump of the wall clock moves.
        self._began = (clock.now(), clock.monotonic())
        self._next_sweep = clock.monotonic()
        self._deciding = asyncio.Lock()
        self._is_current = False
        self._snapshots = Snapshots()
        self._memory_retention = MemoryRetention()
        self._condition: Callable[[], DaemonCondition] = DaemonCondition
        self._use(settings)

    def watch_daemon(self, condition: Callable[[], DaemonCondition]) -> None:
        """Evaluate also what this returns; to be called before `run`."""
        self._condition = condition

    @property
    def position(self) -> int:
        return self._state.position  # of the newest event that was evaluated

    @property
    def settings(self) -> AlertingSettings:
        """What is in force now, disabled rules too."""
        return self._rules.settings

    @property
    def compiled(self) -> Compiled:
        return self._rules.compiled

    def snapshot(self) -> AlertingSnapshot:
        """Return the committed state; no later change alters it."""
        return self._snapshots.of(self._state.tables, self._rules, self._evaluator)

    def learned(self, subject_key: str) -> Learned | None:
        """Return what was learned of a pipeline and kind of run."""
        return self._state.tables.decoded(LEARNED, subject_key, Learned)

    def next_evaluation(self) -> NextEvaluation:
        """Return when `evaluate` may change something though no event comes."""
        return self._timeline.next_evaluation()

    async def run(self) -> None:
        """Evaluate until cancelled. May be called again: it continues from the store.

        Raises:
            BusUnavailableError: the store does not answer.
        """
        while True:
            await self._run_once()

    async def restore(self) -> None:
        """Load position and state from the store. A cancelled call is repeated by the next step.

        Raises:
            BusUnavailableError: snapshots show what they showed before.
        """
        async with self._deciding:
            self._is_current = False
            await self._load()

    async def show(self, stored: Mapping[str, bytes]) -> None:
        """Show what another daemon has stored; this engine evaluates and stores nothing then."""
        async with self._deciding:
            await self._state.show(stored)
            await self._snapshots.learn_all(self._state.tables, self._rules)

    async def take_some(self) -> int:
        """Evaluate one batch; return how far its position is ahead, 0 if nothing is new."""
        async with self._step():
            return await self._take_batch()

    async def evaluate(self) -> None:
        """Run one evaluation cycle, after all events that led to the state that it evaluates."""
        async with self._step():
            # First until when all is known, then how far the log goes, then the events, then the
            # state: so no event is missed that happened before the instant that is evaluated.
            complete = self._view.complete()
            status = await self._bus.status()
            while self.position < status.newest_position and await self._take_batch():
                pass
            self._complete = complete
            pending = self._state.begin()
            await self._cycle.run(self._context(pending, status))
            await self._sweep(pending)
            await self._commit(pending, self.position)
            self._timeline.cycle_committed(self._now())
            self._snapshots.refresh(self._state.tables)

    async def add_silence(self, silence: Silence) -> None:
        """Store a silence, or replace the one with the same id.

        Raises:
            ConfigurationError: there are too many.
        """
        async with self._step():
            silences = self._state.tables[SILENCE]
            if silence.id in silences or len(silences) < _SILENCES_BOUND:
                await self._store_silence(silence)
                return
        # Outside, because nothing was begun that would have to be loaded again.
        raise ConfigurationError(
            f"there are {len(silences):,} silences, and more are not kept: let some expire"
        )

    async def expire_silence(self, silence_id: str) -> bool:
        """End a silence now; False where no silence has that id, or it has ended."""
        async with self._step():
            silence: Silence | None = self._state.tables[SILENCE].get(silence_id)
            now = self._clock.now()
            if silence is None or silence.ends_at <= now:
                return False
            await self._store_silence(alert_retention.expired(silence, now))
            return True

    async def acknowledge(
        self,
        fingerprint: str,
        starts_at: datetime,
        author: str,
        comment: str,
        until: datetime | None = None,
    ) -> bool:
        """Stop the reminders of an open alert; False where none is open with that start.

        ``until`` is by the wall clock; None: as long as it is open.

        Raises:
            ConfigurationError: it cannot end then.
        """
        if (problem := end_problem(until, now=self._clock.now())) is not None:
            raise ConfigurationError(f"until: {problem}")
        async with self._step():
            pending, at = self._state.begin(), self._clock.now()
            instance = pending.open_alert(fingerprint, starts_at)
            if instance is not None:
                by = Acknowledgement(author=author, comment=comment, at=at, until=until)
                there = self._view.time_of(instance.alert, at)
                outcome = acknowledged(instance, by, now=self._now(), occurred_at=there)
                pending.advance(fingerprint, instance, outcome)
                if outcome.step:
                    log.info("alert acknowledged", fingerprint=fingerprint, author=author)
            await self._commit(pending, self.position)
            return instance is not None

    async def reconfigure(self, settings: AlertingSettings) -> None:
        """Evaluate by other rules from now on. Alerts go on where their rule does.

        The rules are in force even if the store does not answer: the next step stores what follows
        from them. A cancelled call leaves either the old rules or the new ones in force.
        """
        async with self._deciding:
            was_current, self._is_current = self._is_current, False
            pending = self._state.begin()  # with what events changed by the former rules
            self._use(settings)
            try:
                # Stored rows must fit the new rules before any step decides by them.
                await (self._reconcile(pending) if was_current else self._load())
                self._is_current = True
            except BusUnavailableError as exc:
                log.warning("new alerting rules not stored yet", reason=str(exc))

    def _use(self, settings: AlertingSettings) -> None:
        self._rules = RuleSet.of(settings)
        self._evaluator.reset()
        self._attributor = Attributor(
            lineage=self.lineage, firing=self._state.firing, view=self._view, bus=self._bus
        )
        inhibitors = Inhibitors(
            self._attributor, self._state.firing, wait_seconds=settings.parents_wait_seconds
        )
        self._advancer = Advancer(
            self._rules, view=self._view, history=self.history, inhibitors=inhibitors
        )
        self._router = EventRouter(
            self._rules,
            timeline=self._timeline,
            view=self._view,
            firing=self._state.firing,
            history=self.history,
        )
        self._cycle.reset(
            self._rules, inhibitors=inhibitors, evaluator=self._evaluator, advancer=self._advancer
        )

    @asynccontextmanager
    async def _step(self) -> AsyncIterator[None]:
        """Hold the lock for one step, on top of a state that is as the store has it."""
        async with self._deciding:
            if not self._is_current:
                await self._load()
            self._is_current = False
            yield
            # Not in a finally: after a failure the store may or may not have the step.
            self._is_current = True

    async def _load(self) -> None:
        await self._state.load()
        self._cycle.restart()
        await self._reconcile(self._state.begin())
        await self._snapshots.learn_all(self._state.tables, self._rules)
        self._is_current = True

    async def _reconcile(self, pending: PendingStep) -> None:
        """Let the stored rows fit the configuration: its silences, and the memory of its rules."""
        wall_now = self._clock.now()
        rules = self._rules.compiled.rules
        alert_retention.keep_silences(pending, self._rules.settings.silences, wall_now=wall_now)
        watched = [status.workspace for status in self._view.workspaces()]
        alert_retention.keep_evaluated(pending, rules, watched=watched, wall_now=wall_now)
        alert_retention.forget_rules(pending, rules)
        await self._commit(pending, self.position)

    async def _run_once(self) -> None:
        due = self.next_evaluation().ours
        if due is None or due <= self._now():
            await self.evaluate()
        elif await self.take_some() < _BATCH:  # there was no more
            left_seconds = max(0.0, (due - self._now()).total_seconds())
            is_stored = self._state.is_position_stored
            wait_seconds = left_seconds if is_stored else min(left_seconds, LINGER_SECONDS)
            has_more = await self._bus.wait(self.position, timeout_seconds=wait_seconds)
            if not (is_stored or has_more):
                await self.store_position()

    async def store_position(self) -> None:
        """Make durable how far events were evaluated, and what lingers of that."""
        async with self._step():
            await self._commit(self._state.begin(), self.position)

    async def _take_batch(self) -> int:
        before = self._state.position
        batch = await self._bus.read(CONSUMER, after=before, limit=_BATCH)
        position = batch.events[-1].position if batch.events else before
        if batch.gap is not None:
            position = max(position, batch.gap.until)
        if position == before:
            return 0
        pending = self._state.begin()
        if batch.gap is not None:
            log.warning("events lost before evaluation", lost=batch.gap.lost)
            alert_retention.forget_awaited(pending, self._rules.awaiting)
        events = [entry.event for entry in batch.events if isinstance(entry.event, RunEvent)]
        attributions = await self._attributor.attribute(events)
        context = self._context(pending, None)
        for number, attribution in enumerate(attributions):
            if number % _AT_ONCE == 0 and len(attributions) > _AT_ONCE:
                await asyncio.sleep(0)
            self._handle(context, attribution)
        if not self._state.linger(pending, position):
            await self._commit(pending, position)
        return position - before

    def _handle(self, context: EvaluationContext, attribution: Attribution) -> None:
        for target in self._router.route(context, attribution):
            changes = context.pending.changes
            answer = self._evaluator.evaluate(context, target)
            self._advancer.advance(context, target, answer)
            if target.rule.definition.evaluate and context.pending.changes != changes:
                self._timeline.touched[target.subject] = None

    async def _commit(self, pending: PendingStep, position: int) -> None:
        if await self._state.commit(pending, position):
            # Thousands, where an outage begins or ends.
            async for key, instance in in_slices(pending.changed[ALERT].items()):
                self._timeline.committed(key, instance)
            await self._snapshots.committed(pending, self._state.tables, self._rules)

    async def _sweep(self, pending: PendingStep) -> None:
        monotonic = self._clock.monotonic()
        if monotonic >= self._next_sweep:
            self._next_sweep = monotonic + self._timeline.sweep_seconds
            # The earliest: rows dropped by one that is ahead would not come back.
            now = min(filter(None, (self._now(), self._clock.now(), self._condition().ages_at)))
            await alert_retention.sweep(pending, now=now, kept=self._retention)
            await self._memory_retention.sweep(pending, self._view)

    async def _store_silence(self, silence: Silence) -> None:
        pending = self._state.begin()
        pending.put(SILENCE, silence.id, silence)
        await self._commit(pending, self.position)

    def _context(self, pending: PendingStep, status: StoreStatus | None) -> EvaluationContext:
        return EvaluationContext(
            pending,
            view=self._view,
            lineage=self.lineage,
            firing=self._state.firing,
            suppression=self._state.suppression,
            schedules=self._schedules,
            retention=self._retention,
            complete=self._complete,
            now=self._now(),
            wall_now=self._clock.now(),
            monotonic=self._clock.monotonic(),
            store=status,
            condition=DaemonCondition() if status is None else self._condition(),
        )

    def _now(self) -> datetime:
        wall, monotonic = self._began
        return wall + timedelta(seconds=self._clock.monotonic() - monotonic)
