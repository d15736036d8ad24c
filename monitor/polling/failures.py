"""Whose trouble a failed read is: that of the one thing asked for, or the whole workspace's."""

from __future__ import annotations

from monitor.model.errors import (
    BudgetExhaustedError,
    MonitorError,
    ThrottledError,
    TryLaterError,
    UnauthorizedError,
    WorkspaceError,
)


def is_about_what_was_asked(error: MonitorError) -> bool:
    """True where asking for something else may well succeed, so that attempts count."""
    if isinstance(error, UnauthorizedError | ThrottledError | BudgetExhaustedError):
        return False
    if isinstance(error, TryLaterError):
        # A 5xx may be the trouble of this one run or list; no answer at all never is.
        return error.status_code is not None
    return isinstance(error, WorkspaceError)
