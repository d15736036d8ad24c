"""The specification that the workspace serves about itself, made from the catalogue."""

from __future__ import annotations

import functools
import re

from monitor.catalogue.operations import Edition, Operation, operations
from monitor.sandbox.http.errors import Json
from monitor.sandbox.http.reading.listing import FILTER_TYPES, RAN_FROM, SCOPES, STATUSES
from monitor.sandbox.http.showing.models import Field, models

WHOLE_NUMBERS = frozenset({"limit", "offset", "folderId", "flowNodeId", "assetId", "workspaceId"})
CHOICES = {
    "filterType": FILTER_TYPES,
    "flowsFilter": SCOPES,
    "ownershipFilter": SCOPES,
    "ranfrom": RAN_FROM,
    "runBy": ("all", "currentUser"),
    "status": STATUSES,
}
CREATED = frozenset({"runJobGroup", "runFlow", "runPlan", "createSchedule"})
SIMPLE_TYPES: dict[str, dict[str, Json]] = {
    "str": {"type": "string"},
    "int": {"type": "integer", "format": "int64"},
    "float": {"type": "number"},
    "bool": {"type": "boolean"},
    "datetime": {"type": "string", "format": "date-time"},
    "int|str": {"oneOf": [{"type": "integer"}, {"type": "string"}]},
    "list": {"type": "array", "items": {}},
    "object": {"type": "object"},
}


@functools.cache
def document(edition: Edition, base_url: str) -> dict[str, Json]:
    """Return the OpenAPI 3.0 document of an edition's operations."""
    offered = [one for one in operations() if one.is_offered_in(edition)]
    paths: dict[str, dict[str, Json]] = {}
    for one in offered:
        path = re.sub(r":(\w+)", r"{\1}", one.path)
        paths.setdefault(path, {})[one.method.lower()] = _operation(one)
    return {
        "openapi": "3.0.3",
        "info": {"title": "Data-preparation workspace", "version": "v4"},
        "servers": [{"url": base_url}],
        "security": [{"accessToken": []}],
        "tags": [{"name": name} for name in dict.fromkeys(one.resource for one in offered)],
        "paths": paths,
        "components": {
            "securitySchemes": {"accessToken": {"type": "http", "scheme": "bearer"}},
            "schemas": {"Error": _error(), **{name: _model(name) for name in models()}},
        },
    }


def _operation(one: Operation) -> dict[str, Json]:
    found: dict[str, Json] = {
        "operationId": one.operation_id,
        "summary": one.name,
        "tags": [one.resource],
        "parameters": [
            *(_path_parameter(name) for name in one.parameters),
            *(_query_parameter(name) for name in one.query),
        ],
        "responses": _responses(one),
    }
    if one.request is not None:
        found["requestBody"] = {"content": {"application/json": {"schema": _type(one.request)}}}
    return found


def _path_parameter(name: str) -> Json:
    kind = "integer" if name == "id" else "string"
    return {"name": name, "in": "path", "required": True, "schema": {"type": kind}}


def _query_parameter(name: str) -> Json:
    parameter: dict[str, Json] = {"name": name, "in": "query", "schema": {"type": "string"}}
    if name == "dateFilter":
        parameter["style"] = "deepObject"
        parameter["schema"] = {"type": "object"}
    elif name in WHOLE_NUMBERS:
        parameter["schema"] = {"type": "integer"}
    elif name in CHOICES:
        parameter["schema"] = {"type": "string", "enum": list(CHOICES[name])}
    elif name.startswith("include") or name == "runAsync":
        parameter["schema"] = {"type": "boolean"}
    return parameter


def _responses(one: Operation) -> dict[str, Json]:
    failure = {"$ref": "#/components/schemas/Error"}
    responses: dict[str, Json] = {
        "default": {
            "description": "Refused",
            "content": {"application/json": {"schema": failure}},
        }
    }
    is_made = one.operation_id.startswith("create") or one.operation_id in CREATED
    if one.response is not None:
        responses["201" if is_made else "200"] = {
            "description": "Done",
            "content": {"application/json": {"schema": _type(one.response)}},
        }
    elif one.method == "DELETE":
        responses["204"] = {"description": "Deleted"}
    else:
        responses["200"] = {"description": "Done"}
    if one.quota_per_minute is not None:
        responses["429"] = {"description": "Quota used up"}
    return responses


def _model(name: str) -> dict[str, Json]:
    fields = models()[name]
    if "" in fields:
        return {"type": "string", "enum": list(fields[""].enum)}
    found: dict[str, Json] = {
        "type": "object",
        "properties": {field: _field(one) for field, one in fields.items()},
    }
    required = [field for field, one in fields.items() if one.required]
    if required:
        found["required"] = required
    return found


def _field(field: Field) -> Json:
    schema = _type(field.type)
    if field.enum:
        schema = {**schema, "enum": list(field.enum)}
    if field.required:
        return schema
    # Whatever need not be there is null in practice; a reference takes no siblings.
    if "$ref" in schema:
        return {"allOf": [schema], "nullable": True}
    if "enum" in schema:
        return {**schema, "enum": [*schema["enum"], None], "nullable": True}
    return {**schema, "nullable": True} if "type" in schema else schema


def _type(text: str) -> dict[str, Json]:
    if text in SIMPLE_TYPES:
        return SIMPLE_TYPES[text]
    if found := re.fullmatch(r"list\[(.+)\]", text):
        return {"type": "array", "items": _type(found.group(1))}
    if found := re.fullmatch(r"dict\(str, (.+)\)", text):
        return {"type": "object", "additionalProperties": _type(found.group(1))}
    if text in models():
        return {"$ref": f"#/components/schemas/{text}"}
    return {}  # a union or free-form JSON that nothing public describes


def _error() -> Json:
    text = {"type": "string"}
    properties = {"name": text, "message": text, "details": {}, "code": text}
    return {
        "type": "object",
        "required": ["exception"],
        "properties": {
            "exception": {"type": "object", "required": ["name"], "properties": properties}
        },
    }
