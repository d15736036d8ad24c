"""Attributes a failed read to the object that was read, or to the whole workspace."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from monitor.model.errors import (
    BudgetExhaustedError,
    MonitorError,
    ThrottledError,
    TryLaterError,
    UnauthorizedError,
    WorkspaceError,
)


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
