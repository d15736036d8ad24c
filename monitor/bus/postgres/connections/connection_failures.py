"""The one place where errors of asyncpg and of the network become ours.

A message never repeats what was sent: asyncpg puts the values of a row into details and hints, so
only the server's own sentence is kept.
"""

from __future__ import annotations

import logging
import os
import re
from collections.abc import Iterator
from contextlib import contextmanager

import asyncpg

from monitor.model.errors import BusUnavailableError

# Python's words, of one address or of several.
_NOT_CONNECTED = re.compile(r"\[Errno (\d+)\] Connect call failed")
# TimeoutError and the errors of TLS are OSErrors.
SERVER_ERRORS = (
    asyncpg.PostgresError,
    asyncpg.InterfaceError,
    asyncpg.InternalClientError,
    OSError,
)

# It logs a traceback for each connection that breaks; each failed attempt is one line of ours.
logging.getLogger("asyncpg").setLevel(logging.CRITICAL)


@contextmanager
def bus_errors(what: str = "the database") -> Iterator[None]:
    """Turn every failure of the server, the network or the driver into `BusUnavailableError`."""
    try:
        yield
    except SERVER_ERRORS as exc:
        raise unavailable(exc, what) from exc


def unavailable(exc: BaseException, what: str = "the database") -> BusUnavailableError:
    """Return the error of ours for one of the server, the network or the driver."""
    return BusUnavailableError(f"{what}: {reason_of(exc)}")


def reason_of(exc: BaseException) -> str:
    """Return what happened, in one line, without values of rows."""
    if isinstance(exc, asyncpg.PostgresError):
        # asyncpg's own errors of this kind have no message of the server.
        return _line(getattr(exc, "message", None) or str(exc.args[0] if exc.args else exc))
    if isinstance(exc, TimeoutError):
        return "no answer in time"
    if isinstance(exc, OSError) and (numbers := _NOT_CONNECTED.findall(str(exc))):
        return ", ".join(dict.fromkeys(os.strerror(int(number)) for number in numbers))
    if isinstance(exc, OSError) and exc.strerror:
        return _line(exc.strerror)
    return _line(str(exc)) or type(exc).__name__


def _line(text: str) -> str:
    return " ".join(text.split())
