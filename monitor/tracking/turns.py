"""Batches of observations take turns in each workspace, because runs share pipelines' health."""

from __future__ import annotations

import asyncio
import contextlib
from collections import defaultdict
from collections.abc import AsyncIterator


class Turns:
    """One lock for each workspace."""

    def __init__(self) -> None:
        self._locks: defaultdict[str, asyncio.Lock] = defaultdict(asyncio.Lock)

    @contextlib.asynccontextmanager
    async def of(self, *workspaces: str) -> AsyncIterator[None]:
        """Wait for the turn in all of these workspaces, and hold it."""
        async with contextlib.AsyncExitStack() as turns:
            # In one order, so that two batches that share workspaces cannot wait for each other.
            for workspace in sorted(set(workspaces)):
                await turns.enter_async_context(self._locks[workspace])
            yield

    async def take(self, workspace: str, *, within_seconds: float) -> asyncio.Lock | None:
        """Take the turn, for the caller to release; None where others have it for longer."""
        lock = self._locks[workspace]
        try:
            if not lock.locked():  # as nearly always: a time limit costs more than the lock
                await lock.acquire()
                return lock
            async with asyncio.timeout(within_seconds):
                await lock.acquire()
                return lock
        except TimeoutError:
            return None

    def forget(self, workspace: str) -> None:
        """Drop the lock of a workspace that is no longer watched."""
        self._locks.pop(workspace, None)
