"""How a record becomes the answer's JSON: its own fields, those chosen, what is embedded."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from monitor.sandbox.http.errors import (
    Json,
    bad_parameter,
    no_association,
    validation_failed,
)
from monitor.sandbox.http.reading.embedding import Embed
from monitor.sandbox.http.reading.listing import Scalar, sort_rows
from monitor.sandbox.records.objects import Flow, Person, Plan
from monitor.sandbox.records.runs import PlanSnapshotRun
from monitor.sandbox.world import World

# What lists within lists could otherwise make of a short query.
MOST_EMBEDDED = 100_000


class View:
    """One request's view of the world: what is costly to find is found once."""

    def __init__(self, world: World, person: Person) -> None:
        self.world = world
        self.person = person
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


@dataclass(frozen=True, slots=True, kw_only=True)
class Association:
    """Something that ``embed`` can show. ``key`` is its name in the answer.

    ``find`` returns one record or None, or the list of them where ``many``. What is ``inline``
    has no key of its own: its fields stand among those of the row. Under ``other_key`` the same
    is shown again, where two spellings of a name are in use.
    """

    key: str
    target: str  # of the table of resources
    find: Callable[[View, Any], Any]
    many: bool = False
    inline: bool = False
    other_key: str = ""


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


Resources = Mapping[str, Resource]


def stamp(instant: datetime | None) -> str | None:
    """Return an instant as the clouds write it: whole seconds, yet with milliseconds."""
    if instant is None:
        return None
    return instant.isoformat(timespec="seconds")[:19] + ".000Z"


def reference(record_id: int | None) -> Json:
    """Return a link to another record, or null."""
    return None if record_id is None else {"id": record_id}


def show(
    resources: Resources,
    view: View,
    kind: str,
    record: Any,
    *,
    fields: Sequence[str] = (),
    embeds: Sequence[Embed] = (),
    extra: Mapping[str, Json] | None = None,
) -> dict[str, Json]:
    """Return a record's JSON with the chosen ``fields`` (none: all) and what is embedded.

    ``extra`` are fields that only this operation shows; they take part in the choice.

    Raises:
        ApiError: 400, when a field or an association does not exist.
    """
    resource = resources[kind]
    document = {**resource.render(view, record), **(extra or {})}
    if fields:
        document = _chosen(resource, document, fields)
    for embed in embeds:
        association = association_of(resource, embed.name)
        found = _embedded(resources, view, association, record, embed)
        keys = (association.key, association.other_key or association.key)
        document |= (found or {}) if association.inline else dict.fromkeys(keys, found)
    return document


def check(resources: Resources, kind: str, *, embeds: Sequence[Embed]) -> None:
    """Validate embeds, also where no record is there to show them.

    Raises:
        ApiError: 400, when an association does not exist.
    """
    for embed in embeds:
        association = association_of(resources[kind], embed.name)
        check(resources, association.target, embeds=embed.inner)


def association_of(resource: Resource, name: str) -> Association:
    """Return the association with this name, in any spelling of case.

    Raises:
        ApiError: 400, listing the valid names.
    """
    found = resource.associations.get(name.lower())
    if found is None:
        valid = [association.key for association in resource.associations.values()]
        raise no_association(name, resource.plural, valid)
    return found


def _chosen(
    resource: Resource, document: dict[str, Json], fields: Sequence[str]
) -> dict[str, Json]:
    by_lower_case = {name.lower(): name for name in document}
    chosen: dict[str, Json] = {}
    for field_name in fields:
        name = field_name if field_name in document else by_lower_case.get(field_name.lower())
        if name is not None:
            chosen[name] = document[name]
        elif field_name not in resource.extra_fields:
            raise bad_parameter("fields", field_name, f"among {', '.join(sorted(document))}")
    return chosen


def _embedded(
    resources: Resources, view: View, association: Association, record: Any, embed: Embed
) -> Json:
    found = association.find(view, record)
    target = association.target

    def one(row: Any) -> Json:
        view.count_embedded()
        return show(resources, view, target, row, fields=embed.fields, embeds=embed.inner)

    check(resources, target, embeds=embed.inner)
    if not association.many:
        return None if found is None else one(found)
    rows = sort_rows(list(found), embed.sort, resources[target].columns_of(view))
    return {"data": [one(row) for row in rows[: embed.limit]]}
