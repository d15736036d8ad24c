"""Follows the event log for the read models: each event is seen once, soon after its commit.

Only while somebody looks: a log of many daemons has the events of all of them.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Sequence

from monitor.bus.contract import StoredLog
from monitor.model.clock import Clock
from monitor.model.events import Event

_BATCH = 200
_WAIT_SECONDS = 60.0
_BEGIN_SECONDS = 1.0
FOLLOWED_SECONDS = 90.0  # behind the last look; longer than anything that is read is kept

OnEvents = Callable[[Sequence[Event]], None]


class LogFollower:
    """Hands new events to its listeners. Nothing is kept: what was missed is read from the store.

    A listener returns within a fraction of a millisecond, and only marks what has changed.
    """

    def __init__(self, log: StoredLog, *, clock: Clock) -> None:
        self._log = log
        self._clock = clock
        self._listeners: list[OnEvents] = []
        self._looked_at = float("-inf")  # monotonic
        self._is_looked_at = asyncio.Event()
        self._is_following = asyncio.Event()

    def add(self, listener: OnEvents) -> None:
        """Call ``listener`` with every event while the log is followed."""
        self._listeners.append(listener)

    async def look(self) -> bool:
        """Follow for a while from now on; True where every event from now on will be seen."""
        self._looked_at = self._clock.monotonic()
        self._is_looked_at.set()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(_BEGIN_SECONDS):
                await self._is_following.wait()
        return self._is_following.is_set()

    async def run(self) -> None:
        """Follow the logs of all shards while somebody looks, each time from their ends then."""
        while True:
            await self._is_looked_at.wait()
            positions = await self._log.positions()
            self._is_following.set()
            try:
                await self._follow(positions)
            finally:
                self._is_following.clear()
            self._is_looked_at.clear()

    async def _follow(self, positions: dict[str, int]) -> None:
        while self._clock.monotonic() - self._looked_at < FOLLOWED_SECONDS:
            if not await self._log.wait(positions, timeout_seconds=_WAIT_SECONDS):
                continue
            recorded = await self._log.events(positions, limit=_BATCH)
            if not recorded:
                continue
            positions |= {entry.shard: entry.position for entry in recorded}
            events = [entry.event for entry in recorded]
            for listener in self._listeners:
                listener(events)
