"""Polls when the access tokens of the token's owner expire; ours is among them."""

from __future__ import annotations

from monitor.catalogue.capabilities import Capability
from monitor.model.inventory import Figures
from monitor.polling.inventory.inventory_poll import inventory_poll
from monitor.polling.poll_loop.context import PollContext
from monitor.polling.poll_loop.poll import Poll
from monitor.workspace.priority import Priority

_SHOWN = 100
_WAIT_SECONDS = 300.0  # after everything that matters more


class Tokens:
    """Reads the list of tokens. One that never expires has no time, so it is not shown."""

    def __init__(self, context: PollContext) -> None:
        self._context = context

    def declared(self) -> tuple[Poll, ...]:
        return (
            inventory_poll(
                self._context, "tokens", self.poll, forget=self.forget, needs=Capability.READ_TOKENS
            ),
        )

    async def poll(self) -> None:
        """List the tokens; of very many those that expire last."""
        context = self._context
        rows = await context.client.inventory.access_tokens(
            priority=Priority.INVENTORY, wait_seconds=_WAIT_SECONDS
        )
        expiries = [(row.expires_at, row.id) for row in rows if row.expires_at is not None]
        # What has expired long ago is no trouble any more; what will expire is.
        shown = sorted(expiries, reverse=True)[:_SHOWN]
        values = {token_id: at.timestamp() for at, token_id in shown}
        created = {row.id: row.created_at.timestamp() for row in rows if row.created_at is not None}
        context.update_inventory(
            tokens=Figures(values=values, until=context.holds_until()),
            tokens_created={name: at for name, at in created.items() if name in values},
        )

    def forget(self) -> None:
        self._context.update_inventory(tokens=None, tokens_created={})
