"""Follows the event log for the read models: each event is seen once, soon after its commit."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from monitor.bus.contract import EventBus
from monitor.model.events import Event

_BATCH = 200
_WAIT_SECONDS = 60.0

OnEvents = Callable[[Sequence[Event]], None]


class LogFollower:
    """Hands new events to its listeners. Nothing is kept: what was missed is read from the store.

    A listener returns within a fraction of a millisecond, and only marks what has changed.
    """

    def __init__(self, bus: EventBus) -> None:
        self._bus = bus
        self._listeners: list[OnEvents] = []

    def add(self, listener: OnEvents) -> None:
        """Call ``listener`` with every event from now on."""
        self._listeners.append(listener)

    async def run(self) -> None:
        """Follow the log for ever, from its present end."""
        position = (await self._bus.status()).newest_position
        while True:
            if not await self._bus.wait(position, timeout_seconds=_WAIT_SECONDS):
                continue
            recorded = await self._bus.events(after=position, limit=_BATCH)
            if not recorded:
                continue
            position = recorded[-1].position
            events = [entry.event for entry in recorded]
            for listener in self._listeners:
                listener(events)
