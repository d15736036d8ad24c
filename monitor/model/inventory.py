"""The inventory of a workspace: figures beside its runs that are read slowly and expire."""

from __future__ import annotations

from datetime import datetime

from msgspec import Struct

from monitor.model.runs import Pipeline


class Figures(Struct, frozen=True, kw_only=True, gc=False):
    """What one reading showed, by name. Past ``until`` (our clock) they are unknown."""

    values: dict[str, float]
    until: datetime


class ConnectionKnown(Struct, frozen=True, kw_only=True, gc=False):
    """A connection and whether it could be opened when the workspace was last asked."""

    id: str
    name: str
    is_up: bool
    until: datetime  # our clock; past it they are unknown


class ValueCounts(Struct, frozen=True, kw_only=True, gc=False):
    """How many values of an output fit their column's type, do not, and are not there."""

    valid: int = 0
    mismatched: int = 0
    missing: int = 0

    @property
    def total(self) -> int:
        return self.valid + self.mismatched + self.missing


class OutputQuality(Struct, frozen=True, kw_only=True, gc=False):
    """The newest profile of one output. An output is what one recipe makes."""

    pipeline: Pipeline
    id: str  # of the recipe
    name: str | None
    run_id: str
    counts: ValueCounts


class Inventory(Struct, frozen=True, kw_only=True, gc=False):
    """Everything of the kind about one workspace. What is switched off is absent."""

    objects: Figures | None = None  # type of object -> how many there are
    tokens: Figures | None = None  # id of an access token -> seconds since 1970 of its expiry
    tokens_created: dict[str, float] = {}  # the same of its creation, where that is shown
    usage: Figures | None = None  # measure -> as served
    connections: tuple[ConnectionKnown, ...] = ()
    outputs: tuple[OutputQuality, ...] = ()
