"""Passes stored callbacks to the observer, and dismisses those that no run will ever confirm.

The tasks ``take`` and ``ask``, and one task for each batch, share the two queues; these change only
under ``_turn``, or without an await in between. ``take`` alone moves ``_read_until``. A cancelled
run loses nothing: what it had not observed is still in the inbox, which the next run reads from the
start, and what waits in the queues is due when it was.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Sequence

import structlog
from msgspec import Struct

from monitor.bus.contract import EventBus, StoredCallback
from monitor.callbacks.bodies import ended, observations_of, run_of
from monitor.callbacks.settings import CallbackSettings
from monitor.model.bounded_memory import BoundedMemory
from monitor.model.clock import Clock
from monitor.model.due_queue import DueQueue
from monitor.model.errors import WorkspaceError
from monitor.model.observations import Observation, ObservationOutcome
from monitor.model.runs import RunKey
from monitor.model.waits import happens_within
from monitor.tracking.follower import WorkspaceFollower
from monitor.tracking.observer import OBSERVED_AT_ONCE, Observer

log = structlog.get_logger()

# Large, because the ends of one batch wait for their job records together.
_BATCH = 1_000
_TICK_SECONDS = 30.0
# First the poll that the callback woke may show the run; only then is it read by its id.
_FIRST_WAIT_SECONDS = 2.0
_ASK_TICK_SECONDS = 0.5
# Observing again whether the run is known by now costs no request, asking for it does.
_LONGEST_RETRY_WAIT_SECONDS = 60.0
_LONGEST_CONFIRMATION_WAIT_SECONDS = 600.0


class _Waiting(Struct, kw_only=True):
    """A callback whose run is not confirmed yet."""

    callback: StoredCallback
    since: float  # on the monotonic clock: no clock that is set makes anything hopeless


class InboxReader:
    """Reads one workspace's inbox in order of arrival. Memory is bounded by the inbox's bound.

    Runs are confirmed by the ``follower`` one by one, ``ask_gap_seconds`` apart, beside the
    reading: a slow workspace holds up no callback of a known run, and a thousand forged ids cost
    what their share of the budget allows.

    What arrives within ``gather_seconds`` is completed together; up to ``batches`` wait for their
    job records at the same time, and are observed in the order of their arrival.
    """

    def __init__(
        self,
        workspace: str,
        *,
        settings: CallbackSettings,
        bus: EventBus,
        observer: Observer,
        clock: Clock,
        follower: WorkspaceFollower,
        ask_gap_seconds: float = 1.0,
        gather_seconds: float = 0.0,
        batches: int = 1,
    ) -> None:
        self._workspace = workspace
        self._settings = settings
        self._bus = bus
        self._observer = observer
        self._clock = clock
        self._follower = follower
        self._ask_gap_seconds = ask_gap_seconds
        self._gather_seconds = gather_seconds
        self._batches = batches
        self._room = asyncio.Semaphore(batches)
        self._newest: asyncio.Task[None] | None = None  # batch; the next one is observed after it
        self._kept_waiting: Counter[RunKey] = Counter()  # runs with a callback that waits
        self._arrived = asyncio.Event()
        self._read_until = 0
        # By the ids of callbacks, which the store bounds: due to be observed again, and asked for.
        self._waiting: DueQueue[int, _Waiting] = DueQueue(
            clock,
            bound=None,
            base_seconds=_FIRST_WAIT_SECONDS,
            cap_seconds=_LONGEST_RETRY_WAIT_SECONDS,
        )
        self._asks: DueQueue[int, None] = DueQueue(
            clock,
            bound=None,
            base_seconds=_FIRST_WAIT_SECONDS,
            cap_seconds=_LONGEST_CONFIRMATION_WAIT_SECONDS,
        )
        self._waited_before: frozenset[int] = frozenset()  # when the run began
        # By callback, with the details that were read: until that is stored.
        self._complete: BoundedMemory[int, Observation] = BoundedMemory(_BATCH)
        # What one of the two tasks has processed the other must not revive.
        self._turn = asyncio.Lock()

    def notify(self) -> None:
        """Report that a callback was stored; never waits."""
        self._arrived.set()
        self._follower.wake()

    async def run(self) -> None:
        """Take callbacks until cancelled. What an earlier life left is taken first.

        Raises:
            ExceptionGroup: of a `BusUnavailableError`; the next run takes what is left.
        """
        self._read_until = 0
        self._waited_before = frozenset(self._waiting)
        self._room = asyncio.Semaphore(self._batches)
        self._newest = None
        self._kept_waiting.clear()
        async with asyncio.TaskGroup() as group:
            group.create_task(self._take_on(group), name=f"inbox {self._workspace}: take")
            group.create_task(self._confirm_on(), name=f"inbox {self._workspace}: confirm")

    async def _take_on(self, group: asyncio.TaskGroup) -> None:
        while True:
            self._arrived.clear()
            await self._start_on_arrivals(group)
            await self._take_due()
            await self._wait_for_work()

    async def _confirm_on(self) -> None:
        while True:
            await self.ask_one()
            due = self._asks.seconds_until_due()
            wait = _ASK_TICK_SECONDS if due is None else min(due, _ASK_TICK_SECONDS)
            await self._clock.sleep(max(wait, self._ask_gap_seconds))

    async def take_all(self) -> None:
        """Take everything that has arrived, and observe unknown runs again."""
        async with asyncio.TaskGroup() as group:
            await self._start_on_arrivals(group)
        await self._take_due()

    async def _start_on_arrivals(self, group: asyncio.TaskGroup) -> None:
        while True:
            await self._room.acquire()
            arrivals = await self._bus.inbox(self._workspace, after=self._read_until, limit=_BATCH)
            if not arrivals.callbacks:
                self._room.release()
                return
            self._read_until = arrivals.until
            # What has waited is in the queues still, or was processed since.
            callbacks = [
                callback
                for callback in arrivals.callbacks
                if callback.id not in self._waited_before
            ]
            if self._batches == 1:  # what arrives during its commit is the next batch
                await self._take_after(None, callbacks)
                continue
            self._newest = group.create_task(
                self._take_after(self._newest, callbacks),
                name=f"inbox {self._workspace}: batch after {self._read_until}",
            )
            await self._clock.sleep(self._gather_seconds)

    async def _take_after(
        self, before: asyncio.Task[None] | None, callbacks: Sequence[StoredCallback]
    ) -> None:
        """Take what need not wait at once, and the failures after those of the batch before."""
        runs: Counter[RunKey] = Counter()
        try:
            prompt, waiting = await self._parted(callbacks)
            runs.update(run_of(callback) for callback in waiting)
            self._kept_waiting += runs
            if prompt:
                async with self._turn:
                    await self._observe(prompt, observations_of(prompt), has_waited=False)
            if waiting:
                observations = await self._completed(waiting)
                if before is not None:
                    await asyncio.wait((before,))
                async with self._turn:
                    await self._observe(waiting, observations, has_waited=True)
        finally:
            self._kept_waiting -= runs
            self._room.release()
        if before is not None:  # the next batch waits for this one, and by that for all before it
            await asyncio.wait((before,))

    async def _parted(
        self, callbacks: Sequence[StoredCallback]
    ) -> tuple[list[StoredCallback], list[StoredCallback]]:
        """Return what can be observed at once, and what waits: each run's callbacks in order."""
        observations = observations_of(callbacks)
        known = await self._observer.known({observation.key for observation in observations})
        prompt: list[StoredCallback] = []
        waiting: list[StoredCallback] = []
        runs = set(self._kept_waiting)
        for callback, observation in zip(callbacks, observations, strict=True):
            run = known.get(observation.key)
            if observation.key in runs or (
                run is not None and self._follower.must_wait(observation, run)
            ):
                runs.add(observation.key)
                waiting.append(callback)
            else:
                prompt.append(callback)
        return prompt, waiting

    async def _take_due(self) -> None:
        while due := self._waiting.due(_BATCH):
            await self._observe_again(due)

    async def ask_one(self) -> bool:
        """Read one run that is still unknown by its id; False where none is due."""
        due = self._asks.due(1)
        for callback_id in due:
            await self._confirm_by_id(callback_id)
        return bool(due)

    async def _observe_again(self, callback_ids: Sequence[int]) -> None:
        # Those that were processed in the meantime are not waiting any more.
        waiting = [
            self._waiting[waiting_id].callback
            for waiting_id in callback_ids
            if waiting_id in self._waiting
        ]
        prompt, later = await self._parted(waiting)
        if prompt:
            await self._observe_waiting(prompt, observations_of(prompt), has_waited=False)
        if later:
            await self._observe_waiting(later, await self._completed(later), has_waited=True)

    async def _observe_waiting(
        self,
        callbacks: Sequence[StoredCallback],
        observations: Sequence[Observation],
        *,
        has_waited: bool,
    ) -> None:
        async with self._turn:
            pairs = zip(callbacks, observations, strict=True)
            still = [pair for pair in pairs if pair[0].id in self._waiting]
            if still:
                await self._observe(
                    [callback for callback, _ in still],
                    [observation for _, observation in still],
                    has_waited=has_waited,
                )

    async def _completed(self, callbacks: Sequence[StoredCallback]) -> list[Observation]:
        # A store that does not answer costs none of the details again.
        observations = [
            self._complete.get(callback.id) or observation
            for callback, observation in zip(callbacks, observations_of(callbacks), strict=True)
        ]
        try:
            completed = await self._follower.complete(observations)
        except WorkspaceError as exc:
            # An end without its job records is better than none; they are read later.
            log.info("callback details unavailable", reason=str(exc))
            return observations
        for callback, observation in zip(callbacks, completed, strict=True):
            if observation.is_detail_final:
                self._complete.put(callback.id, observation)
        return completed

    async def _observe(
        self,
        callbacks: Sequence[StoredCallback],
        observations: Sequence[Observation],
        *,
        has_waited: bool,
    ) -> None:
        for start in range(0, len(callbacks), OBSERVED_AT_ONCE):
            piece = slice(start, start + OBSERVED_AT_ONCE)
            outcomes = await self._observer.observe(observations[piece])
            if not has_waited and (ends := ended(observations[piece], outcomes)):
                self._follower.complete_later(ends)
            for callback, outcome in zip(callbacks[piece], outcomes, strict=True):
                if outcome in (ObservationOutcome.UNCONFIRMED, ObservationOutcome.NEEDS_DETAIL):
                    self._wait_for(callback)
                else:
                    self._forget(callback.id)

    def _wait_for(self, callback: StoredCallback) -> None:
        if callback.id not in self._waiting:
            waiting = _Waiting(callback=callback, since=self._clock.monotonic())
            self._waiting.put(callback.id, waiting)
            self._asks.put(callback.id, None, after_seconds=_FIRST_WAIT_SECONDS)
        self._waiting.retry(callback.id)

    def _forget(self, callback_id: int) -> None:
        self._waiting.remove(callback_id)
        self._asks.remove(callback_id)
        self._complete.forget(callback_id)

    async def _confirm_by_id(self, callback_id: int) -> None:
        """Observe the run again; if it is still unknown, read it by its id."""
        await self._observe_again([callback_id])
        waiting = self._waiting.get(callback_id)
        if waiting is None:
            return
        key = run_of(waiting.callback)
        exists, is_read = await self._exists(key), False
        if exists:
            await self._observe_again([callback_id])
            is_read = key in await self._observer.known([key])
        async with self._turn:
            if callback_id not in self._waiting:
                return
            self._asks.retry(callback_id)
            # Before retention drops the callback from the store: retention counts it then.
            waits_seconds = self._asks.due_at(callback_id) - waiting.since
            is_hopeless = waits_seconds > self._settings.give_up_seconds
            # Read, and of no known flow still: that read has told what the callback could.
            if exists is False or is_read or is_hopeless:
                await self._observer.dismiss([callback_id])
                self._forget(callback_id)

    async def _exists(self, key: RunKey) -> bool | None:
        try:
            return await self._follower.confirm(key)
        except WorkspaceError as exc:
            log.info("callback run not readable", reason=str(exc))
            return None

    async def _wait_for_work(self) -> None:
        """Wait for the next callback or the next due one, whichever comes first.

        A cancelled call leaves nothing behind.
        """
        due = self._waiting.seconds_until_due()
        wait = _TICK_SECONDS if due is None else min(max(due, 0.01), _TICK_SECONDS)
        await happens_within(
            self._arrived.wait(),
            clock=self._clock,
            seconds=wait,
            name=f"inbox {self._workspace}: wait for a callback",
        )
