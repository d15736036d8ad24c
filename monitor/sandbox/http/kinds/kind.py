"""A kind of resource as data: what it keeps, shows and takes, and what it hangs on."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Generic, TypeVar

from monitor.sandbox.http.errors import Json
from monitor.sandbox.http.reading.listing import Scalar
from monitor.sandbox.http.showing.rendering import Association, Resource, View
from monitor.sandbox.records.objects import Record

T = TypeVar("T", bound=Record)


class OnDelete(StrEnum):
    """What becomes of a record whose link leads to something that is deleted."""

    CASCADE = "cascade"  # it goes too
    CLEAR = "clear"  # it stays and loses the link
    REFUSE = "refuse"  # it holds what it names: 400, saying who uses it
    KEEP = "keep"  # history: it goes on naming what is gone


@dataclass(frozen=True, slots=True, kw_only=True)
class Reference:
    """A link to records of another kind. ``many``: the attribute is a tuple of ids."""

    attribute: str  # of the record: folder_id
    target: type[Record]
    shown: str = ""  # its key in answers, as {"id": 31}; empty: not shown
    sent: str = ""  # its key in bodies, as an id or as {"id": ...}; empty: never sent
    on_delete: OnDelete = OnDelete.CASCADE
    many: bool = False
    embeds_as: str = ""  # name of the association; by default ``shown``


class Visibility(StrEnum):
    """Who finds a record in a list."""

    OWN = "own"  # whose it is
    HOME = "home"  # who sees the flow or plan that it is part of
    EVERYBODY = "everybody"


@dataclass(frozen=True, slots=True, kw_only=True)
class Kind(Generic[T]):
    """One kind of resource.

    A ``resource`` that is given is shown instead of one that is made from ``model``.
    """

    record: type[T]
    name: str  # in 404s and refusals: folder
    plural: str  # in the table of resources and in errors of embeds: folders
    model: str  # whose fields it shows
    requests: tuple[str, ...] = ()  # the models whose fields it takes
    references: tuple[Reference, ...] = ()
    home: str = ""  # attribute of the reference that leads to its flow or plan
    visibility: Visibility = Visibility.OWN
    is_visible_to: Callable[[View, T], bool] | None = (
        None  # who finds it, where ``visibility`` falls short
    )
    # JSON name -> attribute, where the name in snake case is not it.
    attributes: Mapping[str, str] = field(default_factory=dict)
    constants: Mapping[str, Json] = field(default_factory=dict)  # always shown so
    computed: Mapping[str, Callable[[View, T], Json]] = field(default_factory=dict)  # not kept
    also_shown: tuple[str, ...] = ()  # JSON names beyond the model, kept as attributes
    unkept: frozenset[str] = frozenset()  # fields of requests that are validated, without effect
    # Beyond the scalar fields of the model.
    columns: Mapping[str, Callable[[View, T], Scalar]] = field(default_factory=dict)
    # Beyond references, creator and updater.
    associations: Mapping[str, Association] = field(default_factory=dict)
    filter_fields: tuple[str, ...] = ("name",)
    resource: Resource | None = None
