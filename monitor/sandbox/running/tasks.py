"""Where the sandbox's work happens: one task for each thing that takes time."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine

from monitor.model.clock import Clock

Work = Callable[[], Coroutine[None, None, None]]

_HEARTBEAT_SECONDS = 3_600.0


class Tasks:
    """Runs work in one task group. What begins before `run` waits for it."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._waiting: list[tuple[str, Work]] = []
        self._group: asyncio.TaskGroup | None = None
        self._unfinished = 0
        self._is_idle = asyncio.Event()
        self._is_idle.set()

    def begin(self, name: str, work: Work) -> None:
        """Let ``work`` run beside everything else; a failure in it ends the whole group."""
        self._unfinished += 1
        self._is_idle.clear()
        if self._group is None:
            self._waiting.append((name, work))
        else:
            self._group.create_task(work(), name=name).add_done_callback(self._finished)

    async def run(self) -> None:
        """Do all work until cancelled; what is then unfinished is abandoned."""
        async with asyncio.TaskGroup() as group:
            self._group = group
            try:
                for name, work in self._waiting:
                    group.create_task(work(), name=name).add_done_callback(self._finished)
                self._waiting.clear()
                while True:
                    await self._clock.sleep(_HEARTBEAT_SECONDS)
            finally:
                self._group = None

    async def idle(self, *, timeout_seconds: float) -> bool:
        """Return True as soon as nothing is under way, False after the time-out (real seconds)."""
        try:
            async with asyncio.timeout(timeout_seconds):
                await self._is_idle.wait()
        except TimeoutError:
            return False
        return True

    def _finished(self, _: asyncio.Task[None]) -> None:
        self._unfinished -= 1
        if self._unfinished == 0:
            self._is_idle.set()
