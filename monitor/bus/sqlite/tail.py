"""The end of the log in memory: consumers that keep up read here and not in the file."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from monitor.bus.contract import Recorded
from monitor.model.errors import BusLostError

EVENTS_KEPT = 2_000


class LogTail:
    """The newest events without a hole, and a way to wait for more."""

    def __init__(self, newest: int) -> None:
        self._newest = newest
        self._before = newest  # the position in front of the first event in memory
        self._events: list[Recorded] = []
        self._is_over = False
        self._changed = asyncio.Event()

    @property
    def newest(self) -> int:
        """The last position that this process knows of."""
        return self._newest

    def append(self, events: Sequence[Recorded]) -> None:
        """Add what has become durable, in the order of the log, and wake who waits for it.

        Raises:
            BusLostError: somebody else has written the log, or its positions have gone back.
        """
        if events[0].position != self._newest + 1:
            raise BusLostError(
                f"the log was changed by another program: position {events[0].position} follows "
                f"{self._newest}"
            )
        self._events.extend(events)
        self._newest = events[-1].position
        if len(self._events) > 2 * EVENTS_KEPT:  # seldom, because it moves all that stays
            del self._events[:-EVENTS_KEPT]
            self._before = self._events[0].position - 1
        self._wake()

    def drop(self) -> None:
        """Empty the memory, because retention has cut the log."""
        self._events.clear()
        self._before = self._newest

    def behind(self, position: int, *, limit: int) -> tuple[Recorded, ...] | None:
        """Return at most ``limit`` events behind it; None where only the file has them."""
        if position < self._before or self._is_over:
            return None
        # Positions have no holes, so the place in the list is a difference.
        start = position - self._before
        return tuple(self._events[start : start + limit])

    async def wait_past(self, position: int) -> bool:
        """Return True once the log is past ``position``, False if it ends before that.

        A cancelled call leaves nothing behind.
        """
        while self._newest <= position and not self._is_over:
            await self._changed.wait()
        return not self._is_over

    def end(self) -> None:
        """Wake everybody for good: the log will not grow any more."""
        self._is_over = True
        self._wake()

    def _wake(self) -> None:
        # A new event for the next wait: a single one would have to be cleared, and a task that
        # has not run since would miss it.
        self._changed.set()
        self._changed = asyncio.Event()
