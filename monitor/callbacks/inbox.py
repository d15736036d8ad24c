"""Hands stored callbacks to the observer, and settles those that no run will ever confirm."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence

import structlog
from msgspec import Struct

from monitor.bus.contract import EventBus, StoredCallback
from monitor.callbacks.settings import CallbackSettings
from monitor.model.clock import Clock
from monitor.model.errors import BusUnavailableError
from monitor.model.runs import Pipeline, PipelineKind, RunKey, RunKind, Source
from monitor.model.sightings import Outcome, Sighting
from monitor.tracking.observer import Observer

log = structlog.get_logger()

Complete = Callable[[Sequence[Sighting]], Awaitable[list[Sighting]]]
Confirm = Callable[[RunKey], Awaitable[bool | None]]

_BATCH = 200
_TICK_SECONDS = 30.0
# First the poll that the callback woke may show the run; only then is it read by its id.
_FIRST_WAIT_SECONDS = 2.0
_LONGEST_WAIT_SECONDS = 600.0
_STORE_WAIT_SECONDS = 5.0


class _Waiting(Struct, kw_only=True):
    """A callback whose run the workspace has not shown yet. ``due`` is monotonic."""

    callback: StoredCallback
    due: float
    tries: int = 0


class InboxReader:
    """Reads one workspace's inbox in order of arrival. Memory is bounded by the inbox's bound.

    ``complete`` adds job records to ends within its own time limit; ``confirm`` reads one run by
    its id: True when it was observed, False when the workspace denies it, None when it could not
    be asked; ``wake`` asks for one poll.
    """

    def __init__(
        self,
        workspace: str,
        *,
        settings: CallbackSettings,
        bus: EventBus,
        observer: Observer,
        clock: Clock,
        complete: Complete,
        confirm: Confirm,
        wake: Callable[[], None],
    ) -> None:
        self._workspace = workspace
        self._settings = settings
        self._bus = bus
        self._observer = observer
        self._clock = clock
        self._complete = complete
        self._confirm = confirm
        self._wake = wake
        self._arrived = asyncio.Event()
        self._read_until = 0
        self._waiting: dict[int, _Waiting] = {}

    def notify(self) -> None:
        """Say that a callback was stored; never waits."""
        self._arrived.set()
        self._wake()

    async def run(self) -> None:
        """Take callbacks until cancelled. What an earlier life left is taken first."""
        # A restarted reader begins anew: what it held in memory is still in the inbox.
        self._read_until = 0
        self._waiting.clear()
        while True:
            self._arrived.clear()
            try:
                await self.take_all()
            except BusUnavailableError as exc:
                log.warning("inbox waits for the store", workspace=self._workspace, reason=str(exc))
                await self._clock.sleep(_STORE_WAIT_SECONDS)
                continue
            await self._rest()

    async def take_all(self) -> None:
        """Take everything that has arrived and everything that is due."""
        while callbacks := await self._bus.inbox(
            self._workspace, after=self._read_until, limit=_BATCH
        ):
            await self._take(callbacks, tries=0)
            self._read_until = callbacks[-1].id
        now = self._clock.monotonic()
        due = [one for one in self._waiting.values() if one.due <= now]
        for waiting in due:
            await self._insist(waiting)

    async def _take(self, callbacks: Sequence[StoredCallback], *, tries: int) -> None:
        sightings = await self._complete([_sighting(one) for one in callbacks])
        outcomes = await self._observer.observe(sightings)
        for callback, outcome in zip(callbacks, outcomes, strict=True):
            if outcome in (Outcome.UNCONFIRMED, Outcome.NEEDS_DETAIL):
                self._wait_for(callback, tries=tries)
            else:
                self._waiting.pop(callback.id, None)

    def _wait_for(self, callback: StoredCallback, *, tries: int) -> None:
        seconds = min(_FIRST_WAIT_SECONDS * 2.0 ** min(tries, 20), _LONGEST_WAIT_SECONDS)
        due = self._clock.monotonic() + seconds
        self._waiting[callback.id] = _Waiting(callback=callback, due=due, tries=tries)

    async def _insist(self, waiting: _Waiting) -> None:
        """Offer a callback again; if its run is still unknown, ask for it by id."""
        callback = waiting.callback
        await self._take([callback], tries=waiting.tries + 1)
        if callback.id not in self._waiting:
            return
        age_seconds = (self._clock.now() - callback.received_at).total_seconds()
        key = RunKey(self._workspace, callback.kind, callback.run_id)
        exists = await self._confirm(key)
        if exists:
            await self._take([callback], tries=waiting.tries + 1)
        elif exists is False or age_seconds > self._settings.give_up_seconds:
            await self._observer.dismiss([callback.id])
            self._waiting.pop(callback.id, None)

    async def _rest(self) -> None:
        """Wait for the next callback or the next due one, whichever comes first."""
        now = self._clock.monotonic()
        next_due = min((one.due for one in self._waiting.values()), default=now + _TICK_SECONDS)
        sleeping = asyncio.ensure_future(
            self._clock.sleep(min(max(next_due - now, 0.01), _TICK_SECONDS))
        )
        arriving = asyncio.ensure_future(self._arrived.wait())
        try:
            await asyncio.wait((sleeping, arriving), return_when=asyncio.FIRST_COMPLETED)
        finally:
            for task in (sleeping, arriving):
                task.cancel()
            await asyncio.gather(sleeping, arriving, return_exceptions=True)


def _sighting(callback: StoredCallback) -> Sighting:
    is_of_a_flow = callback.flow_id is not None and callback.kind is not RunKind.PLAN_RUN
    pipeline = Pipeline(kind=PipelineKind.FLOW, id=callback.flow_id or "") if is_of_a_flow else None
    return Sighting(
        key=RunKey(callback.workspace, callback.kind, callback.run_id),
        source=Source.CALLBACK,
        seen_at=callback.received_at,
        native_status=callback.native_status,
        pipeline=pipeline,
        inbox_id=callback.id,
    )
