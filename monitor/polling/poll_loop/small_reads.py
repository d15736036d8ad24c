"""Reads a little of one operation: enough to see whether the API answers it."""

from __future__ import annotations

from monitor.catalogue.operations import operation
from monitor.model.errors import UnreadableAnswerError
from monitor.workspace.client import WorkspaceClient
from monitor.workspace.foreign_answers import is_of_shape
from monitor.workspace.priority import Priority


async def read_a_little(
    client: WorkspaceClient, operation_id: str, *, is_probe: bool = False
) -> None:
    """Return when the operation is answered well. It takes no id. ``is_probe``: see `Requester`.

    Raises:
        WorkspaceError: as `Requester.request`; an answer of another shape proves nothing either.
    """
    query = {"limit": 1} if "limit" in operation(operation_id).query else None
    answer = await client.requester.request(
        operation_id, query=query, priority=Priority.CHANGES, is_probe=is_probe
    )
    if not is_of_shape(operation_id, answer.body):
        raise UnreadableAnswerError(
            f"{operation_id} answered {answer.status_code}, but not as the API: another shape",
            operation_id=operation_id,
            status_code=answer.status_code,
        )
