"""The direct way of callbacks: observed in the batch of their arrival, stored by one commit.

Open to a callback of a run that is followed and active, that has nothing to wait for, and whose run
has no callback in the inbox. What arrives during a commit is the next batch.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import NamedTuple

import structlog

from monitor.bus.contract import EventBus, Received, StoredCallback
from monitor.callbacks.reported_runs import ended, observation_of, run_of
from monitor.model.observations import Observation, ObservationOutcome
from monitor.tracking.follower import WorkspaceFollower
from monitor.tracking.live_state import LiveStateView
from monitor.tracking.observer import OBSERVED_AT_ONCE, Observer

log = structlog.get_logger()

# A poll that holds the workspace for longer is not waited for: the inbox takes the callback.
_FREE_WITHIN_SECONDS = 0.05


class _Arrival(NamedTuple):
    callback: StoredCallback
    observation: Observation
    answer: asyncio.Future[Received | None]


class DirectWay:
    """Takes the callbacks of one workspace.

    Requests add to ``_arrivals``; one task at a time empties it, and each of its commits ends
    before the next begins. A request that is cancelled leaves its callback to that task.
    """

    def __init__(
        self,
        *,
        bus: EventBus,
        observer: Observer,
        view: LiveStateView,
        follower: WorkspaceFollower,
    ) -> None:
        self._bus = bus
        self._observer = observer
        self._view = view
        self._follower = follower
        self._arrivals: list[_Arrival] = []
        self._working: asyncio.Task[None] | None = None
        self._is_closed = False

    async def close(self) -> None:
        """Finish what has arrived; whatever comes later belongs into the inbox."""
        self._is_closed = True
        if self._working is not None:
            await asyncio.wait((self._working,))

    async def take(self, callback: StoredCallback) -> Received | None:
        """Observe a callback and return once that is durable; None: it belongs into the inbox.

        Raises:
            BusUnavailableError: nothing of it was stored.
        """
        key = run_of(callback)
        known = self._view.active_run(key)
        if known is None or self._is_closed or self._bus.is_waiting(key):
            return None
        observation = observation_of(callback)
        if self._follower.must_wait(observation, known.run):
            return None
        answer: asyncio.Future[Received | None] = asyncio.get_running_loop().create_future()
        self._arrivals.append(_Arrival(callback, observation, answer))
        if self._working is None:
            self._working = asyncio.create_task(
                self._work(), name=f"callbacks {callback.workspace}: observe directly"
            )
        return await answer

    async def _work(self) -> None:
        try:
            while self._arrivals:
                batch = self._arrivals[:OBSERVED_AT_ONCE]
                del self._arrivals[:OBSERVED_AT_ONCE]
                await self._observe(batch)
        finally:
            self._working = None
            for arrival in self._arrivals:  # only where this task was cancelled
                if not arrival.answer.done():
                    arrival.answer.set_result(None)
            self._arrivals.clear()

    async def _observe(self, batch: Sequence[_Arrival]) -> None:
        try:
            observed = await self._observer.observe_arrived(
                [arrival.callback for arrival in batch],
                [arrival.observation for arrival in batch],
                free_within_seconds=_FREE_WITHIN_SECONDS,
            )
        except Exception as exc:  # noqa: BLE001 - each request raises it
            for arrival in batch:
                if not arrival.answer.done():
                    arrival.answer.set_exception(exc)
            return
        for arrival, (_, received) in zip(batch, observed, strict=True):
            if not arrival.answer.done():
                arrival.answer.set_result(received)
        try:
            self._follow_up(batch, [outcome for outcome, _ in observed])
        except Exception:
            # The senders have their answer; records that nobody asked for are found each hour.
            log.exception("callbacks not followed up", count=len(batch))

    def _follow_up(self, batch: Sequence[_Arrival], outcomes: Sequence[ObservationOutcome]) -> None:
        ends = ended([arrival.observation for arrival in batch], outcomes)
        if ends:
            self._follower.complete_later(ends)
        self._follower.wake()
