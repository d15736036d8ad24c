"""The JSON Schemas of types, as components of the OpenAPI document."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import msgspec
from msgspec import inspect

_REFERENCE = "#/components/schemas/{name}"
_INSTANT = {"type": "string", "format": "date-time"}


class ComponentSchemas:
    """The schemas of some types; those that have a name are components."""

    def __init__(self, types: Iterable[Any]) -> None:
        listed = list(types)
        found, components = msgspec.json.schema_components(listed, ref_template=_REFERENCE)
        self._by_type = list(zip(listed, found, strict=True))
        for struct in _structs(inspect.multi_type_info(listed)):
            if struct.cls.__name__ in components:
                _mark_instants(struct, components[struct.cls.__name__])
        self.components: dict[str, Any] = {
            name: _described(schema) for name, schema in sorted(components.items())
        }

    def of(self, kind: Any) -> dict[str, Any]:
        """Return the schema of one of the types."""
        return dict(next(schema for other, schema in self._by_type if other == kind))


def _structs(infos: Iterable[Any]) -> Iterator[inspect.StructType]:
    """Yield every struct that the types are made of, once."""
    seen: set[type] = set()
    waiting = list(infos)
    while waiting:
        info = waiting.pop()
        if isinstance(info, inspect.StructType):
            if info.cls in seen:
                continue
            seen.add(info.cls)
            yield info
            waiting += [field.type for field in info.fields]
        else:
            waiting += _inside(info)


def _inside(info: Any) -> list[Any]:
    match info:
        case inspect.UnionType(types=types):
            return list(types)
        case inspect.Metadata(type=described):
            return [described]
        case inspect.DictType(value_type=value):
            return [value]
        case inspect.TupleType(item_types=items):
            return list(items)
    return [info.item_type] if hasattr(info, "item_type") else []


def _mark_instants(struct: inspect.StructType, schema: dict[str, Any]) -> None:
    """Say of each field that is an instant that it is one; the library leaves that out."""
    for field in () if struct.array_like else struct.fields:
        kinds = _inside(field.type) or [field.type]
        if not any(isinstance(kind, inspect.DateTimeType) for kind in kinds):
            continue
        described = schema["properties"][field.encode_name]
        for text in described.get("anyOf", [described]):
            if text.get("type") == "string":
                text.update(_INSTANT)


def _described(schema: Any) -> Any:
    """Return a schema whose texts are Markdown."""
    if isinstance(schema, dict):
        return {
            name: as_markdown(value)
            if name == "description" and isinstance(value, str)
            else _described(value)
            for name, value in schema.items()
        }
    return [_described(value) for value in schema] if isinstance(schema, list) else schema


def as_markdown(docstring: str) -> str:
    """Return a docstring of ours as the document's Markdown."""
    lines = [line.strip() for line in docstring.replace("``", "`").splitlines()]
    return "\n".join(lines).strip()
