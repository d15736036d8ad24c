"""Tells those who wait that the log has grown."""

from __future__ import annotations

import asyncio


class Growth:
    """The newest position of the log, and a way to wait for the next."""

    def __init__(self, newest: int) -> None:
        self._newest = newest
        self._is_over = False
        self._changed = asyncio.Event()

    def reach(self, position: int) -> None:
        """Wake everybody if the log has come further."""
        if position > self._newest:
            self._newest = position
            self._wake()

    def end(self) -> None:
        """Wake everybody for good: the log will not grow any more."""
        self._is_over = True
        self._wake()

    async def beyond(self, position: int) -> bool:
        """Return True when the log is beyond ``position``, False when it has ended before that."""
        while self._newest <= position and not self._is_over:
            await self._changed.wait()
        return not self._is_over

    def _wake(self) -> None:
        # A fresh event for the next round: a single one would have to be cleared, and whoever
        # has not run since would miss it.
        self._changed.set()
        self._changed = asyncio.Event()
