"""The errors of the workspace, and the envelope in which an answer carries them.

ApiError
    status, name, message, details: one row of the API's error table
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

Json = Any


class ApiError(Exception):
    """An answer other than the requested one; the server turns it into the envelope."""

    def __init__(  # noqa: D417 - the other parameters are the envelope's own words
        self,
        status: int,
        name: str,
        message: str,
        details: str,
        *,
        code: str | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> None:
        """Keep the parts of the envelope.

        Args:
            code: the machine-readable word that only schedules carry.
        """
        super().__init__(f"{status} {name}: {details}")
        self.status = status
        self.name = name
        self.message = message
        self.details = details
        self.code = code
        self.headers = dict(headers or {})

    def body(self) -> Json:
        """Return the documented envelope."""
        exception = {"name": self.name, "message": self.message, "details": self.details}
        if self.code is not None:
            exception["code"] = self.code
        return {"exception": exception}


def validation_failed(details: str, *, code: str | None = None) -> ApiError:
    """Return the refusal of a bad input; ``details`` names the field or parameter."""
    return ApiError(400, "ValidationFailed", "Input validation failed", details, code=code)


def bad_parameter(name: str, value: str, expected: str) -> ApiError:
    """Return the refusal of a query parameter."""
    return validation_failed(f'Parameter "{name}" must be {expected}, not "{shortened(value)}"')


def bad_field(name: str, problem: str) -> ApiError:
    """Return the refusal of a field of the body, as in ``"name" is required``."""
    return validation_failed(f'"{name}" {problem}')


def not_found(kind: str, object_id: object) -> ApiError:
    """Return the answer for an id that this workspace does not know, or no longer."""
    return ApiError(
        404,
        "DataNotFoundException",
        "Data not found",
        f"Could not find {kind} with id {shortened(str(object_id))}",
    )


def forbidden(details: str) -> ApiError:
    """Return the answer to a caller who may not see or do this."""
    return ApiError(403, "AccessControlException", "Access denied", details)


def route_not_found(method: str, path: str) -> ApiError:
    """Return the answer for what is no operation of this edition."""
    return ApiError(
        404,
        "RouteNotFoundException",
        "This route does not exist",
        f"Cannot {method} {path}",
    )


def unauthorized(details: str) -> ApiError:
    """Return the answer to a caller whom the workspace does not know."""
    return ApiError(
        401,
        "UnauthorizedException",
        "Unauthorized",
        details,
        headers={"WWW-Authenticate": "Bearer"},
    )


def no_association(name: str, resource: str, valid: Iterable[str]) -> ApiError:
    """Return the refusal of an unknown ``embed``, with what would have been right."""
    return validation_failed(
        f"No association {shortened(name)} in {resource}! "
        f"Valid associations are {', '.join(sorted(valid)) or 'none'}"
    )


def shortened(text: str) -> str:
    """Return ``text`` at a length that an answer may repeat."""
    limit = 100
    return text if len(text) <= limit else text[:limit] + "..."
