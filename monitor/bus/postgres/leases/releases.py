"""Names shards free for other daemons. Those that are released together go in one statement.

A renewal of the heartbeat waits for one exchange, and not for hundreds, when many shards are handed
over.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from functools import partial

from monitor.bus.postgres.leases import lease_table
from monitor.bus.postgres.leases.heartbeat import Heartbeat


class ShardReleases:
    """Belongs to the event loop. ``on_release`` is called after each statement."""

    def __init__(self, heartbeat: Heartbeat, *, on_release: Callable[[], None]) -> None:
        self._heartbeat = heartbeat
        self._on_release = on_release
        self._waiting: dict[int, int] = {}  # number of a shard -> its epoch
        self._turn = asyncio.Lock()

    async def release(self, number: int, epoch: int) -> None:
        """Return once the row names no holder, or is not this daemon's any more.

        Raises:
            BusUnavailableError: the server did not answer. Where it was asked for several, only
                one caller learns that; the next cycle finds what is held and not hosted.
        """
        self._waiting[number] = epoch
        async with self._turn:
            if number not in self._waiting:
                return  # it went with those of another caller
            waiting, self._waiting = self._waiting, {}
            await self._release_all(waiting)
        self._on_release()

    async def _release_all(self, waiting: Mapping[int, int]) -> None:
        myself = self._heartbeat.myself
        released = await self._heartbeat.run(
            lambda connection: lease_table.release_unlocked(connection, myself, waiting)
        )
        # Waiting for one row cannot meet the locks of a transaction of the writer in a circle.
        for number in waiting.keys() - released:
            await self._heartbeat.run(
                partial(lease_table.release, myself=myself, number=number, epoch=waiting[number])
            )
