"""When the access tokens of the token's owner expire; ours is among them."""

from __future__ import annotations

from monitor.model.inventory import Figures
from monitor.polling.following import Following
from monitor.workspace.priority import Priority

_SHOWN = 100
_WAIT_SECONDS = 300.0  # behind everything that matters more


class Tokens:
    """Reads the list of tokens. One that never expires has no time, so it is not shown."""

    def __init__(self, following: Following) -> None:
        self._following = following

    async def poll(self) -> None:
        """List the tokens; of very many those that expire last."""
        following = self._following
        rows = await following.client.inventory.access_tokens(
            priority=Priority.INVENTORY, wait_seconds=_WAIT_SECONDS
        )
        expiries = [(row.expires_at, row.id) for row in rows if row.expires_at is not None]
        # What has expired long ago is no trouble any more; what will expire is.
        shown = sorted(expiries, reverse=True)[:_SHOWN]
        values = {token_id: at.timestamp() for at, token_id in shown}
        following.update_inventory(tokens=Figures(values=values, until=following.holds_until()))

    def forget(self) -> None:
        self._following.update_inventory(tokens=None)
