"""Renders a record as the answer's JSON: its own fields, those chosen, what is embedded."""

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from typing import Any

from monitor.sandbox.api.errors import Json, bad_parameter, no_association
from monitor.sandbox.api.models.models import Field, models
from monitor.sandbox.api.request.embedding import Embed
from monitor.sandbox.api.request.listing import Scalar, sort_rows
from monitor.sandbox.api.response.kinds import (
    Association,
    Kind,
    Reference,
    Resource,
    ResourceTable,
    View,
    named,
)
from monitor.sandbox.world.records.objects import Person, Record

SCALARS = frozenset({"str", "int", "float", "bool", "datetime", "int|str"})


def stamp(instant: datetime | None) -> str | None:
    """Return an instant as the clouds write it: whole seconds, yet with milliseconds."""
    if instant is None:
        return None
    return instant.isoformat(timespec="seconds")[:19] + ".000Z"


def reference(record_id: int | None) -> Json:
    """Return a link to another record, or null."""
    return None if record_id is None else {"id": record_id}


def show(
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
    resource = view.table[kind]
    document = {**resource.render(view, record), **(extra or {})}
    if fields:
        document = _chosen(resource, document, fields)
    for embed in embeds:
        association = association_of(resource, embed.name)
        found = _embedded(view, association, record, embed)
        keys = (association.key, association.other_key or association.key)
        document |= (found or {}) if association.inline else dict.fromkeys(keys, found)
    return document


def check(table: ResourceTable, kind: str, *, embeds: Sequence[Embed]) -> None:
    """Validate embeds, also where no record is there to show them.

    Raises:
        ApiError: 400, when an association does not exist.
    """
    for embed in embeds:
        association = association_of(table[kind], embed.name)
        check(table, association.target, embeds=embed.inner)


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


def _embedded(view: View, association: Association, record: Any, embed: Embed) -> Json:
    found = association.find(view, record)
    target = association.target

    def one(row: Any) -> Json:
        view.count_embedded()
        return show(view, target, row, fields=embed.fields, embeds=embed.inner)

    check(view.table, target, embeds=embed.inner)
    if not association.many:
        return None if found is None else one(found)
    rows = sort_rows(list(found), embed.sort, view.table[target].columns_of(view))
    return {"data": [one(row) for row in rows[: embed.limit]]}


def creator_of(view: View, record: Record) -> Person | None:
    return view.world.people.get(record.creator_id, with_deleted=True)


def updater_of(view: View, record: Record) -> Record | None:
    return view.world.people.get(record.updater_id, with_deleted=True)


CREATOR = Association("creator", creator_of, target="people")
UPDATER = Association("updater", updater_of, target="people")
OWN = (CREATOR, UPDATER)
STAMPS = {
    "id": lambda _, record: record.id,
    "createdAt": lambda _, record: record.created_at,
    "updatedAt": lambda _, record: record.updated_at,
}
NAMED = {**STAMPS, "name": lambda _, record: record.name}


def stamps(record: Record) -> dict[str, Json]:
    """Return the fields that every stored thing shows."""
    return {
        "id": record.id,
        "createdAt": stamp(record.created_at),
        "updatedAt": stamp(record.updated_at),
        "creator": reference(record.creator_id),
        "updater": reference(record.updater_id),
    }


def resource_of(kind: Kind[Any], names: Mapping[type[Record], str]) -> Resource:
    """Return the kind's own resource, or one that shows the fields of its model.

    ``names`` are the names of the resources by their record, for what references embed.
    """
    if kind.resource is not None:
        return kind.resource
    fields = {
        name: model for name, model in models()[kind.model].items() if name not in kind.unshown
    }

    def render(view: View, record: Any) -> dict[str, Json]:
        return _rendered(kind, fields, view, record)

    return Resource(
        plural=kind.plural,
        render=render,
        columns=_columns(kind, fields),
        associations=_associations(kind, names),
    )


def attribute_of(kind: Kind[Any], name: str) -> str:
    """Return the attribute that keeps a field: ``tableName`` is ``table_name``."""
    return kind.attributes.get(name) or snake(name)


def name_of(kind: Kind[Any], attribute: str) -> str:
    """Return the field that keeps an attribute in a request, for messages."""
    for link in kind.references:
        if link.attribute == attribute and link.sent:
            return link.sent
    by_attribute = {kept: name for name, kept in kind.attributes.items()}
    return by_attribute.get(attribute) or camel(attribute)


@functools.cache
def snake(name: str) -> str:
    """Return the attribute that keeps what the API calls so."""
    return re.sub(r"(?<=[a-z0-9])([A-Z])", r"_\1", name).lower()


def kept(record: Any, *names: str) -> dict[str, Json]:
    """Return fields that show what a record keeps under their names."""
    return {name: plain(getattr(record, snake(name))) for name in names}


def columns(*names: str) -> dict[str, Callable[[View, Any], Scalar]]:
    """Return the columns of fields that a record keeps under their names."""
    return {name: _reader(snake(name)) for name in names}


def camel(attribute: str) -> str:
    """Return an attribute's name as the API writes names: ``table_name`` is ``tableName``."""
    return re.sub("_([a-z])", lambda found: found.group(1).upper(), attribute)


def plain(value: Any) -> Json:
    """Return a kept value as JSON."""
    if isinstance(value, datetime):
        return stamp(value)
    if isinstance(value, Mapping):
        return dict(value)
    if isinstance(value, tuple | list):
        return list(value)
    if isinstance(value, frozenset):
        return sorted(value)
    return value


def _rendered(
    kind: Kind[Any], fields: Mapping[str, Field], view: View, record: Any
) -> dict[str, Json]:
    own = stamps(record)
    links = {reference.shown: reference for reference in kind.references if reference.shown}
    shown: dict[str, Json] = {}
    for name in dict.fromkeys([*fields, *links, *kind.computed, *kind.constants, *kind.also_shown]):
        if name in kind.computed:
            shown[name] = kind.computed[name](view, record)
        elif name in kind.constants:
            shown[name] = kind.constants[name]
        elif name in links:
            shown[name] = _link(links[name], record)
        elif name in own:
            shown[name] = own[name]
        else:
            shown[name] = plain(getattr(record, attribute_of(kind, name)))
    return shown


def _link(other_reference: Reference, record: Any) -> Json:
    value = getattr(record, other_reference.attribute)
    return (
        [reference(record_id) for record_id in value] if other_reference.many else reference(value)
    )


def _columns(kind: Kind[Any], fields: Mapping[str, Field]) -> dict[str, Any]:
    taken = {
        *STAMPS,
        *kind.columns,
        *kind.computed,
        *kind.constants,
        *(reference.shown for reference in kind.references),
    }
    kept = {
        name: _reader(attribute_of(kind, name))
        for name, field in fields.items()
        if field.type in SCALARS and name not in taken
    }
    computed = {
        name: kind.computed[name]
        for name, field in fields.items()
        if field.type in SCALARS and name in kind.computed and name not in kind.columns
    }
    return {**STAMPS, **kept, **computed, **kind.columns}


def _reader(attribute: str) -> Any:
    def read(view: View, record: Any) -> Scalar:
        del view
        value: Scalar = getattr(record, attribute)
        return value

    return read


def _associations(kind: Kind[Any], names: Mapping[type[Record], str]) -> dict[str, Association]:
    links = [
        linking(key, link, names[link.target])
        for link in kind.references
        if (key := link.embeds_as or link.shown)
    ]
    return {**named(*OWN, *links), **kind.associations}


def linking(key: str, link: Reference, target: str) -> Association:
    """Return the association that embeds what a link leads to, deleted or not."""

    def find(view: View, record: Any) -> Any:
        shelf = view.world.shelf(link.target)
        value = getattr(record, link.attribute)
        if link.many:
            rows = [shelf.get(record_id, with_deleted=True) for record_id in value]
            return [row for row in rows if row is not None]
        return None if value is None else shelf.get(value, with_deleted=True)

    return Association(key, find, target=target, many=link.many)
