"""Maps an HTTP status and the workspace's own word for a failure to our tree of errors.

Assumptions, since the API's documents leave them open: an operation outside the edition answers
404 ``RouteNotFoundException``; only 404 ``DataNotFoundException`` and 410 prove that an object is
gone; 410 to an operation that names no object means that the operation was retired. All of that
only in the API's error envelope: see `foreign_answers`.
"""

from __future__ import annotations

from collections.abc import Iterable
from http import HTTPStatus

import msgspec
from msgspec import Struct

from monitor.catalogue.operations import Operation
from monitor.model.errors import (
    NoSuchObjectError,
    NotAvailableError,
    RequestRejectedError,
    ThrottledError,
    UnauthorizedError,
    WorkspaceError,
    WorkspaceUnreachableError,
)
from monitor.model.outside import harmless
from monitor.model.secrets import Secret
from monitor.workspace.retry_policy import Failure, RetryReason

NO_ROUTE = "RouteNotFoundException"
NO_DATA = "DataNotFoundException"
# Quotas count by the minute; without an announced wait a quarter of one is a fair guess.
_UNTOLD_WAIT_SECONDS = 15.0
_LONGEST_TEXT = 300
_LONGEST_DETAILS = 4000

_BY_NAME_404: dict[str | None, type[WorkspaceError]] = {
    NO_ROUTE: NotAvailableError,
    NO_DATA: NoSuchObjectError,
}
_BY_STATUS: dict[int, type[WorkspaceError]] = {
    HTTPStatus.UNAUTHORIZED: UnauthorizedError,
    HTTPStatus.FORBIDDEN: NotAvailableError,
}


class _Exception(Struct):
    name: str | None = None
    message: object = None
    details: object = None
    code: object = None


class _Envelope(Struct):
    exception: _Exception | None = None


class Refusal(Struct, frozen=True, kw_only=True):
    """The API's own words for a failure; all is empty where the body is not its error envelope."""

    name: str | None = None
    message: str = ""
    details: str = ""  # a schedule's begin with its code, such as INVALID_CRON_EXPRESSION
    has_envelope: bool = False


def refusal_in(body: bytes, *, secrets: Iterable[Secret] = ()) -> Refusal:
    """Read the error envelope; anything else, such as a proxy's page, is an empty refusal.

    ``secrets`` are what the request carried: an answer that repeats one must not spread it.
    """
    try:
        served = msgspec.json.decode(body, type=_Envelope).exception
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        served = None
    if served is None:
        return Refusal()
    hidden = [secret.reveal() for secret in secrets if secret]
    return Refusal(
        name=None if served.name is None else harmless(_text(served.name, hidden)),
        message=_text(served.message, hidden),
        details=_text(_details(served), hidden),
        has_envelope=True,
    )


def foreign_answer_error(
    status_code: int, found: str, *, operation: Operation
) -> WorkspaceUnreachableError:
    """Return the error of an answer that is not the API's; ``found`` is what it is instead."""
    return WorkspaceUnreachableError(
        f"{operation.operation_id} answered {status_code}, but not as the API: {found}",
        operation_id=operation.operation_id,
        status_code=status_code,
    )


def is_about_the_operation(error: NotAvailableError, operation: Operation) -> bool:
    """True when the answer means that the operation as a whole is not served to us.

    403 comes also for single ids, existing or not, so it counts only where no id was named.
    """
    if error.exception_name == NO_ROUTE:
        return True
    return operation.method == "GET" and not operation.parameters


def failure_of(
    status_code: int, refusal: Refusal, *, operation: Operation, wait_seconds: float | None
) -> Failure:
    """Return the error of an answer of the API that is neither 2xx nor 304.

    ``wait_seconds`` is the wait that its headers state. Whether the request may be repeated
    without harm is not decided here.
    """
    error = _error_of(status_code, refusal, operation=operation, wait_seconds=wait_seconds)
    reason = None
    if isinstance(error, ThrottledError):
        reason = RetryReason.THROTTLED
    elif isinstance(error, WorkspaceUnreachableError):
        reason = RetryReason.SERVER_ERROR
    return Failure(error=error, reason=reason, wait_seconds=wait_seconds)


def _error_of(
    status_code: int, refusal: Refusal, *, operation: Operation, wait_seconds: float | None
) -> WorkspaceError:
    message = _message(status_code, refusal, operation)
    if status_code == HTTPStatus.TOO_MANY_REQUESTS:
        return ThrottledError(
            message,
            retry_after_seconds=_UNTOLD_WAIT_SECONDS if wait_seconds is None else wait_seconds,
            operation_id=operation.operation_id,
            exception_name=refusal.name,
            details=refusal.details,
        )
    return _type_of(status_code, refusal.name, operation)(
        message,
        operation_id=operation.operation_id,
        status_code=status_code,
        exception_name=refusal.name,
        details=refusal.details,
    )


def _type_of(status_code: int, name: str | None, operation: Operation) -> type[WorkspaceError]:
    if status_code >= HTTPStatus.INTERNAL_SERVER_ERROR:
        return WorkspaceUnreachableError
    if status_code == HTTPStatus.GONE:
        return NoSuchObjectError if operation.parameters else NotAvailableError
    if status_code == HTTPStatus.NOT_FOUND:
        return _BY_NAME_404.get(name, RequestRejectedError)
    return _BY_STATUS.get(status_code, RequestRejectedError)


def _message(status_code: int, refusal: Refusal, operation: Operation) -> str:
    # Details of a refused body tend to repeat it, and our bodies can hold secrets.
    details = refusal.details if operation.method == "GET" else ""
    words = [word for word in (refusal.name, refusal.message, details) if word]
    reason = harmless(": ".join(words), longest=_LONGEST_TEXT) or "no reason given"
    return f"{operation.operation_id} answered {status_code}: {reason}"


def _details(served: _Exception) -> str:
    """Return code and details as text, the structured ones of a refused body too."""
    code = served.code if isinstance(served.code, str) else ""
    details = served.details
    if details is not None and not isinstance(details, str):
        details = msgspec.json.encode(details).decode() if details else ""
    return ": ".join(word for word in (code, details) if word)


def _text(value: object, hidden: list[str]) -> str:
    text = value if isinstance(value, str) else ""
    for secret in hidden:
        text = text.replace(secret, "***")
    return harmless(text, longest=_LONGEST_DETAILS, has_lines=True)
