"""A clock that is fast, and never faster than the machine can follow.

Its seconds pass only while a few small durable writes get through in between. Where threads, the
disk or a database are slow, because other tests run beside, time slows down too: what a daemon
needs several commits for takes about as many of its seconds as on an idle machine.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Awaitable
from datetime import datetime, timedelta
from pathlib import Path
from typing import Protocol

import asyncpg

from tests.clocks import FastClock

_TICK_SECONDS = 0.01
# One chain of requests and commits takes a daemon about so many turns of loop and threads. Where
# others take the processor, each turn is slow, and a step of few turns would overtake the daemon.
_WRITES_IN_A_STEP = 6


class Pace(Protocol):
    """Where the small writes go: to what the daemon's own commits wait for."""

    def write(self) -> Awaitable[object]: ...

    def close(self) -> None: ...


class PaceFile:
    """Writes by a thread, through to the disk."""

    def __init__(self, file: Path) -> None:
        self._file = file.open("wb", buffering=0)

    def write(self) -> Awaitable[object]:
        return asyncio.get_running_loop().run_in_executor(None, self._write_through)

    def close(self) -> None:
        self._file.close()

    def _write_through(self) -> None:
        self._file.seek(0)
        self._file.write(b"tick")
        os.fsync(self._file.fileno())


class PaceDatabase:
    """Commits to a PostgreSQL, on a connection of its own."""

    def __init__(self, url: str) -> None:
        self._url = url
        self._connection: asyncpg.Connection[asyncpg.Record] | None = None

    async def write(self) -> None:
        if self._connection is None:
            self._connection = await asyncpg.connect(self._url, ssl=False)
        await self._connection.execute("SELECT pg_logical_emit_message(true, 'pace', 'tick')")

    def close(self) -> None:
        if self._connection is not None:
            self._connection.terminate()


class PacedClock(FastClock):
    """A `FastClock` that waits in each step for writes to ``pace``. `stop` it at the end."""

    def __init__(self, pace: Pace, *, speed: float, start: datetime) -> None:
        super().__init__(speed=speed, start=start)
        self._pace = pace
        self._write: asyncio.Future[object] | None = None
        self._is_stopped = False
        self.is_held = False  # True: no time passes, until a test sets it again

    async def stop(self) -> None:
        """Let no more time pass."""
        self._is_stopped = True
        if self._write is not None:
            await asyncio.wait([self._write])
        self._pace.close()

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
        self._write = asyncio.ensure_future(self._pace.write())
        self._write.add_done_callback(lambda _: self._write_and_step(writes - 1))
