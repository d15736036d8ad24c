"""Follows the event log for the read models: each event is seen once, soon after its commit."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from monitor.bus.contract import StoredLog
from monitor.model.events import Event

_BATCH = 200
_WAIT_SECONDS = 60.0

OnEvents = Callable[[Sequence[Event]], None]


class LogFollower:
    """Hands new events to its listeners. Nothing is kept: what was missed is read from the store.

    A listener returns within a fraction of a millisecond, and only marks what has changed.
    """

    def __init__(self, log: StoredLog) -> None:
        self._log = log
        self._listeners: list[OnEvents] = []

    def add(self, listener: OnEvents) -> None:
        """Call ``listener`` with every event from now on."""
        self._listeners.append(listener)

    async def run(self) -> None:
        """Follow the logs of all shards for ever, from their present ends."""
        positions = await self._log.positions()
        while True:
            if not await self._log.wait(positions, timeout_seconds=_WAIT_SECONDS):
                continue
            recorded = await self._log.events(positions, limit=_BATCH)
            if not recorded:
                continue
            positions |= {entry.shard: entry.position for entry in recorded}
            events = [entry.event for entry in recorded]
            for listener in self._listeners:
                listener(events)
