"""Drives the sandbox's work: one task for each thing that takes time.

What belongs to the past happens at once: time jumps from one step to the next.
"""

from __future__ import annotations

import asyncio
import heapq
import types
from collections.abc import Callable, Coroutine, Generator
from datetime import datetime, timedelta
from itertools import count
from typing import Any

from monitor.sandbox.world.shelves import World

Work = Callable[[], Coroutine[Any, None, None]]

_HEARTBEAT_SECONDS = 3_600.0


class Pause:
    """What work hands to its driver: go on with me so many seconds later."""

    __slots__ = ("seconds",)

    def __init__(self, seconds: float) -> None:
        self.seconds = seconds

    def __await__(self) -> Generator[Pause, None, None]:
        yield self


class PastClock:
    """Shows the instant that it was set to. Only `Tasks.live_through` can serve its sleepers."""

    def __init__(self, at: datetime) -> None:
        self.at = at

    def now(self) -> datetime:
        return self.at

    def monotonic(self) -> float:
        return self.at.timestamp()

    async def sleep(self, seconds: float) -> None:
        await Pause(max(0.0, seconds))


class Unfinished:
    """Counts what is under way."""

    def __init__(self) -> None:
        self.count = 0
        self._is_idle = asyncio.Event()
        self._is_idle.set()

    def begin(self) -> None:
        self.count += 1
        self._is_idle.clear()

    def end(self, _: asyncio.Task[None] | None = None) -> None:
        self.count -= 1
        if self.count == 0:
            self._is_idle.set()

    async def idle(self, *, timeout_seconds: float) -> bool:
        """Return True as soon as nothing is under way, False after the time-out (real seconds)."""
        try:
            async with asyncio.timeout(timeout_seconds):
                await self._is_idle.wait()
        except TimeoutError:
            return False
        return True


class Tasks:
    """Runs work in one task group. What begins before `run` waits for it, or for the past."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._waiting: list[tuple[str, Work]] = []
        self._group: asyncio.TaskGroup | None = None
        self._unfinished = Unfinished()
        self.idle = self._unfinished.idle

    def begin(self, name: str, work: Work) -> None:
        """Let ``work`` run beside everything else; a failure in it ends the whole group."""
        self._unfinished.begin()
        if self._group is None:
            self._waiting.append((name, work))
        else:
            self._group.create_task(work(), name=name).add_done_callback(self._unfinished.end)

    def live_through(self, clock: PastClock, *, until: datetime) -> None:
        """Do at once what happens up to ``until``; what is not finished then goes on in `run`.

        ``clock`` must be the world's. Work may wait for it alone.
        """
        numbers = count()  # what is due at one instant goes in the order in which it began
        due: list[tuple[datetime, int, str, Coroutine[Any, None, None]]] = []
        while True:
            begun = [(clock.at, next(numbers), name, work()) for name, work in self._waiting]
            self._waiting.clear()
            for item in begun:
                heapq.heappush(due, item)
            if not due or due[0][0] > until:
                break
            at, _, name, coroutine = heapq.heappop(due)
            clock.at = at
            try:
                pause: Pause = coroutine.send(None)
            except StopIteration:
                self._unfinished.end()
            else:
                again_at = at + timedelta(seconds=pause.seconds)
                heapq.heappush(due, (again_at, next(numbers), name, coroutine))
        clock.at = until
        self._waiting = [
            (name, lambda rest=coroutine, at=at: self._continue(rest, at))  # type: ignore[misc] # the types of defaults
            for at, _, name, coroutine in sorted(due)
        ]

    async def run(self) -> None:
        """Do all work until cancelled; what is then unfinished is abandoned."""
        async with asyncio.TaskGroup() as group:
            self._group = group
            try:
                for name, work in self._waiting:
                    group.create_task(work(), name=name).add_done_callback(self._unfinished.end)
                self._waiting.clear()
                while True:
                    await self._world.clock.sleep(_HEARTBEAT_SECONDS)
            finally:
                self._group = None

    async def _continue(self, rest: Coroutine[Any, None, None], at: datetime) -> None:
        await self._world.clock.sleep((at - self._world.clock.now()).total_seconds())
        await _rest_of(rest)


@types.coroutine
def _rest_of(begun: Coroutine[Any, None, None]) -> Generator[Any, None, None]:
    # ``await`` refuses a coroutine that has begun; this goes on with it where it stands.
    yield from begun
