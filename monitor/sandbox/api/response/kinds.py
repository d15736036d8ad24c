"""Resources as data: what is kept, shown and taken, what hangs on what, and for whom."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, Generic, TypeVar

from monitor.sandbox.api.errors import Json, validation_failed
from monitor.sandbox.api.models.models import models
from monitor.sandbox.api.request.listing import Scalar
from monitor.sandbox.world.records.objects import Flow, Person, Plan, PlanSnapshot, Record
from monitor.sandbox.world.records.runs import FlowRun, Job, JobGroup, PlanSnapshotRun
from monitor.sandbox.world.shelves import World

T = TypeVar("T", bound=Record)

OWNER, COLLABORATOR, READ_ONLY = "owner", "collaborator", "readOnly"
ROLES = (OWNER, COLLABORATOR, READ_ONLY)

# What lists within lists could otherwise make of a short query.
MOST_EMBEDDED = 100_000


class View:
    """One request's view of the world: what is costly to find is found once."""

    def __init__(self, world: World, person: Person, table: ResourceTable) -> None:
        self.world = world
        self.person = person
        self.table = table
        self._embedded = 0

    def count_embedded(self) -> None:
        """Count one more record that the answer embeds.

        Raises:
            ApiError: 400, when there are more than one answer should hold.
        """
        self._embedded += 1
        if self._embedded > MOST_EMBEDDED:
            raise validation_failed(f'Parameter "embed" asks for more than {MOST_EMBEDDED} records')

    @functools.cached_property
    def visible_flow_ids(self) -> frozenset[int]:
        """The flows that the person owns or shares, deleted ones too."""
        return frozenset(flow.id for flow in self.world.flows if self.may_see(flow))

    @functools.cached_property
    def visible_plan_ids(self) -> frozenset[int]:
        """The plans that the person owns or shares, deleted ones too."""
        return frozenset(plan.id for plan in self.world.plans if self.may_see(plan))

    def may_see(self, thing: Flow | Plan) -> bool:
        """True for what the person owns, what is shared, and for all to an administrator."""
        owns = thing.creator_id == self.person.id
        return owns or self.world.is_shared_with(thing, self.person.id)

    def home_of(self, record: Record) -> Flow | Plan | None:
        """Return the flow or plan that a record is a part or a run of, deleted ones too."""
        found: Record | None = record
        while found is not None and not isinstance(found, Flow | Plan):
            link = _RAN.get(type(found)) or self.table.home_link(type(found))
            id_ = None if link is None else getattr(found, link.attribute)
            if link is None or id_ is None:
                return None
            found = self.world.shelf(link.target).get(id_, with_deleted=True)
        return found

    def is_hidden(self, record: Record) -> bool:
        """True for a flow or plan, a part or a run of it, that is not shared with the person."""
        home = self.home_of(record)
        is_own_run = type(record) in _RAN and record.creator_id == self.person.id
        return not (home is None or is_own_run or self.may_see(home))

    def in_scope(self, thing: Flow | Plan, scope: str) -> bool:
        """True where ``all``, ``owned`` or ``shared`` covers a thing for the person."""
        owns = thing.creator_id == self.person.id
        if scope == "owned":
            return owns
        return self.may_see(thing) and not (owns and scope == "shared")

    @functools.cached_property
    def plan_runs(self) -> Mapping[int, Sequence[PlanSnapshotRun]]:
        """All plan runs by their original plan, oldest first."""
        found: dict[int, list[PlanSnapshotRun]] = {}
        for run in self.world.plan_runs.live():
            found.setdefault(run.plan_id, []).append(run)
        return found


@dataclass(frozen=True, slots=True)
class Association:
    """Something that ``embed`` can show. ``key`` is its name in the answer.

    ``find`` returns one record or None, or the list of them where ``many``. What is ``inline``
    has no key of its own: its fields stand among those of the row. Under ``other_key`` the same
    is shown again, where two spellings of a name are in use.
    """

    key: str
    find: Callable[[View, Any], Any]
    target: str = ""  # of the table of resources; by default the key in lower case
    many: bool = False
    inline: bool = False
    other_key: str = ""

    def __post_init__(self) -> None:
        object.__setattr__(self, "target", self.target or self.key.lower())


def named(*associations: Association) -> dict[str, Association]:
    """Return associations by the names that find them, in any spelling of case."""
    return {association.key.lower(): association for association in associations}


@dataclass(frozen=True, slots=True, kw_only=True)
class Resource:
    """One kind of record as the API shows it.

    ``plural`` is its name in error messages, ``columns`` is what it can be sorted and filtered
    by, ``associations`` have lower-case names.
    """

    plural: str
    render: Callable[[View, Any], dict[str, Json]]
    columns: Mapping[str, Callable[[View, Any], Scalar]]
    associations: Mapping[str, Association] = field(default_factory=dict)
    extra_fields: frozenset[str] = frozenset()  # that only some operations show

    def columns_of(self, view: View) -> dict[str, Callable[[Any], Scalar]]:
        """Return the columns as `listing` wants them."""
        return {name: functools.partial(read, view) for name, read in self.columns.items()}


