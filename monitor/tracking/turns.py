"""Batches of observations take turns in each workspace, because runs share pipelines' health."""

from __future__ import annotations

import asyncio
import contextlib
from collections import defaultdict
from collections.abc import AsyncIterator


class Turn:
    """The right to change what is known of one workspace; whoever waits first has it first."""

    def __init__(self) -> None:
        self._lock = asyncio.Lock()
        self._waiting = 0

    async def take(self) -> None:
        """Wait for the turn. A cancelled call leaves nothing behind."""
        self._waiting += 1
        try:
            await self._lock.acquire()
        finally:
            self._waiting -= 1

    async def take_within(self, seconds: float) -> bool:
        """Take the turn; False where others have it, or wait for it, for longer."""
        # Between a release and the next in line an unlocked lock is not free.
        if not self._waiting and not self._lock.locked():  # as nearly always: a limit costs more
            return await self._lock.acquire()
        try:
            async with asyncio.timeout(seconds):
                await self.take()
        except TimeoutError:
            return False
        return True

    def give_back(self) -> None:
        self._lock.release()


class Turns:
    """The turn of each workspace."""

    def __init__(self) -> None:
        self._turns: defaultdict[str, Turn] = defaultdict(Turn)

    @contextlib.asynccontextmanager
    async def of(self, *workspaces: str) -> AsyncIterator[None]:
        """Wait for the turn in all of these workspaces, and hold it."""
        taken: list[Turn] = []
        try:
            # In one order, so that two batches that share workspaces cannot wait for each other.
            for workspace in sorted(set(workspaces)):
                turn = self._turns[workspace]
                await turn.take()
                taken.append(turn)
            yield
        finally:
            for turn in taken:
                turn.give_back()

    async def take(self, workspace: str, *, within_seconds: float) -> Turn | None:
        """Take the turn, for the caller to give back; None where others have it for longer."""
        turn = self._turns[workspace]
        return turn if await turn.take_within(within_seconds) else None

    def forget(self, workspace: str) -> None:
        """Drop the turn of a workspace that is no longer watched."""
        self._turns.pop(workspace, None)
