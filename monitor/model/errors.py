"""Every failure the monitor knows, as one tree. The type decides what a caller may do next.

::

    MonitorError
    ├── ConfigurationError            wrong settings; never retried
    │   └── AddressError                an address cannot be listened on
    ├── PayloadError                  a body or row that cannot be read; skipped and counted
    ├── WorkspaceError                something between us and a workspace
    │   ├── TryLaterError             may pass by itself
    │   │   ├── WorkspaceUnreachableError   no answer of the API, or 5xx until the retries ran out
    │   │   ├── ThrottledError              429; carries how long to wait
    │   │   ├── BudgetExhaustedError        our own request budget has no room in time
    │   │   ├── LeaseUncertainError         the shard may be another daemon's; nothing was sent
    │   │   └── DoubtedListError            a list lacks what must be in it
    │   ├── UnauthorizedError         401: the token is absent, expired or revoked
    │   ├── NotAvailableError         403, 404 RouteNotFoundException: a missing capability
    │   ├── NoSuchObjectError         404 DataNotFoundException, 410: no such object
    │   ├── RequestRejectedError      any other 4xx: our request is wrong
    │   └── UnreadableAnswerError     not JSON, wrong shape, or larger than allowed
    ├── DaemonUnreachableError        no daemon answers a command
    ├── DaemonBusyError               the daemon answers a command that it cannot now
    ├── LocalFileError                a file of this machine cannot be read or written
    ├── BusError
    │   ├── BusUnavailableError       nothing was stored; the caller may commit again
    │   │   └── BusLostError              not ours any more, or damaged; the daemon ends
    │   ├── BusLockedError              another daemon has locked the store
    │   ├── BusFullError              a bound of what is stored is reached
    │   └── BusSchemaError            a newer version wrote the store, or it is damaged
    └── OutputError
        ├── OutputUnavailableError    delivery may be tried again
        │   └── OutputConnectionLostError   it broke while this event was on its way
        └── OutputRefusedError        refused for good; becomes a dead letter
"""

from __future__ import annotations


class MonitorError(Exception):
    """Root of the tree; caught only where any failure means the same."""


class ConfigurationError(MonitorError):
    """The settings cannot be used; ``problems`` has one sentence for each problem."""

    def __init__(self, problems: list[str] | str) -> None:
        self.problems = [problems] if isinstance(problems, str) else list(problems)
        super().__init__("; ".join(self.problems))


class AddressError(ConfigurationError):
    """An address of the configuration cannot be listened on now."""


class PayloadError(MonitorError):
    """A body or a row is not what it should be. Never holds the body itself."""


class WorkspaceError(MonitorError):
    """Something went wrong between us and a workspace.

    ``operation_id`` is the catalogue's name of what was asked, ``status_code`` the HTTP status
    where there was one, ``exception_name`` the workspace's own word for the failure. ``details``
    is the rest of its answer: for the author of the request and for no log, since it may repeat
    what was sent.
    """

    def __init__(
        self,
        message: str,
        *,
        operation_id: str | None = None,
        status_code: int | None = None,
        exception_name: str | None = None,
        details: str = "",
    ) -> None:
        super().__init__(message)
        self.operation_id = operation_id
        self.status_code = status_code
        self.exception_name = exception_name
        self.details = details


class TryLaterError(WorkspaceError):
    """The same request may succeed later without anybody changing anything."""


class WorkspaceUnreachableError(TryLaterError):
    """No answer, or only 5xx, until the retries ran out; or an answer that is not the API's."""


class ThrottledError(TryLaterError):
    """The workspace's own quota is used up for ``retry_after_seconds``."""

    def __init__(
        self,
        message: str,
        *,
        retry_after_seconds: float,
        operation_id: str | None = None,
        status_code: int | None = 429,
        exception_name: str | None = None,
        details: str = "",
    ) -> None:
        super().__init__(
            message,
            operation_id=operation_id,
            status_code=status_code,
            exception_name=exception_name,
            details=details,
        )
        self.retry_after_seconds = retry_after_seconds


class BudgetExhaustedError(TryLaterError):
    """Our request budget had no room within the time that the caller allowed; nothing was sent."""


class LeaseUncertainError(TryLaterError):
    """This daemon does not surely hold the workspace's shard any more; nothing was sent."""


class DoubtedListError(TryLaterError):
    """A list lacks rows that must be in it; nothing may follow from what it does not show."""


class UnauthorizedError(WorkspaceError):
    """The token is absent, expired or revoked."""


class NotAvailableError(WorkspaceError):
    """A missing capability: the operation is outside the edition, or the token may not use it."""


class NoSuchObjectError(WorkspaceError):
    """The operation exists and the object does not, or does no longer."""


class RequestRejectedError(WorkspaceError):
    """The workspace understood and refused; the same request will be refused again."""


class UnreadableAnswerError(WorkspaceError):
    """The answer is not JSON, has the wrong shape, or is larger than allowed."""


class DaemonUnreachableError(MonitorError):
    """No daemon answers where a command calls it."""


class DaemonBusyError(MonitorError):
    """The daemon refuses a request for now; the same one may succeed later.

    ``retry_after_seconds`` is None where it does not say when.
    """

    def __init__(self, message: str, *, retry_after_seconds: float | None = None) -> None:
        super().__init__(message)
        self.retry_after_seconds = retry_after_seconds


class LocalFileError(MonitorError):
    """A file that the user named cannot be read or written; the message names it."""


class BusError(MonitorError):
    """Something went wrong in the store."""


class BusUnavailableError(BusError):
    """Nothing was stored; the caller still owns the change and may commit it again."""


class BusLostError(BusUnavailableError):
    """The store is gone, damaged, or written by another process; the daemon must end."""


class BusFullError(BusError):
    """A bound of the store is reached; the same write is refused until something is removed."""


class BusLockedError(BusError):
    """Another daemon has locked the store; the message names it."""


class BusSchemaError(BusError):
    """The store was written by a newer version of the monitor, or is not a store at all."""


class OutputError(MonitorError):
    """An event could not be delivered."""


class OutputUnavailableError(OutputError):
    """The receiver cannot be reached now; delivery may be tried again."""


class OutputConnectionLostError(OutputUnavailableError):
    """The connection broke before the receiver answered; the event itself may be the cause."""


class OutputRefusedError(OutputError):
    """The receiver refused for good; the event becomes a dead letter."""
