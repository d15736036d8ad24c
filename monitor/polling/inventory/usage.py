"""What the workspace says it has used in the month that is."""

from __future__ import annotations

import structlog

from monitor.model.inventory import Figures
from monitor.polling.following import Following

log = structlog.get_logger()

_MEASURES = 50  # more than so many fields are no measures


class Usage:
    """Reads the compute usage from the first of the month (UTC, workspace time) until today."""

    def __init__(self, following: Following) -> None:
        self._following = following

    async def poll(self) -> None:
        """Read what was used; the measures have the names under which they are served."""
        following = self._following
        today = following.workspace_now().date()
        used = await following.client.inventory.compute_usage(today.replace(day=1), today)
        shown = dict(sorted(used.items())[:_MEASURES])
        if len(shown) < len(used):
            log.warning("too many measures of usage", workspace=following.name, served=len(used))
        following.update_inventory(usage=Figures(values=shown, until=following.holds_until()))

    def forget(self) -> None:
        self._following.update_inventory(usage=None)
