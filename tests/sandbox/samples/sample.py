"""How an operation succeeds, in a world that has one of everything."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar

from monitor.sandbox.world.records.objects import Record
from tests.sandbox.http_workspace import ADMIN_TOKEN, OWNER_TOKEN, Things, Workspace

T = TypeVar("T", bound=Record)


@dataclass(frozen=True, slots=True)
class Living:
    """A workspace in which the samples of all families found what they need."""

    workspace: Workspace

    @property
    def things(self) -> Things:
        return self.workspace.things

    def first(self, kind: type[T]) -> T:
        """Return the oldest record of a kind that is not deleted."""
        return next(self.workspace.world.shelf(kind).live())

    def newest(self, kind: type[T]) -> T:
        """Return the youngest record of a kind that is not deleted."""
        return list(self.workspace.world.shelf(kind).live())[-1]

    def create(self, kind: type[T], **values: Any) -> T:
        """Make a record in the name of the owner."""
        return self.workspace.world.create(kind, by=self.things.owner.id, **values)


def nothing(_: Living) -> Sequence[object]:
    return ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Sample:
    """A request that succeeds: path values in order, and the query and body that go with them.

    ``upload`` is sent as a ZIP instead of ``body``. Without either there is no body.
    """

    path: Callable[[Living], Sequence[object]] = nothing
    query: Mapping[str, str] = field(default_factory=dict)
    body: Callable[[Living], Any] | None = None
    upload: Callable[[Living], bytes] | None = None
    as_admin: bool = False

    @property
    def token(self) -> str:
        return ADMIN_TOKEN if self.as_admin else OWNER_TOKEN


def of(kind: type[Record]) -> Callable[[Living], Sequence[object]]:
    """Return the path of the oldest record of a kind."""
    return lambda living: (living.first(kind).id,)
