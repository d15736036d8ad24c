"""Whose trouble a failed read is: that of the one thing asked for, or the whole workspace's."""

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


async def one_by_one(*steps: Callable[[], Awaitable[object]]) -> None:
    """Take every step although one before it failed.

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


def is_about_what_was_asked(error: MonitorError) -> bool:
    """True where asking for something else may well succeed, so that attempts count."""
    if isinstance(error, UnauthorizedError | ThrottledError | BudgetExhaustedError):
        return False
    if isinstance(error, TryLaterError):
        # A 5xx may be the trouble of this one run or list; no answer at all never is.
        return error.status_code is not None
    return isinstance(error, WorkspaceError)
