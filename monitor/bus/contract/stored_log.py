"""The events of all shards of a store, whichever daemons hold them, in one order."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Protocol

from monitor.bus.contract.data_types import Recorded

Positions = Mapping[str, int]  # by shard


class RecordedIn(Recorded, frozen=True, omit_defaults=True, gc=False):
    """An event, its place in the log of its shard, and that shard; "" is the only one."""

    shard: str = ""


class StoredLog(Protocol):
    """Reads the logs of all shards as one. Every method may raise `BusUnavailableError`."""

    async def positions(self) -> dict[str, int]:
        """Return the newest position of each shard."""

    async def positions_since(self, recorded_at: datetime) -> dict[str, int]:
        """Return of each shard the position before what was recorded then or later."""

    async def events(self, after: Positions, *, limit: int) -> list[RecordedIn]:
        """Return at most ``limit`` events after those positions.

        They come in the order in which they were recorded, of one shard in that of its log. A shard
        that is not named in ``after`` is new, and read from its beginning.
        """

    async def wait(self, after: Positions, *, timeout_seconds: float) -> bool:
        """Return True once there may be events after ``after``, False after the time-out.

        A cancelled call leaves nothing behind.
        """
