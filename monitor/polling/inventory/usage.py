"""The compute usage that the workspace reports for the present month."""

from __future__ import annotations

import structlog

from monitor.catalogue.capabilities import Capability
from monitor.model.inventory import Figures
from monitor.polling.inventory.inventory_poll import inventory_poll
from monitor.polling.poll_loop.context import PollContext
from monitor.polling.poll_loop.poll import Poll

log = structlog.get_logger()

_MEASURES = 50  # more than so many fields are no measures


class Usage:
    """Reads the compute usage from the first of the month (UTC, workspace time) until today."""

    def __init__(self, context: PollContext) -> None:
        self._context = context

    def declared(self) -> tuple[Poll, ...]:
        return (
            inventory_poll(
                self._context, "usage", self.poll, forget=self.forget, needs=Capability.READ_USAGE
            ),
        )

    async def poll(self) -> None:
        """Read what was used; the measures have the names under which they are served."""
        context = self._context
        today = context.workspace_now().date()
        used = await context.client.inventory.compute_usage(today.replace(day=1), today)
        shown = dict(sorted(used.items())[:_MEASURES])
        if len(shown) < len(used):
            log.warning("usage measures left out", workspace=context.name, served=len(used))
        context.update_inventory(usage=Figures(values=shown, until=context.holds_until()))

    def forget(self) -> None:
        self._context.update_inventory(usage=None)
