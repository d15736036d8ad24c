"""The clock of the worlds: fast, and never faster than the machine can follow.

Its seconds pass only while a small durable write gets through in between. Where threads or the disk
are slow, because other tests run beside, time slows down with them: what a daemon needs several
commits for takes about as many seconds of a world as on an idle machine.
"""

from __future__ import annotations

import asyncio
import os
from datetime import datetime, timedelta
from pathlib import Path

from tests.clocks import FastClock

_TICK_SECONDS = 0.01


class PacedClock(FastClock):
    """A `FastClock` that waits in each step for a write to ``file``. `stop` it at the end."""

    def __init__(self, file: Path, *, speed: float, start: datetime) -> None:
        super().__init__(speed=speed, start=start)
        self._file = file.open("wb", buffering=0)
        self._write: asyncio.Future[None] | None = None
        self._is_stopped = False

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
        self._tick = asyncio.get_running_loop().call_later(_TICK_SECONDS, self._begin_step)

    def _begin_step(self) -> None:
        if self._is_stopped:
            return
        loop = asyncio.get_running_loop()
        self._write = loop.run_in_executor(None, self._write_through)
        self._write.add_done_callback(lambda _: self._step())

    def _write_through(self) -> None:
        self._file.seek(0)
        self._file.write(b"tick")
        os.fsync(self._file.fileno())
