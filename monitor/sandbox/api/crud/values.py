"""From the fields of a request's body to the values of a record.

The body has been held against its model before; here links are looked up.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

from monitor.sandbox.api.calls import Call
from monitor.sandbox.api.crud.rights import may_name
from monitor.sandbox.api.errors import Json, bad_field
from monitor.sandbox.api.models.models import models
from monitor.sandbox.api.request.bodies import instant
from monitor.sandbox.api.request.parameters import INTEGER
from monitor.sandbox.api.response.kinds import Kind, Reference
from monitor.sandbox.api.response.rendering import attribute_of

_MISSING = object()


def values_of(
    call: Call,
    kind: Kind[Any],
    model: str,
    *,
    changes: bool = False,
    body: Mapping[str, Json] | None = None,
    path: str = "",
) -> dict[str, Any]:
    """Return what the fields of ``model`` say in a body, by attributes of the kind's record.

    An absent field gives no value. A null counts as absent, but in a change it gives an optional
    field its first value again; a link that is 0 is a null. ``body`` is another than the whole
    one, found at ``path`` in it.

    Raises:
        ApiError: 400, naming the field that links to nothing, or that cannot be null.
    """
    sent: Mapping[str, Json] = (call.body or {}) if body is None else body
    links = {
        name: reference
        for reference in kind.references
        for name in (reference.sent, reference.shown)
        if reference.sent and name
    }
    values: dict[str, Any] = {}
    for name in [*models()[model], *links]:
        value = sent.get(name, _MISSING)
        if value is _MISSING or name in kind.unkept:
            continue
        where = f"{path}.{name}" if path else name
        link = links.get(name)
        attribute = attribute_of(kind, name) if link is None else link.attribute
        if value is None or (link is not None and value == 0):
            if changes:
                values[attribute] = _first_value(kind, attribute, where)
        elif link is None:
            values[attribute] = _kept(models()[model][name].type, value)
        else:
            values[attribute] = _linked(call, link, value, where)
    return values


def linked(call: Call, link: Reference, value: Json, name: str) -> int:
    """Return the id of the live record that a body names, as ``31``, ``"31"`` or ``{"id": 31}``.

    Raises:
        ApiError: 400, naming the field, where there is no such record for this person.
    """
    raw = value.get("id") if isinstance(value, Mapping) else value
    if isinstance(raw, str) and INTEGER.fullmatch(raw):
        raw = int(raw)
    if isinstance(raw, float) and raw.is_integer():
        raw = int(raw)
    if not isinstance(raw, int) or isinstance(raw, bool):
        raise bad_field(name, "must be an id")
    target = call.world.shelf(link.target).get(raw)
    if target is None or not may_name(call.view, target):
        kind = call.view.table.kind_of(link.target)
        noun = link.target.__name__.lower() if kind is None else kind.name
        raise bad_field(name, f"names no {noun} of this workspace")
    return target.id


def _linked(call: Call, link: Reference, value: Json, name: str) -> int | tuple[int, ...]:
    if not link.many:
        return linked(call, link, value, name)
    if not isinstance(value, list):
        raise bad_field(name, "must be an array")
    return tuple(linked(call, link, json, f"{name}[{place}]") for place, json in enumerate(value))


def _first_value(kind: Kind[Any], attribute: str, name: str) -> Any:
    """Return the value of an attribute that no request has set."""
    for field in dataclasses.fields(kind.record):
        if field.name != attribute:
            continue
        if field.default is not dataclasses.MISSING:
            return field.default
        if field.default_factory is not dataclasses.MISSING:
            return field.default_factory()
        if "None" in str(field.type):
            return None
    raise bad_field(name, "must not be null")


def _kept(type_name: str, value: Json) -> Any:
    """Return a value as records keep it."""
    if isinstance(value, list):
        return tuple(value)
    if type_name == "int" and isinstance(value, str):
        return int(value)
    if type_name == "datetime" and isinstance(value, str):
        return instant(value)
    return value
