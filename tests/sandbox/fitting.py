"""Whether what is answered fits the model that it should have."""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import datetime
from typing import Any

from monitor.sandbox.api.models.models import (
    AnyOf,
    Field,
    ListOf,
    MapOf,
    Named,
    Simple,
    Type,
    models,
    type_of,
)

_KINDS: dict[str, tuple[type, ...]] = {
    "str": (str,),
    "int": (int,),
    "float": (int, float),
    "bool": (bool,),
    "object": (dict,),
    "any": (object,),
}


def faults(value: Any, kind: str, where: str) -> list[str]:
    """Return what is wrong with a value, by the type that it should have."""
    return list(_type_faults(value, type_of(kind), where))


def _type_faults(value: Any, kind: Type, where: str) -> Iterator[str]:
    match kind:
        case Simple(word):
            yield from _word_faults(value, word, where)
        case ListOf(item):
            yield from _list_faults(value, item, where)
        case MapOf(inner):
            yield from _map_faults(value, inner, where)
        case AnyOf(choices):
            found = [list(_type_faults(value, choice, where)) for choice in choices]
            if all(found):
                yield f"{where}: fits no choice: {' or '.join(choice[0] for choice in found)}"
        case Named(model):
            yield from _model_faults(value, model, where)


def _list_faults(value: Any, item: Type, where: str) -> Iterator[str]:
    if not isinstance(value, list):
        yield f"{where}: {value!r} is no list"
        return
    for index, other_item in enumerate(value):
        yield from _type_faults(other_item, item, f"{where}[{index}]")


def _map_faults(value: Any, inner: Type, where: str) -> Iterator[str]:
    if not isinstance(value, dict):
        yield f"{where}: {value!r} is no object"
        return
    for name, item in value.items():
        yield from _type_faults(item, inner, f"{where}.{name}")


def _word_faults(value: Any, word: str, where: str) -> Iterator[str]:
    if word == "datetime":
        is_text = isinstance(value, str) and re.fullmatch(r".{19}\.000Z", value)
        if not is_text or not datetime.fromisoformat(value):
            yield f"{where}: {value!r} is no date"
    elif not isinstance(value, _KINDS[word]) or (
        isinstance(value, bool) and word in {"int", "float"}
    ):
        yield f"{where}: {value!r} is no {word}"


def _model_faults(value: Any, model: str, where: str) -> Iterator[str]:
    if model not in models():
        yield f"{where}: nothing says what {model} is"
        return
    fields = models()[model]
    if "" in fields:
        yield from _field_faults(value, fields[""], where)
        return
    if not isinstance(value, dict):
        yield f"{where}: {value!r} is no {model}"
        return
    for name, field in fields.items():
        if value.get(name) is not None:
            yield from _field_faults(value[name], field, f"{where}.{name}")
        elif field.required:
            yield f"{where}.{name} is missing"


def _field_faults(value: Any, field: Field, where: str) -> Iterator[str]:
    # The words of a list are those of its items.
    words = value if isinstance(value, list) else [value]
    if field.enum and any(word not in field.enum for word in words):
        yield f"{where}: {value!r} is none of {field.enum}"
    yield from _type_faults(value, type_of(field.type), where)
