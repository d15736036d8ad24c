"""The log of a store that has one shard only."""

from __future__ import annotations

from datetime import datetime

from monitor.bus.contract import EventBus, RecordedIn
from monitor.bus.contract.stored_log import Positions


class SoleLog:
    """Reads the log of one shard as that of the store."""

    def __init__(self, shard: EventBus) -> None:
        self._shard = shard

    async def positions(self) -> dict[str, int]:
        return {self._shard.shard: (await self._shard.status()).newest_position}

    async def positions_since(self, recorded_at: datetime) -> dict[str, int]:
        return {self._shard.shard: await self._shard.events_since(recorded_at)}

    async def events(self, after: Positions, *, limit: int) -> list[RecordedIn]:
        name = self._shard.shard
        recorded = await self._shard.events(after=after.get(name, 0), limit=limit)
        return [RecordedIn(entry.position, entry.event, entry.epoch, name) for entry in recorded]

    async def wait(self, after: Positions, *, timeout_seconds: float) -> bool:
        return await self._shard.wait(
            after.get(self._shard.shard, 0), timeout_seconds=timeout_seconds
        )
