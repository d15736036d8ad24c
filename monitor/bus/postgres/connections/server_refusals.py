"""Classifies an error of a write: its cause, and whether anything can have been kept."""

from __future__ import annotations

import asyncpg
from asyncpg import exceptions as server_errors

from monitor.bus.postgres.connections.connecting import Connection

# Errors of one job and not of the store; the rest of the group is not affected.
JOB_ERRORS = (
    server_errors.DataError,
    server_errors.IntegrityConstraintViolationError,
    server_errors.ProgramLimitExceededError,
    server_errors.CardinalityViolationError,
    server_errors.CharacterNotInRepertoireError,
    asyncpg.InterfaceError,  # values that cannot be sent
    OverflowError,
    UnicodeEncodeError,
)
# After these the same transaction may succeed, on this connection or on a new one.
REPEATED_ERRORS = (
    server_errors.TransactionRollbackError,
    server_errors.FeatureNotSupportedError,  # a plan that a change of the schema has outdated
    server_errors.ReadOnlySQLTransactionError,  # a primary that became a standby
)


def is_refusal(exc: BaseException, connection: Connection) -> bool:
    """True where the server has said that nothing was kept, or was not even asked."""
    if connection.is_closed():
        return False
    if isinstance(exc, asyncpg.PostgresError):
        return getattr(exc, "severity_en", None) == "ERROR"
    return isinstance(exc, asyncpg.InterfaceError)
