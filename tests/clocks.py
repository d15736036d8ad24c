"""Clocks for tests: one that a test moves, and one that runs faster than the machine's."""

from __future__ import annotations

import asyncio
import heapq
import itertools
import math
from datetime import UTC, datetime, timedelta

from monitor.model.clock import Clock

_TICK_SECONDS = 0.01


class ManualClock:
    """Shows the time that the test set. Sleepers wake when the test moves past their time."""

    def __init__(self, start: datetime = datetime(2026, 11, 21, 10, tzinfo=UTC)) -> None:
        self._now = start
        self._monotonic = 0.0
        self._sleepers: list[tuple[float, int, asyncio.Future[None]]] = []
        self._order = itertools.count()

    def now(self) -> datetime:
        return self._now

    def monotonic(self) -> float:
        return self._monotonic

    async def sleep(self, seconds: float) -> None:
        if seconds <= 0:
            await asyncio.sleep(0)
            return
        woken: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        heapq.heappush(self._sleepers, (self._monotonic + seconds, next(self._order), woken))
        await woken

    def set_wall(self, now: datetime) -> None:
        """Jump the wall clock, as an operator or NTP does; the monotonic clock stays."""
        self._now = now

    async def advance(self, seconds: float) -> None:
        """Let ``seconds`` pass, waking sleepers in their order and letting each run on."""
        await advance_together(self, seconds=seconds)

    def _next_due(self) -> float:
        return max(self._sleepers[0][0], self._monotonic) if self._sleepers else math.inf

    def _wake_next(self) -> None:
        _, _, woken = heapq.heappop(self._sleepers)
        if not woken.done():
            woken.set_result(None)

    def _move_to(self, monotonic: float) -> None:
        self._now += timedelta(seconds=monotonic - self._monotonic)
        self._monotonic = monotonic


async def advance_together(*clocks: ManualClock, seconds: float) -> None:
    """Let ``seconds`` pass for several machines at once, waking their sleepers in their order.

    An answer under way while one clock is moved before the other would show a difference between
    them that there never was.
    """
    await _settle()
    ends = {clock: clock._monotonic + seconds for clock in clocks}
    while True:
        first = min(clocks, key=lambda clock: clock._next_due() - ends[clock])
        due = first._next_due()
        if due > ends[first]:
            break
        for clock, end in ends.items():
            # Never back, by what floats cannot hold.
            elsewhere = max(clock._monotonic, end - (ends[first] - due))
            clock._move_to(due if clock is first else elsewhere)
        first._wake_next()
        await _settle()
    for clock, end in ends.items():
        clock._move_to(end)
    await _settle()


async def _settle() -> None:
    for _ in range(20):
        await asyncio.sleep(0)


class FastClock(ManualClock):
    """Runs by itself, faster than the machine's clock, in small steps of the event loop.

    The steps are bound to the loop: a process that gets no processor stops its time as well,
    where the machine's clock would jump over what the test waits for.
    """

    def __init__(self, *, speed: float = 4.0, start: datetime | None = None) -> None:
        super().__init__(start or datetime.now(UTC))
        self._step_seconds = speed * _TICK_SECONDS
        self._tick: asyncio.TimerHandle | None = None

    async def sleep(self, seconds: float) -> None:
        if self._tick is None:
            self._start_tick()
        await super().sleep(seconds)

    def _start_tick(self) -> None:
        self._tick = asyncio.get_running_loop().call_later(_TICK_SECONDS, self._step)

    def _step(self) -> None:
        self._tick = None
        self._move_to(self._monotonic + self._step_seconds)
        while self._next_due() <= self._monotonic:
            self._wake_next()
        if self._sleepers:
            self._start_tick()


class SetClock:
    """The clock of another machine: seconds pass as by the first, its wall time is set."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self.ahead = timedelta()

    def now(self) -> datetime:
        return self._clock.now() + self.ahead

    def monotonic(self) -> float:
        return self._clock.monotonic()

    async def sleep(self, seconds: float) -> None:
        await self._clock.sleep(seconds)
