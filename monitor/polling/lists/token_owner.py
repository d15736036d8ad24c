"""Who owns the token. Another person's token shows other objects: those of before are hidden."""

from __future__ import annotations

import structlog

from monitor.catalogue.capabilities import Capability
from monitor.model.errors import WorkspaceError
from monitor.polling.context import PollContext
from monitor.polling.poll_loop.failures import is_about_the_object
from monitor.workspace.payloads import PersonRow
from monitor.workspace.priority import Priority

log = structlog.get_logger()


class TokenOwner:
    """Reads the token's owner once, and again where something is missing."""

    def __init__(self, context: PollContext) -> None:
        self._context = context
        self._person: PersonRow | None = None

    async def known(self) -> str | None:
        """Return the owner; None where the workspace does not show it."""
        person = await self.person()
        return person.called if person is not None else None

    async def person(self) -> PersonRow | None:
        """Return the owner with their id."""
        if self._person is None:
            await self.read()
        return self._person

    async def read(self) -> str | None:
        """Return the owner as the workspace shows it now."""
        if not self._context.can(Capability.KNOW_THE_PERSON):
            return None
        try:
            person = await self._context.client.inventory.current_person(
                priority=Priority.SCHEDULES
            )
        except WorkspaceError as error:
            if not is_about_the_object(error):
                raise
            log.info("token owner not readable", reason=str(error))
            return None
        self._person = person
        return person.called
