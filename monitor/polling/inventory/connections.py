"""Polls whether the workspace can open its connections."""

from __future__ import annotations

import structlog

from monitor.catalogue.capabilities import Capability
from monitor.model.errors import (
    NoSuchObjectError,
    NotAvailableError,
    RequestRejectedError,
    WorkspaceError,
)
from monitor.model.inventory import ConnectionKnown
from monitor.polling.inventory.inventory_poll import inventory_poll
from monitor.polling.poll_loop.context import PollContext
from monitor.polling.poll_loop.poll import Poll
from monitor.polling.poll_loop.reads import is_about_the_object
from monitor.tracking.workspace_changes import TrackedValue
from monitor.workspace.priority import Priority

log = structlog.get_logger()

CONNECTION = "connection"
_WAIT_SECONDS = 300.0  # after everything that matters more


class Connections:
    """Reads the status of every visible connection, of the first ones where there are very many."""

    def __init__(self, context: PollContext, *, at_once: int) -> None:
        self._context = context
        self._at_once = at_once
        self._left_out = 0
        self._failure: WorkspaceError | None = None

    def declared(self) -> tuple[Poll, ...]:
        return (
            inventory_poll(
                self._context,
                "connections",
                self.poll,
                forget=self.forget,
                needs=Capability.READ_CONNECTIONS,
            ),
        )

    async def poll(self) -> None:
        """List the connections and read whether each can be opened.

        Raises:
            MonitorError: not all could be read; those that could are known.
        """
        context = self._context
        names = await self._listed()
        chosen = sorted(names, key=_by_number)[: self._at_once]
        self._log_left_out(len(names) - len(chosen))
        self._failure = None
        statuses = {name: await self._status(name) for name in chosen}
        until = context.holds_until()
        known = tuple(
            ConnectionKnown(id=status, name=names[status], is_up=is_up, until=until)
            for status, is_up in statuses.items()
            if is_up is not None
        )
        context.update_inventory(connections=known)
        values = {status.id: _tracked(is_up=status.is_up) for status in known}
        changed = await context.observer.changes.learn_many(
            context.name, CONNECTION, values, unread=names.keys() - values.keys()
        )
        for connection_id in changed:
            state = values[connection_id].shown
            log.info(
                "connection changed", workspace=context.name, connection=connection_id, now=state
            )
        if self._failure is not None:
            raise self._failure

    def forget(self) -> None:
        self._context.update_inventory(connections=())

    async def _listed(self) -> dict[str, str]:
        pages = self._context.client.inventory.connections(
            priority=Priority.INVENTORY, wait_seconds=_WAIT_SECONDS
        )
        return {row.id: row.name or row.id async for page in pages for row in page.rows}

    async def _status(self, connection_id: str) -> bool | None:
        """Return whether it can be opened; None where that is not known."""
        client = self._context.client
        try:
            return await client.inventory.connection_status(connection_id)
        except NoSuchObjectError:
            return None
        except NotAvailableError as error:
            if error.operation_id in client.requester.unavailable:
                raise
            return None  # the token may not read this one
        except RequestRejectedError:
            return False  # the workspace tried and could not
        except WorkspaceError as error:
            if not is_about_the_object(error):
                raise
            self._failure = self._failure or error
            return None

    def _log_left_out(self, count: int) -> None:
        if count > 0 and count != self._left_out:
            log.warning(
                "connections with the highest ids left out",
                workspace=self._context.name,
                left_out=count,
            )
        self._left_out = count


def _tracked(*, is_up: bool) -> TrackedValue:
    word = "up" if is_up else "down"
    return TrackedValue(stored=word, shown=word)


def _by_number(connection_id: str) -> tuple[int, str]:
    return (int(connection_id) if connection_id.isdecimal() else 0, connection_id)