class OnDelete(StrEnum):
    """What becomes of a record whose link leads to something that is deleted."""

    CASCADE = "cascade"  # it goes too
    CLEAR = "clear"  # it stays and loses the link
    REFUSE = "refuse"  # it holds what it names: 400, saying who uses it
    KEEP = "keep"  # history: it goes on naming what is gone


@dataclass(frozen=True, slots=True)
class Reference:
    """A link to records of another kind. ``many``: the attribute is a tuple of ids."""

    attribute: str  # of the record: folder_id
    target: type[Record]
    shown: str = ""  # its key in answers, as {"id": 31}; empty: not shown
    sent: str = ""  # its key in bodies, as an id or as {"id": ...}; empty: never sent
    on_delete: OnDelete = OnDelete.CASCADE
    many: bool = False
    embeds_as: str = ""  # name of the association; by default ``shown``


# What cannot be made by the API, with the link to what was run.
_RAN: Mapping[type[Record], Reference] = {
    FlowRun: Reference("flow_id", Flow),
    JobGroup: Reference("flow_id", Flow),
    Job: Reference("job_group_id", JobGroup),
    PlanSnapshot: Reference("original_plan_id", Plan),
    PlanSnapshotRun: Reference("plan_id", Plan),
}


class Visibility(StrEnum):
    """Who finds a record in a list."""

    OWN = "own"  # whose it is
    HOME = "home"  # who sees the flow or plan that it is part of
    EVERYBODY = "everybody"


@dataclass(frozen=True, slots=True, kw_only=True)
class Kind(Generic[T]):
    """One kind of resource, named by its model where nothing else is said.

    A ``resource`` that is given is shown instead of one that is made from ``model``.
    """

    record: type[T]
    model: str = ""  # whose fields it shows; by default of the record's name
    name: str = ""  # in 404s and refusals, and of its operations' paths: folder
    plural: str = ""  # in the table of resources and in errors of embeds: folders
    requests: tuple[str, ...] = ()  # the models whose fields it takes
    references: tuple[Reference, ...] = ()
    home: str = ""  # attribute of the reference that leads to its flow or plan
    visibility: Visibility | None = None  # by default as its home's, or its maker's without one
    is_visible_to: Callable[[View, T], bool] | None = (
        None  # who finds it, where ``visibility`` falls short
    )
    # JSON name -> attribute, where the name in snake case is not it.
    attributes: Mapping[str, str] = field(default_factory=dict)
    constants: Mapping[str, Json] = field(default_factory=dict)  # always shown so
    computed: Mapping[str, Callable[[View, T], Json]] = field(default_factory=dict)  # not kept
    also_shown: tuple[str, ...] = ()  # JSON names beyond the model, kept as attributes
    unshown: frozenset[str] = frozenset()  # fields of the model that other answers have
    unkept: frozenset[str] = frozenset()  # fields of requests that are validated, without effect
    # Beyond the scalar fields of the model.
    columns: Mapping[str, Callable[[View, T], Scalar]] = field(default_factory=dict)
    # Beyond references, creator and updater.
    associations: Mapping[str, Association] = field(default_factory=dict)
    filter_fields: tuple[str, ...] = ("name",)
    resource: Resource | None = None

    def __post_init__(self) -> None:
        model = self.model or self.record.__name__
        name = self.name or model[0].lower() + model[1:]
        requests = (f"{model}CreateRequest", f"{model}UpdateRequest")
        derived = {
            "model": model,
            "name": name,
            "plural": self.plural or f"{name.lower()}s",
            "requests": self.requests or tuple(each for each in requests if each in models()),
            "visibility": self.visibility or (Visibility.HOME if self.home else Visibility.OWN),
        }
        for attribute, value in derived.items():
            object.__setattr__(self, attribute, value)


class ResourceTable:
    """All kinds, and all resources by their names in messages: what hangs on what."""

    def __init__(self, kinds: Iterable[Kind[Any]], resources: Mapping[str, Resource]) -> None:
        self.kinds = tuple(kinds)
        self.resources = resources
        self._by_record: dict[type[Record], Kind[Any]] = {kind.record: kind for kind in self.kinds}
        self._referrers: dict[type[Record], list[tuple[Kind[Any], Reference]]] = {}
        for kind in self.kinds:
            for link in kind.references:
                self._referrers.setdefault(link.target, []).append((kind, link))

    def __getitem__(self, name: str) -> Resource:
        return self.resources[name]

    def kind_of(self, record: type[Record]) -> Kind[Any] | None:
        """Return the kind of a type of records; None for those that cannot be made by the API."""
        return self._by_record.get(record)

    def home_link(self, record: type[Record]) -> Reference | None:
        """Return the link of a type of records to what they are part of."""
        kind = self._by_record.get(record)
        links = () if kind is None else kind.references
        return next((link for link in links if kind and link.attribute == kind.home), None)

    def referrers(self, target: type[Record]) -> Sequence[tuple[Kind[Any], Reference]]:
        """Return the kinds that hold links to records of ``target``, each with its reference."""
        return self._referrers.get(target, ())


def role_of(thing: Flow | Plan, person_id: int) -> str:
    """Return the role of a person who sees a flow or plan."""
    if person_id == thing.creator_id:
        return OWNER
    return READ_ONLY if person_id in thing.read_only else COLLABORATOR
