"""The operations, read once from the data file beside this module."""

from __future__ import annotations

import functools
import re
from enum import StrEnum
from importlib import resources
from urllib.parse import quote

import msgspec
from msgspec import Struct

METHODS = ("GET", "POST", "PUT", "PATCH", "DELETE")


class Edition(StrEnum):
    """The product editions. ``open`` has no listed set: nothing is refused before sending."""

    PC = "PC"
    PL = "PL"
    RL = "RL"
    LE = "LE"
    OPEN = "open"


class OperationQuota(Struct, frozen=True, kw_only=True):
    """Requests a minute that the workspace allows for one operation."""

    user: int
    workspace: int


class Operation(Struct, frozen=True, kw_only=True):
    """One row of the catalogue.

    ``path`` writes parameters with a colon, as in ``/v4/flows/:id/run``. ``request`` and
    ``response`` name models of the public specification, None where there is no JSON body.
    ``assigned`` marks an ``operation_id`` that is ours because none is public.
    """

    method: str
    path: str
    name: str
    resource: str
    editions: frozenset[Edition]
    operation_id: str
    query: tuple[str, ...] = ()
    request: str | None = None
    response: str | None = None
    quota_per_minute: OperationQuota | None = None
    assigned: bool = False

    @property
    def parameters(self) -> tuple[str, ...]:
        """The names of the path parameters, in order."""
        return tuple(re.findall(r":(\w+)", self.path))

    @property
    def answers_file(self) -> bool:
        """True where the good answer is a file, such as a package or a PDF, and not JSON."""
        return self.method == "GET" and self.path.endswith(("/package", "/pdfResults"))

    @property
    def editions_text(self) -> str:
        """Return which editions have it, as a clause: "PL and RL have it"."""
        names = [edition.value for edition in Edition if edition in self.editions]
        editions = " and ".join([", ".join(names[:-1]), names[-1]] if names[1:] else names)
        return f"{editions} {'have' if names[1:] else 'has'} it"

    def fill(self, *values: object) -> str:
        """Return the path with its parameters replaced, each quoted for use in a URL.

        Raises:
            ValueError: the number of values is not the number of parameters.
        """
        names = self.parameters
        if len(names) != len(values):
            raise ValueError(
                f"{self.operation_id} takes {len(names)} path values "
                f"({', '.join(names) or 'none'}), not {len(values)}"
            )
        quoted = iter([quote(str(value), safe="") for value in values])
        return re.sub(r":\w+", lambda _: next(quoted), self.path)

    def is_part_of(self, edition: Edition) -> bool:
        """True where the edition's set holds the operation; always true in edition ``open``."""
        return edition is Edition.OPEN or edition in self.editions


@functools.cache
def operations() -> tuple[Operation, ...]:
    """Return all operations in the order of the API's own document."""
    text = resources.files(__package__).joinpath("operations.json").read_bytes()
    return msgspec.json.decode(text, type=tuple[Operation, ...])


@functools.cache
def _by_id() -> dict[str, Operation]:
    return {operation.operation_id: operation for operation in operations()}


def operation(operation_id: str) -> Operation:
    """Return one operation by its id.

    Raises:
        KeyError: the catalogue has no such id.
    """
    return _by_id()[operation_id]


@functools.cache
def _matchers(
    among: tuple[Operation, ...],
) -> tuple[tuple[Operation, re.Pattern[str]], ...]:
    # Literal segments come first, so that ``/people/current`` is not read as an id.
    ordered = sorted(among, key=lambda operation: operation.path.count(":"))
    return tuple(
        (
            operation,
            re.compile(re.sub(r":\w+", r"([^/]+)", operation.path) + r"/?", re.IGNORECASE),
        )
        for operation in ordered
    )


def find(
    method: str, path: str, *, among: tuple[Operation, ...] | None = None
) -> tuple[Operation, tuple[str, ...]] | None:
    """Return the operation that a method and a concrete path name, with its path values.

    ``path`` is the decoded path without query, in any case, perhaps with a slash at its end;
    values keep their case. None where no operation of ``among``, by default of all, matches.
    """
    for matcher, pattern in _matchers(operations() if among is None else among):
        if matcher.method == method.upper() and (match := pattern.fullmatch(path)):
            return matcher, match.groups()
    return None
