"""Waiting on the clock that was handed in, and for something else at the same time."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import TypeVar

from monitor.model.clock import Clock
from monitor.model.waits import happens_within

T = TypeVar("T")
R = TypeVar("R")


async def for_each(
    items: Sequence[T], work: Callable[[T], Awaitable[R]], *, at_once: int, name: str
) -> list[R]:
    """Return the work's results in the order of the items, at most ``at_once`` in progress."""
    room = asyncio.Semaphore(at_once)

    async def one(item: T) -> R:
        async with room:
            return await work(item)

    async with asyncio.TaskGroup() as group:
        tasks = [group.create_task(one(item), name=name) for item in items]
    return [task.result() for task in tasks]


class Bell:
    """A bell between two tasks: however often it rings before somebody looks, it is one ring."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._rung = asyncio.Event()
        self._rung_at: float | None = None

    def ring(self) -> None:
        self._rung_at = self._clock.monotonic()
        self._rung.set()

    def seconds_since(self) -> float | None:
        """Return how long ago it rang last; None before the first time."""
        return None if self._rung_at is None else self._clock.monotonic() - self._rung_at

    async def pause(self, seconds: float) -> bool:
        """Wait ``seconds``, or until it rings, and make it quiet; True where it rang."""
        if not self._rung.is_set():
            await happens_within(
                self._rung.wait(), clock=self._clock, seconds=seconds, name="waiting for a wake"
            )
        rang = self._rung.is_set()
        self._rung.clear()
        return rang
