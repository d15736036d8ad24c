"""One way in for callbacks: observed in the batch of their arrival, else kept in the inbox.

Observed at once is a callback of a run that is followed and active and that has nothing to wait
for, by the one commit that also stores it. What arrives during a commit is the next batch.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import NamedTuple

import structlog

from monitor.bus.contract import Received, StoredCallback
from monitor.callbacks.bodies import ended, is_failure, observation_of
from monitor.callbacks.inbox import InboxReader
from monitor.model.errors import BusUnavailableError
from monitor.model.observations import Observation, ObservationOutcome
from monitor.tracking.follower import WorkspaceFollower
from monitor.tracking.live_state import LiveStateView
from monitor.tracking.observer import OBSERVED_AT_ONCE, Observer

log = structlog.get_logger()

Keep = Callable[[StoredCallback], Awaitable[Received]]


class _Arrival(NamedTuple):
    callback: StoredCallback
    observation: Observation
    answer: asyncio.Future[Received | None]  # None: it belongs into the inbox


class CallbackIntake:
    """Takes the callbacks of one workspace.

    Requests add to ``_arrivals``; the observer's work for the workspace takes a batch from it when
    its turn has come. A request that is cancelled leaves its callback to that work.
    """

    def __init__(
        self,
        workspace: str,
        *,
        observer: Observer,
        view: LiveStateView,
        follower: WorkspaceFollower,
        inbox: InboxReader,
    ) -> None:
        self._workspace = workspace
        self._observer = observer
        self._view = view
        self._follower = follower
        self._inbox = inbox
        self._arrivals: list[_Arrival] = []
        self._is_begun = False  # true until the turn of the next batch has come
        self._last: asyncio.Future[None] | None = None  # batch
        self._is_closed = False

    async def close(self) -> None:
        """Finish what has arrived; whatever comes later is kept in the inbox."""
        self._is_closed = True
        while self._last is not None and not self._last.done():
            await asyncio.wait((self._last,))

    async def receive(
        self, callback: StoredCallback, *, keep: Keep, timeout_seconds: float
    ) -> Received:
        """Observe a callback, or keep it in the inbox by ``keep``; durable on return.

        Raises:
            BusUnavailableError: nothing of it was stored, or not within the time; then the sender
                repeats what may be known.
        """
        received = await self._observed(callback, timeout_seconds)
        if received is None:
            received = await keep(callback)
            if received is not Received.FULL:
                self._inbox.notify()
        return received

    async def _observed(self, callback: StoredCallback, timeout_seconds: float) -> Received | None:
        observation = observation_of(callback)
        known = self._view.active_run(observation.key)
        if known is None or self._is_closed:
            return None
        if is_failure(observation) and self._follower.must_wait(observation, known.run):
            return None
        loop = asyncio.get_running_loop()
        answer: asyncio.Future[Received | None] = loop.create_future()
        self._arrivals.append(_Arrival(callback, observation, answer))
        self._begin()
        limit = loop.call_later(timeout_seconds, self._give_up, answer, timeout_seconds)
        try:
            return await answer
        finally:
            limit.cancel()

    def _give_up(self, answer: asyncio.Future[Received | None], after_seconds: float) -> None:
        # The sender repeats it: while the store hangs only requests in flight are held.
        self._arrivals = [arrival for arrival in self._arrivals if arrival.answer is not answer]
        if not answer.done():
            late = f"the store was not free within {after_seconds:g} s"
            answer.set_exception(BusUnavailableError(late))

    def _begin(self) -> None:
        if not self._is_begun:
            self._is_begun = True
            self._last = self._observer.begin(self._workspace, self._observe_batch)

    async def _observe_batch(self) -> None:
        batch, self._arrivals = self._arrivals[:OBSERVED_AT_ONCE], self._arrivals[OBSERVED_AT_ONCE:]
        self._is_begun = False
        if self._arrivals:
            self._begin()
        if not batch:  # all of it was given up
            return
        try:
            observed = await self._observer.observe_callbacks(
                [arrival.callback for arrival in batch],
                [arrival.observation for arrival in batch],
            )
        except Exception as exc:
            for arrival in batch:
                if not arrival.answer.done():
                    arrival.answer.set_exception(exc)
            raise
        for arrival, (_, received) in zip(batch, observed, strict=True):
            if not arrival.answer.done():
                arrival.answer.set_result(received)
        # After the answers and the events, which others wait for.
        asyncio.get_running_loop().call_soon(self._follow_up, batch, [done for done, _ in observed])

    def _follow_up(self, batch: Sequence[_Arrival], outcomes: Sequence[ObservationOutcome]) -> None:
        try:
            ends = ended([arrival.observation for arrival in batch], outcomes)
            if ends:
                self._follower.complete_later(ends)
            self._follower.wake()
        except Exception:
            # The senders have their answer; records that were not requested are found each hour.
            log.exception("callbacks not followed up", count=len(batch))
