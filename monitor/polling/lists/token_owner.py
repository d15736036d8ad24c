"""The owner of the token. Another person's token shows other objects: the former are hidden."""

from __future__ import annotations

import structlog

from monitor.catalogue.capabilities import Capability
from monitor.model.errors import WorkspaceError
from monitor.polling.poll_loop.context import PollContext
from monitor.polling.poll_loop.reads import is_about_the_object
from monitor.workspace.payloads import PersonRow
from monitor.workspace.priority import Priority

_TRY_AGAIN_SECONDS = 60.0  # several lists ask for the owner, one after the other

log = structlog.get_logger()


class TokenOwner:
    """Reads the token's owner once, and again where something is missing."""

    def __init__(self, context: PollContext) -> None:
        self._context = context
        self._person: PersonRow | None = None
        self._refused_at: float | None = None  # monotonic

    async def known(self) -> str | None:
        """Return the owner; None where the workspace does not show it."""
        person = await self.person()
        return person.called if person is not None else None

    async def person(self) -> PersonRow | None:
        """Return the owner with their id."""
        now = self._context.clock.monotonic()
        is_due = self._refused_at is None or now - self._refused_at >= _TRY_AGAIN_SECONDS
        if self._person is None and is_due:
            await self.read()
        return self._person

    async def read(self) -> str | None:
        """Return the owner as the workspace shows it now."""
        if not self._context.can(Capability.KNOW_THE_PERSON):
            return None
        try:
            # The first lists of flows and schedules wait for it.
            priority = Priority.CHANGES if self._person is None else Priority.SCHEDULES
            person = await self._context.client.inventory.current_person(priority=priority)
        except WorkspaceError as error:
            if not is_about_the_object(error):
                raise
            self._refused_at = self._context.clock.monotonic()
            log.info("token owner not readable", reason=str(error))
            return None
        self._person = person
        return person.called
