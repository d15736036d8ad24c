"""The consumer ``alerting``: from the log and the present to alert events, exactly once.

What a batch or a look changes, the events that it causes and the position behind it are one step
of the store. Whatever ends the process, the next one goes on from the last step that was taken.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from datetime import datetime, timedelta

import structlog

from monitor.alerting.compiled import Compiled, Traits
from monitor.alerting.episodes.draft import (
    ENDED,
    EPISODE,
    LEARNED,
    POSTPONED,
    SILENCE,
    Draft,
    Ended,
    empty_tables,
    tables_of,
)
from monitor.alerting.episodes.firing_runs import FiringRuns
from monitor.alerting.episodes.lifecycle import Pace
from monitor.alerting.episodes.suppression import Suppression
from monitor.alerting.episodes.waking import Wakes
from monitor.alerting.judging import housekeeping
from monitor.alerting.judging.evaluation import (
    Evaluator,
    Guard,
    Sitting,
    changes_suppression,
    suppression_of,
)
from monitor.alerting.judging.first_look import FirstLook, NothingBefore
from monitor.alerting.judging.hearing import Hearing
from monitor.alerting.judging.pictures import Pictures
from monitor.alerting.judging.retiring import Forgetting
from monitor.alerting.judging.rounds import Rounds
from monitor.alerting.settings.engine import AlertingSettings
from monitor.alerting.store import Store
from monitor.alerting.subjects.outermost import Subjects, traits_of
from monitor.alerting.subjects.present import Complete, Present, SchedulesByPipeline
from monitor.alerting.trail import Trail
from monitor.alerting.verdicts import Subject
from monitor.bus.contract import Batch, BusStanding, Retention, Start, Step
from monitor.model.alerts import AlertingPicture, Silence
from monitor.model.clock import Clock
from monitor.model.errors import BusUnavailableError, ConfigurationError
from monitor.model.events import RunEvent
from monitor.model.runs import RunState
from monitor.tracking.knowledge import KnowledgeView

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
        view: KnowledgeView,
        clock: Clock,
        settings: AlertingSettings,
        retention: Retention,
        guard: Guard,
        by_events: bool = False,
    ) -> None:
        """``by_events``: what the view shows changes by the events of the log alone."""
        self.position = 0
        self.trail = Trail()
        self.subjects = Subjects(bus=bus, view=view)
        self._bus = bus
        self._view = view
        self._clock = clock
        self._settings = settings
        self._retention = retention
        self._guard = guard
        self._tables = empty_tables()
        looks_back = FirstLook(bus=bus, subjects=self.subjects, view=view, clock=clock)
        self._rounds = Rounds(
            view=view,
            clock=clock,
            looks_back=NothingBefore() if by_events else looks_back,
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
        self._pictures = Pictures()
        self._forgetting = Forgetting()
        self._use(settings)

    def _use(self, settings: AlertingSettings) -> None:
        self._settings = settings
        pace = Pace(
            flap_count=settings.flap_count,
            flap_seconds=settings.flap_seconds,
            resolved_kept_seconds=settings.resolved_kept_seconds,
        )
        self._evaluator = Evaluator(
            Compiled.of(settings.rules),
            view=self._view,
            guard=self._guard,
            trail=self.trail,
            pace=pace,
        )
        self._hearing = Hearing(
            self._evaluator,
            subjects=self.subjects,
            firing=self._firing,
            view=self._view,
            touch=self._rounds.touch,
            parents_wait_seconds=settings.parents_wait_seconds,
        )
        self._rounds.begin_anew()

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
            self._suppression = suppression_of(self._draft())
            self._firing.restore(tables[EPISODE])
            self._rounds.begin_anew()
            await self._reconcile()
            await self._pictures.learn_all(tables, self.compiled.rules, self._clock)
            self._is_restored = True

    async def take_some(self) -> int:
        """Judge one batch of events and return how far that was; 0 if the log holds nothing new.

        Raises:
            BusUnavailableError: nothing is known of the step; `restore` before the next.
        """
        async with self._step_taking:
            return await self._take_batch()

    async def look(self) -> None:
        """Judge the present as of one moment, after all events that led to it.

        Raises:
            BusUnavailableError: nothing is known of the step; `restore` before the next.
        """
        async with self._step_taking:
            # First how far all is known, then how far the log goes, then the log, then the look:
            # so nothing is missed that had happened, only because it has not been heard yet.
            complete = self._view.complete()
            standing = await self._bus.standing()
            while self.position < standing.newest_position and await self._take_batch():
                pass
            self._complete = complete
            await self.subjects.prepare(one.run for one in self._view.active_runs())
            draft = self._draft()
            await self._hearing.prepare(draft, (), self._bus)
            sitting = self._sitting(draft, standing)
            self._hearing.take_up(sitting)
            await self._rounds.look(sitting, self._evaluator)
            self._sweep(draft)
            await self._step(draft, self.position)
            self._rounds.has_looked()

    def wakes(self) -> Wakes:
        """Return the next moments at which a look may change something though nothing is heard.

        To be asked of an engine whose view changes ``by_events`` alone.
        """
        wakes = self._rounds.wakes()
        waiting = [row.due_at for row in self._tables[POSTPONED].values()]
        ours = min((at for at in (wakes.ours, *waiting) if at is not None), default=None)
        return Wakes(ours=ours, theirs=wakes.theirs)

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
            await self._keep_silence(housekeeping.ended_at(held, now))
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

    def picture(self) -> AlertingPicture:
        """Return what is held now; no later change alters it."""
        return self._pictures.of(self._tables, self._evaluator)

    def ended(self, fingerprint: str) -> tuple[Ended, ...]:
        """Return the episodes that are over, also those that nobody was told of; newest last."""
        found = [
            row for key, row in self._tables[ENDED].items() if key.partition(":")[0] == fingerprint
        ]
        return tuple(sorted(found, key=lambda one: one.alert.starts_at))

    @property
    def compiled(self) -> Compiled:
        return self._evaluator.compiled

    def traits_of(self, run: RunState | None, subject: Subject) -> Traits:
        """Return what rules match by."""
        return traits_of(self._view, subject, run)

    async def _go_on(self) -> None:
        left = self._next_look - self._clock.monotonic()
        if left <= 0:
            await self.look()
            self._next_look = self._clock.monotonic() + self._settings.round_seconds
        elif not await self.take_some():
            await self._bus.wait(self.position, timeout_seconds=left)

    async def _take_batch(self) -> int:
        batch = await self._bus.read(CONSUMER, after=self.position, limit=_BATCH)
        position = _end_of(batch, self.position)
        if position == self.position:
            return 0
        if batch.gap is not None:
            log.warning("events were lost before they were judged", lost=batch.gap.lost)
        events = [one.event for one in batch.events if isinstance(one.event, RunEvent)]
        draft = self._draft()
        if batch.gap is not None:
            housekeeping.forget_awaited(draft, self.compiled.rules)
        await self._hearing.prepare(draft, events, self._bus)
        await self._hear(self._sitting(draft, None), events)
        moved, before = position - self.position, self.position
        self.position = position
        try:
            await self._step(draft, position)
        except BaseException:
            self.position = before
            raise
        return moved

    async def _hear(self, sitting: Sitting, events: Iterable[RunEvent]) -> None:
        for number, event in enumerate(events, 1):
            self._hearing.hear(sitting, event)
            if number % _IN_ONE_GO == 0:
                await self._clock.sleep(0)  # a long batch must not hold up a callback

    async def _step(self, draft: Draft, position: int) -> None:
        now = self._clock.monotonic()
        if draft.is_empty:
            is_stored = position == self._stored_position
            if is_stored or now - self._stored_at < _POSITION_SECONDS:
                return
        step = Step(
            consumer=CONSUMER,
            position=position,
            state=draft.state(),
            events=tuple(draft.events),
        )
        try:
            await self._bus.advance(step, timeout_seconds=_COMMIT_SECONDS)
        except BaseException:
            self._is_restored = False
            raise
        self._stored_position, self._stored_at = position, now
        is_other = changes_suppression(draft)
        draft.apply()
        if is_other:
            self._suppression = suppression_of(self._draft())
        self._firing.changed(draft)
        self._rounds.changed(draft, self._evaluator)
        self._pictures.changed(draft, self.compiled.rules)

    def _sweep(self, draft: Draft) -> None:
        now = self._clock.monotonic()
        if now >= self._next_sweep:
            self._next_sweep = now + self._sweep_seconds
            # Neither clock alone: what a jump ahead drops does not come back with the right time.
            housekeeping.sweep(draft, now=min(self._now(), self._clock.now()))
            self._forgetting.go_on(draft, self._view)

    async def _keep_silence(self, silence: Silence) -> None:
        draft = self._draft()
        draft.put(SILENCE, silence.id, silence)
        await self._step(draft, self.position)

    async def _reconcile(self) -> None:
        """Let what is kept fit the configuration: its silences, and what rules remember."""
        draft, wall_now = self._draft(), self._clock.now()
        housekeeping.keep_silences(draft, self._settings.silences, wall_now=wall_now)
        watched = [one.workspace for one in self._view.workspaces()]
        housekeeping.keep_judged(draft, self.compiled.rules, watched=watched, wall_now=wall_now)
        housekeeping.forget_rules(draft, self._evaluator.compiled.rules)
        await self._step(draft, self.position)

    def _draft(self) -> Draft:
        return Draft(self._tables, wall_now=self._clock.now())

    def _sitting(self, draft: Draft, standing: BusStanding | None) -> Sitting:
        present = Present(
            self._view,
            self.subjects,
            complete=self._complete,
            now=self._now(),
            wall_now=self._clock.now(),
            bus=standing,
            retention=self._retention,
            learned=lambda key: draft.get(LEARNED, key),
            schedules=self._schedules,
        )
        return Sitting(draft, present, self._suppression)

    def _now(self) -> datetime:
        wall, monotonic = self._began
        return wall + timedelta(seconds=self._clock.monotonic() - monotonic)


def _end_of(batch: Batch, after: int) -> int:
    if batch.events:
        return batch.events[-1].position
    return max(after, batch.gap.until) if batch.gap is not None else after
