"""Whose fault a failed read is: the one run's that was asked for, or the whole workspace's."""

from __future__ import annotations

from monitor.model.errors import (
    BudgetExhaustedError,
    MonitorError,
    ThrottledError,
    TryLaterError,
    UnauthorizedError,
    WorkspaceError,
)


def is_about_the_run(error: MonitorError) -> bool:
    """True where asking for another run may well succeed, so that attempts are worth counting."""
    if isinstance(error, UnauthorizedError | ThrottledError | BudgetExhaustedError):
        return False
    if isinstance(error, TryLaterError):
        # A 5xx may be this one run's own trouble; no answer at all never is.
        return error.status_code is not None
    return isinstance(error, WorkspaceError)
