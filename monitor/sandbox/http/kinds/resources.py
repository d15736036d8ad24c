"""Makes out of a kind the resource that answers show."""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import datetime
from typing import Any

from monitor.sandbox.http.errors import Json
from monitor.sandbox.http.kinds.kind import Kind, Reference
from monitor.sandbox.http.kinds.shapes import OWN, STAMPS, stamps
from monitor.sandbox.http.reading.listing import Scalar
from monitor.sandbox.http.showing.models import Field, models
from monitor.sandbox.http.showing.rendering import Association, Resource, View, reference, stamp
from monitor.sandbox.records.objects import Record

SCALARS = frozenset({"str", "int", "float", "bool", "datetime", "int|str"})


def resource_of(kind: Kind[Any], names: Mapping[type[Record], str]) -> Resource:
    """Return the kind's own resource, or one that shows the fields of its model.

    ``names`` are the names of the resources by their record, for what references embed.
    """
    if kind.resource is not None:
        return kind.resource
    fields = models()[kind.model]

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
    return kind.attributes.get(name) or re.sub(r"(?<=[a-z0-9])([A-Z])", r"_\1", name).lower()


def name_of(kind: Kind[Any], attribute: str) -> str:
    """Return the field that keeps an attribute in a request, for messages."""
    for link in kind.references:
        if link.attribute == attribute and link.sent:
            return link.sent
    by_attribute = {kept: name for name, kept in kind.attributes.items()}
    return by_attribute.get(attribute) or re.sub(
        "_([a-z])", lambda found: found.group(1).upper(), attribute
    )


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
    found = dict(OWN)
    for other_reference in kind.references:
        key = other_reference.embeds_as or other_reference.shown
        if key:
            found[key.lower()] = _association(key, other_reference, names[other_reference.target])
    return {
        **found,
        **{name.lower(): association for name, association in kind.associations.items()},
    }


def _association(key: str, link: Reference, target: str) -> Association:
    def find(view: View, record: Any) -> Any:
        shelf = view.world.shelf(link.target)
        value = getattr(record, link.attribute)
        if link.many:
            rows = [shelf.get(record_id, with_deleted=True) for record_id in value]
            return [row for row in rows if row is not None]
        return None if value is None else shelf.get(value, with_deleted=True)

    return Association(key=key, target=target, find=find, many=link.many)
