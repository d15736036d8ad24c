"""The schemas of the specification, made from the models."""

from __future__ import annotations

import functools

from monitor.sandbox.api.errors import Json
from monitor.sandbox.api.models.models import (
    AnyOf,
    Field,
    ListOf,
    MapOf,
    Model,
    Named,
    Simple,
    Type,
    models,
    type_of,
)

_WORDS: dict[str, dict[str, Json]] = {
    "str": {"type": "string"},
    "int": {"type": "integer", "format": "int64"},
    "float": {"type": "number"},
    "bool": {"type": "boolean"},
    "datetime": {"type": "string", "format": "date-time"},
    "object": {"type": "object"},
    "any": {},
}


@functools.cache
def components() -> dict[str, Json]:
    """Return every model as a schema by its name, and the envelope of errors as ``Error``."""
    return {"Error": _error(), **{name: _model(model) for name, model in models().items()}}


def schema_of(text: str) -> dict[str, Json]:
    """Return the schema of a type, as fields and operations name them."""
    return _type(type_of(text))


def _model(model: Model) -> dict[str, Json]:
    if "" in model:
        return _with_words(schema_of(model[""].type), model[""])
    found: dict[str, Json] = {
        "type": "object",
        "properties": {name: _field(field) for name, field in model.items()},
    }
    if required := [name for name, field in model.items() if field.required]:
        found["required"] = required
    return found


def _with_words(schema: dict[str, Json], field: Field) -> dict[str, Json]:
    if not field.enum:
        return schema
    if schema.get("type") == "array":
        # The words of a list are those of its items.
        return {**schema, "items": {**schema["items"], "enum": list(field.enum)}}
    return {**schema, "enum": list(field.enum)}


def _field(field: Field) -> dict[str, Json]:
    schema = _with_words(schema_of(field.type), field)
    return schema if field.required else _or_null(schema)


def _or_null(schema: dict[str, Json]) -> dict[str, Json]:
    """Return a schema that admits null too: whatever need not be there is null in practice."""
    if not schema:
        return schema
    if "type" not in schema:
        # In this version ``nullable`` counts only beside a type, and a reference has no siblings.
        null: Json = {"type": "object", "nullable": True, "enum": [None]}
        return {"anyOf": [*schema.get("anyOf", [schema]), null]}
    if "enum" in schema:
        return {**schema, "enum": [*schema["enum"], None], "nullable": True}
    return {**schema, "nullable": True}


def _type(kind: Type) -> dict[str, Json]:
    match kind:
        case Simple(word):
            return dict(_WORDS[word])
        case Named(model):
            # A model that nobody describes is free-form JSON.
            return {"$ref": f"#/components/schemas/{model}"} if model in models() else {}
        case ListOf(item):
            return {"type": "array", "items": _type(item)}
        case MapOf(value):
            return {"type": "object", "additionalProperties": _type(value)}
        case AnyOf(choices):
            return {"anyOf": [_type(choice) for choice in choices]}


def _error() -> dict[str, Json]:
    text = {"type": "string"}
    properties = {"name": text, "message": text, "details": {}, "code": text}
    return {
        "type": "object",
        "required": ["exception"],
        "properties": {
            "exception": {"type": "object", "required": ["name"], "properties": properties}
        },
    }
