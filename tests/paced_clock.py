"""A clock that is fast, and never faster than the machine can follow.

Its seconds pass only while a few small durable writes get through in between. Where threads or the
disk are slow, because other tests run beside, time slows down too: what a daemon needs several
commits for takes about as many of its seconds as on an idle machine.
"""

from __future__ import annotations

import asyncio
import os
from datetime import datetime, timedelta
from pathlib import Path

from tests.clocks import FastClock

_TICK_SECONDS = 0.01
# One chain of requests and commits takes a daemon about so many turns of loop and threads. Where
# others take the processor, each turn is slow, and a step of few turns would overtake the daemon.
_WRITES_IN_A_STEP = 6


class PacedClock(FastClock):
    """A `FastClock` that waits in each step for writes to ``file``. `stop` it at the end."""

    def __init__(self, file: Path, *, speed: float, start: datetime) -> None:
        super().__init__(speed=speed, start=start)
        self._file = file.open("wb", buffering=0)
        self._write: asyncio.Future[None] | None = None
        self._is_stopped = False
        self.is_held = False  # True: no time passes, until a test sets it again

    async def stop(self) -> None:
        """Let no more time pass."""
        self._is_stopped = True
        if self._write is not None:
            await asyncio.wait([self._write])
        self._file.close()

    def set_by(self, seconds: float) -> None:
        """Set the wall clock forward, or back where it is below 0."""
        self.set_wall(self.now() + timedelta(seconds=seconds))

    def _start_tick(self) -> None:
        loop = asyncio.get_running_loop()
        self._tick = loop.call_later(_TICK_SECONDS, self._write_and_step, _WRITES_IN_A_STEP)

    def _write_and_step(self, writes: int) -> None:
        if self._is_stopped:
            return
        if writes == 0:
            if self.is_held:
                self._start_tick()
            else:
                self._step()
            return
        self._write = asyncio.get_running_loop().run_in_executor(None, self._write_through)
        self._write.add_done_callback(lambda _: self._write_and_step(writes - 1))

    def _write_through(self) -> None:
        self._file.seek(0)
        self._file.write(b"tick")
        os.fsync(self._file.fileno())
