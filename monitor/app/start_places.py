"""Lets few shards start at a time, and none while the loop is behind.

A thousand at once would leave no time for the heartbeat by which they are held: all would be lost,
and start again.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable

STARTS_AT_ONCE = 8
# How long a shard keeps its place behind its start: its first polls come then.
_FIRST_POLLS_SECONDS = 0.25
_LATE_SECONDS = 0.1  # a loop that comes back later than this is behind
LOOKS = 20  # at a loop that stays behind: then it is others who take the processor


class StartPlaces:
    """Places for shards that start; each is free again by itself."""

    def __init__(
        self,
        *,
        first_polls_seconds: float = _FIRST_POLLS_SECONDS,
        monotonic: Callable[[], float] | None = None,
    ) -> None:
        """``monotonic`` None: the time of the loop itself."""
        self._first_polls_seconds = first_polls_seconds
        self._loop = asyncio.get_running_loop()
        self._monotonic = monotonic or self._loop.time
        self._free = asyncio.Semaphore(STARTS_AT_ONCE)

    async def take(self) -> None:
        """Return when a shard may start."""
        await self._free.acquire()
        self._look_later(LOOKS)

    def _look_later(self, looks: int) -> None:
        due_at = self._monotonic() + self._first_polls_seconds
        self._loop.call_later(self._first_polls_seconds, self._look, due_at, looks - 1)

    def _look(self, due_at: float, looks: int) -> None:
        if looks and self._monotonic() - due_at >= _LATE_SECONDS:
            self._look_later(looks)
        else:
            self._free.release()
