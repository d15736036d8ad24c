"""Declares polls of the inventory: each with its own switch, and never late."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from monitor.catalogue.capabilities import Capability
from monitor.polling.poll_loop.context import PollContext
from monitor.polling.poll_loop.poll import Interval, Poll
from monitor.polling.settings import InventorySettings
from monitor.workspace.priority import Priority


def inventory_poll(
    context: PollContext,
    name: str,
    run: Callable[[], Awaitable[object]],
    *,
    forget: Callable[[], None],
    needs: Capability,
) -> Poll:
    """Return the poll that the setting ``name`` switches on; without any settings it is off."""
    settings = context.inventory or InventorySettings()
    return Poll(
        name=name,
        priority=Priority.INVENTORY,
        timing=Interval(seconds=lambda: settings.interval_seconds, is_expected=False),
        run=run,
        needs=needs,
        is_on=context.inventory is not None and getattr(settings, name),
        forget=forget,
    )
