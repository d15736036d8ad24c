"""Checks whether a workspace answers at all, where no list shows it."""

from __future__ import annotations

from monitor.catalogue.capabilities import Capability
from monitor.polling.poll_loop.context import PollContext
from monitor.polling.poll_loop.poll import Poll, every
from monitor.workspace.priority import Priority


class Liveness:
    """Reads the specification, which every edition serves."""

    def __init__(self, context: PollContext) -> None:
        self._context = context

    def declared(self) -> tuple[Poll, ...]:
        return (
            Poll(
                name="specification",
                priority=Priority.INVENTORY,
                timing=every(self._context.settings.reconcile_seconds),
                run=self.poll,
            ),
        )

    async def poll(self) -> bool:
        """Read the specification; return False, and read nothing, where changes are listed."""
        if self._context.can(Capability.LIST_CHANGES):
            return False
        await self._context.client.operations.open_api_spec(priority=Priority.INVENTORY)
        return True
