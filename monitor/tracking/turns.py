"""One at a time for each run, without a lock kept for every run that ever was."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager

from monitor.model.runs import RunKey


class Turns:
    """Hands out turns on runs. Memory grows with the runs that somebody holds or waits for."""

    def __init__(self) -> None:
        self._locks: dict[RunKey, asyncio.Lock] = {}
        self._users: dict[RunKey, int] = {}

    @asynccontextmanager
    async def hold(self, keys: Iterable[RunKey]) -> AsyncIterator[None]:
        """Hold all of these runs; whoever holds one of them already is waited for."""
        # Taken in one order, so that two batches that share runs cannot wait for each other.
        wanted = sorted(set(keys))
        for key in wanted:
            self._users[key] = self._users.get(key, 0) + 1
        held: list[asyncio.Lock] = []
        try:
            for key in wanted:
                lock = self._locks.setdefault(key, asyncio.Lock())
                await lock.acquire()
                held.append(lock)
            yield
        finally:
            for lock in held:
                lock.release()
            for key in wanted:
                self._leave(key)

    def _leave(self, key: RunKey) -> None:
        self._users[key] -= 1
        if self._users[key] == 0:
            del self._users[key]
            self._locks.pop(key, None)
