"""Lets few shards start at a time, and none while the loop is behind.

A thousand at once would leave no time for the heartbeat by which they are held: all would be lost,
and start again.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable

STARTS_AT_ONCE = 8
# How long a shard keeps its slot after its start: its first polls come then.
_FIRST_POLLS_SECONDS = 0.1
_LATE_SECONDS = 0.1  # a loop that comes back later than this is behind
CHECKS = 20  # at a loop that stays behind: then other processes take the processor


class StartSlot:
    """The slot of one shard, which leaves it once: when it has started, or failed to."""

    def __init__(self, *, free: Callable[[], None], free_later: Callable[[], None]) -> None:
        self._free = free
        self._free_later = free_later
        self._is_left = False

    def leave(self, *, is_unused: bool = False) -> None:
        """Let another shard start: at once where this one does not."""
        if not self._is_left:
            self._is_left = True
            (self._free if is_unused else self._free_later)()


class StartSlots:
    """Slots for shards that start; each is free again some time after it was left."""

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

    async def take(self) -> StartSlot:
        """Return a slot when a shard may start."""
        await self._free.acquire()
        return StartSlot(free=self._free.release, free_later=self._check_later)

    def _check_later(self, checks: int = CHECKS) -> None:
        due_at = self._monotonic() + self._first_polls_seconds
        self._loop.call_later(self._first_polls_seconds, self._check, due_at, checks - 1)

    def _check(self, due_at: float, checks: int) -> None:
        if checks and self._monotonic() - due_at >= _LATE_SECONDS:
            self._check_later(checks)
        else:
            self._free.release()
