"""Reads: each attempted, small ones, and what a failed one is about."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from monitor.catalogue.operations import operation
from monitor.model.errors import (
    BudgetExhaustedError,
    MonitorError,
    ThrottledError,
    TryLaterError,
    UnauthorizedError,
    UnreadableAnswerError,
    WorkspaceError,
)
from monitor.workspace.client import WorkspaceClient
from monitor.workspace.foreign_answers import is_of_shape
from monitor.workspace.priority import Priority


async def attempt_each(*steps: Callable[[], Awaitable[object]]) -> None:
    """Run every step, also after one that failed.

    Raises:
        MonitorError: the first failure.
    """
    first: MonitorError | None = None
    for step in steps:
        try:
            await step()
        except MonitorError as error:
            first = first or error
    if first is not None:
        raise first


def is_about_the_object(error: MonitorError) -> bool:
    """True where reading another object may well succeed, so that attempts count."""
    if isinstance(error, UnauthorizedError | ThrottledError | BudgetExhaustedError):
        return False
    if isinstance(error, TryLaterError):
        # A 5xx may concern this one run or list only; no answer at all never does.
        return error.status_code is not None
    return isinstance(error, WorkspaceError)


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
