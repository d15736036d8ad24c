"""Names of the people who own flows and plans; most lists show only their ids."""

from __future__ import annotations

from collections.abc import Iterable

import structlog

from monitor.model.errors import NotAvailableError, TryLaterError, UnauthorizedError, WorkspaceError
from monitor.polling.lists.token_owner import TokenOwner
from monitor.polling.poll_loop.context import PollContext
from monitor.workspace.priority import Priority

log = structlog.get_logger()

_READ_AT_ONCE = 20  # the others are read beside the next lists
_AT_MOST = 10_000  # people whose names are kept


class PipelineOwners:
    """Reads each person once, as far as the token may: many tokens show only their own owner."""

    def __init__(self, context: PollContext, *, token_owner: TokenOwner) -> None:
        self._context = context
        self._token_owner = token_owner
        self._names: dict[str, str] = {}
        self._reads_others = False

    def name_of(self, person_id: str | None) -> str | None:
        """Return the person's email address or name, or the id where those are not shown."""
        if person_id is None:
            return None
        return self._names.get(person_id, _named_by_id(person_id))

    async def read(self, person_ids: Iterable[str | None], *, priority: Priority) -> None:
        """Read some of those people whose names are not known yet."""
        token_owner = await self._token_owner.person()
        if token_owner is not None:
            self._names[token_owner.id] = token_owner.called
        unknown = {id_ for id_ in person_ids if id_ is not None} - self._names.keys()
        room = max(0, _AT_MOST - len(self._names))
        for person_id in sorted(unknown)[: min(_READ_AT_ONCE, room)]:
            try:
                person = await self._context.client.inventory.person(person_id, priority=priority)
            except WorkspaceError as error:
                log.info("owner not readable", person=person_id, reason=str(error))
                is_shut = error.operation_id in self._context.client.requester.unavailable
                if is_shut or isinstance(error, TryLaterError | UnauthorizedError):
                    return  # the next lists try it again
                self._names[person_id] = _named_by_id(person_id)
                if isinstance(error, NotAvailableError) and not self._reads_others:
                    return  # perhaps the token may see none: the next lists try another one
            else:
                self._names[person_id] = person.called
                self._reads_others = True


def _named_by_id(person_id: str) -> str:
    return f"person {person_id}"
