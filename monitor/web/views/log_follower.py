"""Follows the event log for the read models: each event is seen once, soon after its commit.

Only while a page or a client asks: each daemon that follows reads the events of all shards, and
what no request needs is not kept up to date.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Sequence

from monitor.bus.contract import StoredLog
from monitor.model.clock import Clock
from monitor.model.events import Event

_BATCH = 200
_WAIT_SECONDS = 10.0
_FOLLOWED_SECONDS = 60.0  # after the last request
_BEGIN_SECONDS = 0.5  # that a request waits for the store


class LogFollower:
    """Hands new events to its listener, which only marks that something has changed."""

    def __init__(
        self, log: StoredLog, on_events: Callable[[Sequence[Event]], None], *, clock: Clock
    ) -> None:
        self._log = log
        self._on_events = on_events
        self._clock = clock
        self._requested_at = float("-inf")  # monotonic
        self._is_requested = asyncio.Event()
        self._follows = asyncio.Event()

    async def request(self) -> None:
        """Follow for a while. What is read after this, its listener learns the changes of.

        Where the store does not answer soon, it misses those until following begins.
        """
        self._requested_at = self._clock.monotonic()
        self._is_requested.set()
        if not self._follows.is_set():
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(_BEGIN_SECONDS):
                    await self._follows.wait()

    async def run(self) -> None:
        """Follow the logs of all shards from their present ends, again whenever it is requested.

        Raises:
            BusUnavailableError: viewers learn of it by what cannot be shown.
        """
        while True:
            await self._is_requested.wait()
            try:
                await self._follow(await self._log.positions())
            finally:
                self._follows.clear()

    async def _follow(self, positions: dict[str, int]) -> None:
        self._follows.set()
        while self._clock.monotonic() - self._requested_at < _FOLLOWED_SECONDS:
            if not await self._log.wait(positions, timeout_seconds=_WAIT_SECONDS):
                continue
            recorded = await self._log.events(positions, limit=_BATCH)
            if not recorded:
                continue
            positions |= {entry.shard: entry.position for entry in recorded}
            self._on_events([entry.event for entry in recorded])
        self._is_requested.clear()
