"""The consumer ``alerting``: from the log and the present to alert events, exactly once.

What a batch or a look changes, the events that it causes and the position behind it are one step
of the store. Whatever ends the process, the next one goes on from the last step that was taken.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from datetime import datetime, timedelta

import structlog

from monitor.alerting.alerts.firing_runs import FiringRuns
from monitor.alerting.alerts.lifecycle import LifecycleLimits
from monitor.alerting.alerts.pending_step import (
    ALERT,
    ENDED,
    LEARNED,
    POSTPONED,
    SILENCE,
    Draft,
    EndedAlert,
    empty_tables,
    tables_of,
)
from monitor.alerting.alerts.suppression import Suppression
from monitor.alerting.alerts.timers import NextTimers
from monitor.alerting.attribution.initial_evaluation import InitialEvaluation, NoPastFailures
from monitor.alerting.attribution.subjects import Lineage, traits_of
from monitor.alerting.engine import retention
from monitor.alerting.engine.cycle import EvaluationCycle
from monitor.alerting.engine.evaluation import (
    EvaluationContext,
    Evaluator,
    Guard,
    changes_suppression,
    suppression_of,
)
from monitor.alerting.engine.history import EvaluationHistory
from monitor.alerting.engine.present import Complete, Present, SchedulesByPipeline
from monitor.alerting.engine.routing import EventRouter
from monitor.alerting.engine.rule_removal import MemoryRetention
from monitor.alerting.engine.snapshots import Snapshots
from monitor.alerting.rules.compiled import Compiled, Traits
from monitor.alerting.rules.contract import Subject
from monitor.alerting.settings import AlertingSettings
from monitor.alerting.store import Store
from monitor.bus.contract import Batch, Retention, Start, Step, StoreStatus
from monitor.model.alerts import AlertingSnapshot, Silence
from monitor.model.clock import Clock
from monitor.model.errors import BusUnavailableError, ConfigurationError
from monitor.model.events import RunEvent
from monitor.model.runs import RunState
from monitor.tracking.live_state import LiveStateView

log = structlog.get_logger()

CONSUMER = "alerting"

_BATCH = 500
_IN_ONE_GO = 50  # events, without letting others have a turn
_COMMIT_SECONDS = 10.0
_POSITION_SECONDS = 1.0  # between two stores of a position behind which nothing changed
_RETRY_SECONDS, _RETRY_CAP_SECONDS = 1.0, 30.0
_SWEEP_SECONDS = 60.0
_SWEEP_OF_A_PAST_SECONDS = 6 * 3_600.0
_SILENCES_BOUND = 1_000


class Engine:
    """Judges events as they come, and the present in rounds. One step at a time."""

    def __init__(
        self,
        *,
        bus: Store,
        view: LiveStateView,
        clock: Clock,
        settings: AlertingSettings,
        retention: Retention,
        guard: Guard,
        by_events: bool = False,
    ) -> None:
        """``by_events``: what the view shows changes by the events of the log alone."""
        self.position = 0
        self.history = EvaluationHistory()
        self.subjects = Lineage(bus=bus, view=view)
        self._bus = bus
        self._view = view
        self._clock = clock
        self._settings = settings
        self._retention = retention
        self._guard = guard
        self._tables = empty_tables()
        considers_past = InitialEvaluation(bus=bus, subjects=self.subjects, view=view, clock=clock)
        self._cycle = EvaluationCycle(
            view=view,
            clock=clock,
            considers_past=NoPastFailures() if by_events else considers_past,
            by_events=by_events,
        )
        self._sweep_seconds = _SWEEP_OF_A_PAST_SECONDS if by_events else _SWEEP_SECONDS
        self._complete: Complete = {}
        self._suppression = Suppression()
        self._firing = FiringRuns()
        self._schedules = SchedulesByPipeline()
        self._stored_position = 0
        self._stored_at = clock.monotonic()
        self._next_look = clock.monotonic()
        self._next_sweep = clock.monotonic()
        # Ours, as no jump of the wall clock moves it.
        self._began = (clock.now(), clock.monotonic())
        self._step_taking = asyncio.Lock()
        self._is_restored = False
        self._snapshots = Snapshots()
        self._forgetting = MemoryRetention()
        self._use(settings)

    def _use(self, settings: AlertingSettings) -> None:
        self._settings = settings
        limits = LifecycleLimits(
            flap_count=settings.flap_count,
            flap_seconds=settings.flap_seconds,
            resolved_kept_seconds=settings.resolved_kept_seconds,
        )
        self._evaluator = Evaluator(
            Compiled.of(settings.rules),
            view=self._view,
            guard=self._guard,
            history=self.history,
            limits=limits,
        )
        self._router = EventRouter(
            self._evaluator,
            subjects=self.subjects,
            firing=self._firing,
            view=self._view,
            touch=self._cycle.touch,
            parents_wait_seconds=settings.parents_wait_seconds,
        )
        self._cycle.begin_anew()

    async def run(self) -> None:
        """Judge until cancelled. May be started again: it goes on from the store."""
        failures = 0
        while True:
            try:
                # Also where somebody else's step failed, such as that of a silence.
                if not self._is_restored:
                    await self.restore()
                await self._go_on()
                failures = 0
            except BusUnavailableError as exc:
                # Whatever became of the last step: the store is asked again before going on.
                self._is_restored = False
                failures += 1
                wait_seconds = min(
                    _RETRY_SECONDS * 2.0 ** min(failures - 1, 16), _RETRY_CAP_SECONDS
                )
                log.warning(
                    "alerting waits for the store", reason=str(exc), retry_in_seconds=wait_seconds
                )
                await self._clock.sleep(wait_seconds)
            except BaseException:
                self._is_restored = False  # a look may have been left half-way
                raise

    async def restore(self) -> None:
        """Take position and state from the store, in place of what was held.

        Raises:
            BusUnavailableError: what was held is still shown.
        """
        async with self._step_taking:
            self._is_restored = False
            position = await self._bus.subscribe(CONSUMER, start=Start.NEWEST)
            tables = tables_of(await self._bus.consumer_state(CONSUMER))
            self._tables, self.position, self._stored_position = tables, position, position
            self._suppression = suppression_of(self._pending())
            self._firing.restore(tables[ALERT])
            self._cycle.begin_anew()
            await self._reconcile()
            await self._snapshots.learn_all(tables, self.compiled.rules, self._clock)
            self._is_restored = True

    async def take_some(self) -> int:
        """Judge one batch of events and return how far that was; 0 if the log holds nothing new.

        Raises:
            BusUnavailableError: nothing is known of the step; `restore` before the next.
        """
        async with self._step_taking:
            return await self._take_batch()

    async def evaluate(self) -> None:
        """Judge the present as of one moment, after all events that led to it.

        Raises:
            BusUnavailableError: nothing is known of the step; `restore` before the next.
        """
        async with self._step_taking:
            # First how far all is known, then how far the log goes, then the log, then the look:
            # so nothing is missed that had happened, only because it has not been heard yet.
            complete = self._view.complete()
            status = await self._bus.status()
            while self.position < status.newest_position and await self._take_batch():
                pass
            self._complete = complete
            await self.subjects.prepare(run.run for run in self._view.active_runs())
            pending = self._pending()
            await self._router.prepare(pending, (), self._bus)
            context = self._context(pending, status)
            self._router.take_up(context)
            await self._cycle.evaluate(context, self._evaluator)
            self._sweep(pending)
            await self._step(pending, self.position)
            self._cycle.has_looked()

    def next_timers(self) -> NextTimers:
        """Return the next moments at which a look may change something though nothing is heard.

        To be asked of an engine whose view changes ``by_events`` alone.
        """
        next_timers = self._cycle.next_timers()
        waiting = [row.due_at for row in self._tables[POSTPONED].values()]
        ours = min((at for at in (next_timers.ours, *waiting) if at is not None), default=None)
        return NextTimers(ours=ours, theirs=next_timers.theirs)

    async def add_silence(self, silence: Silence) -> None:
        """Keep a silence, or another form of one with the same id.

        Raises:
            ConfigurationError: there are too many.
            BusUnavailableError: it may not have been kept.
        """
        async with self._step_taking:
            held = self._tables[SILENCE]
            if silence.id not in held and len(held) >= _SILENCES_BOUND:
                raise ConfigurationError(
                    f"there are {len(held):,} silences, and more are not kept: let some expire"
                )
            await self._keep_silence(silence)

    async def expire_silence(self, silence_id: str) -> bool:
        """End a silence now; False where there is none of that id, or it has ended.

        Raises:
            BusUnavailableError: it may not have been ended.
        """
        async with self._step_taking:
            held: Silence | None = self._tables[SILENCE].get(silence_id)
            now = self._clock.now()
            if held is None or held.ends_at <= now:
                return False
            await self._keep_silence(retention.ended_at(held, now))
            return True

    async def reconfigure(self, settings: AlertingSettings) -> None:
        """Judge by other rules from now on. Episodes go on where their rule does."""
        async with self._step_taking:
            self._use(settings)
            try:
                await self._reconcile()
            except BusUnavailableError as exc:
                # They are in force; what is stored is made to fit when the store answers again.
                log.warning("the store does not know the new rules yet", reason=str(exc))

    def picture(self) -> AlertingSnapshot:
        """Return what is held now; no later change alters it."""
        return self._snapshots.of(self._tables, self._evaluator)

    def ended(self, fingerprint: str) -> tuple[EndedAlert, ...]:
        """Return the episodes that are over, also those that nobody was told of; newest last."""
        found = [
            row for key, row in self._tables[ENDED].items() if key.partition(":")[0] == fingerprint
        ]
        return tuple(sorted(found, key=lambda instance: instance.alert.starts_at))

    @property
    def compiled(self) -> Compiled:
        return self._evaluator.compiled

    def traits_of(self, run: RunState | None, subject: Subject) -> Traits:
        """Return what rules match by."""
        return traits_of(self._view, subject, run)

    async def _go_on(self) -> None:
        left = self._next_look - self._clock.monotonic()
        if left <= 0:
            await self.evaluate()
            self._next_look = self._clock.monotonic() + self._settings.evaluation_interval_seconds
        elif not await self.take_some():
            await self._bus.wait(self.position, timeout_seconds=left)

    async def _take_batch(self) -> int:
        batch = await self._bus.read(CONSUMER, after=self.position, limit=_BATCH)
        position = _end_of(batch, self.position)
        if position == self.position:
            return 0
        if batch.gap is not None:
            log.warning("events were lost before they were judged", lost=batch.gap.lost)
        events = [event.event for event in batch.events if isinstance(event.event, RunEvent)]
        pending = self._pending()
        if batch.gap is not None:
            retention.forget_awaited(pending, self.compiled.rules)
        await self._router.prepare(pending, events, self._bus)
        await self._on_event(self._context(pending, None), events)
        moved, before = position - self.position, self.position
        self.position = position
        try:
            await self._step(pending, position)
        except BaseException:
            self.position = before
            raise
        return moved

    async def _on_event(self, context: EvaluationContext, events: Iterable[RunEvent]) -> None:
        for number, event in enumerate(events, 1):
            self._router.on_event(context, event)
            if number % _IN_ONE_GO == 0:
                await self._clock.sleep(0)  # a long batch must not hold up a callback

    async def _step(self, pending: Draft, position: int) -> None:
        now = self._clock.monotonic()
        if pending.is_empty:
            is_stored = position == self._stored_position
            if is_stored or now - self._stored_at < _POSITION_SECONDS:
                return
        step = Step(
            consumer=CONSUMER,
            position=position,
            state=pending.state(),
            events=tuple(pending.events),
        )
        try:
            await self._bus.advance(step, timeout_seconds=_COMMIT_SECONDS)
        except BaseException:
            self._is_restored = False
            raise
        self._stored_position, self._stored_at = position, now
        is_other = changes_suppression(pending)
        pending.apply()
        if is_other:
            self._suppression = suppression_of(self._pending())
        self._firing.changed(pending)
        self._cycle.changed(pending, self._evaluator)
        self._snapshots.changed(pending, self.compiled.rules)

    def _sweep(self, pending: Draft) -> None:
        now = self._clock.monotonic()
        if now >= self._next_sweep:
            self._next_sweep = now + self._sweep_seconds
            # Neither clock alone: what a jump ahead drops does not come back with the right time.
            retention.sweep(pending, now=min(self._now(), self._clock.now()))
            self._forgetting.go_on(pending, self._view)

    async def _keep_silence(self, silence: Silence) -> None:
        pending = self._pending()
        pending.put(SILENCE, silence.id, silence)
        await self._step(pending, self.position)

    async def _reconcile(self) -> None:
        """Let what is kept fit the configuration: its silences, and what rules remember."""
        pending, wall_now = self._pending(), self._clock.now()
        retention.keep_silences(pending, self._settings.silences, wall_now=wall_now)
        watched = [workspace.workspace for workspace in self._view.workspaces()]
        retention.keep_judged(pending, self.compiled.rules, watched=watched, wall_now=wall_now)
        retention.forget_rules(pending, self._evaluator.compiled.rules)
        await self._step(pending, self.position)

    def _pending(self) -> Draft:
        return Draft(self._tables, wall_now=self._clock.now())

    def _context(self, pending: Draft, status: StoreStatus | None) -> EvaluationContext:
        present = Present(
            self._view,
            self.subjects,
            complete=self._complete,
            now=self._now(),
            wall_now=self._clock.now(),
            bus=status,
            retention=self._retention,
            learned=lambda key: pending.get(LEARNED, key),
            schedules=self._schedules,
        )
        return EvaluationContext(pending, present, self._suppression)

    def _now(self) -> datetime:
        wall, monotonic = self._began
        return wall + timedelta(seconds=self._clock.monotonic() - monotonic)


def _end_of(batch: Batch, after: int) -> int:
    if batch.events:
        return batch.events[-1].position
    return max(after, batch.gap.until) if batch.gap is not None else after
