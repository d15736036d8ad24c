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
        self._before = newest  # the position before the first event in memory
        self._events: list[Recorded] = []
        self._is_over = False
        self._waits: dict[asyncio.Future[bool], int] = {}  # each with its position

    @property
    def is_over(self) -> bool:
        """True where the log will not grow any more."""
        return self._is_over

    @property
    def newest(self) -> int:
        """The last position that this process knows of."""
        return self._newest

    def append(self, events: Sequence[Recorded]) -> None:
        """Add what has become durable, in the order of the log, and wake who waits for it.

        Raises:
            BusLostError: another process has written the log, or its positions have gone back.
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

    def after(self, position: int, *, limit: int) -> tuple[Recorded, ...] | None:
        """Return at most ``limit`` events after it; None where only the file has them."""
        if position < self._before or self._is_over:
            return None
        # Positions have no holes, so the place in the list is a difference.
        start = position - self._before
        return tuple(self._events[start : start + limit])

    async def wait_past(self, position: int, *, timeout_seconds: float) -> bool:
        """Return True once the log is past ``position`` or over, False after the time-out.

        A cancelled call leaves nothing behind.
        """
        if self._newest > position or self._is_over:
            # Waiting in a loop lets others run, a signal to stop included.
            await asyncio.sleep(0)
            return True
        loop = asyncio.get_running_loop()
        wait: asyncio.Future[bool] = loop.create_future()
        limit = loop.call_later(timeout_seconds, _give_up, wait)
        self._waits[wait] = position
        try:
            return await wait
        finally:
            limit.cancel()
            self._waits.pop(wait, None)

    def end(self) -> None:
        """Wake all waiters for good: the log will not grow any more."""
        self._is_over = True
        self._events.clear()
        self._wake()

    def _wake(self) -> None:
        for wait, position in self._waits.items():
            if (self._newest > position or self._is_over) and not wait.done():
                wait.set_result(True)


def _give_up(wait: asyncio.Future[bool]) -> None:
    if not wait.done():
        wait.set_result(False)
