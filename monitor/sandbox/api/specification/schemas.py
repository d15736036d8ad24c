"""The parts of the OpenAPI document: schemas, parameters, and the links between operations."""

from __future__ import annotations

import functools
from collections.abc import Mapping

from monitor.catalogue.operations import Edition, Operation, operations
from monitor.sandbox.api.data.connections import OPERATIONS, SHARED_ROLES
from monitor.sandbox.api.data.dataset_library import LIBRARY_TYPES
from monitor.sandbox.api.errors import Json
from monitor.sandbox.api.models.models import (
    RUNS,
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
from monitor.sandbox.api.request.listing import (
    FILTER_TYPES,
    LARGEST_SCHEDULE_LIMIT,
    RAN_FOR,
    RAN_FROM,
    SCOPES,
    STATUSES,
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
_WHOLE_NUMBERS = frozenset(
    {"folderId", "flowId", "flowNodeId", "currentFlowId", "datasourceFlowId", "userIdFilter"}
    | {"personId", "connectionId", "assetId", "workspaceId"}
)
_CHOICES = {
    "datasetsFilter": ("all", *LIBRARY_TYPES),
    "filterType": FILTER_TYPES,
    "flowsFilter": SCOPES,
    "operations": OPERATIONS,
    "ownershipFilter": SCOPES,
    "ranfor": RAN_FOR,
    "ranfrom": RAN_FROM,
    "sharedRole": SHARED_ROLES,
    "runBy": ("all", "currentUser"),
    "status": STATUSES,
}
_TRUTHS = frozenset(
    {"runAsync", "noLimit", "excludeFolders", "hideSecrets", "fromUI"}
    | {"schematized", "hidden", "baseStorage", "sanitizeColumnNames"}
)
_DATES = frozenset({"from", "to"})
_REQUIRED = frozenset({"datasetsFilter"})
# What an answer has besides the id of what is made or listed under the same path.
_ELSEWHERE = {
    "listJobLibrary": ("/v4/jobGroups", "$response.body#/data/0/id"),
    "runFlow": ("/v4/flowRuns", "$response.body#/flowRunId"),
    "runPlan": ("/v4/planSnapshotRuns", "$response.body#/planSnapshotRunId"),
    "createAccessToken": ("/v4/apiAccessTokens", "$response.body#/tokenInfo/tokenId"),
    "listApiAccessTokens": ("/v4/apiAccessTokens", "$response.body#/data/0/tokenId"),
    "copyFlow": ("/v4/flows", "$response.body#/id"),
    "getJobsForJobGroup": ("/v4/jobs", "$response.body#/data/0/id"),
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
            # A model without a description is free-form JSON.
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


def parameters_of(operation: Operation) -> list[Json]:
    """Return an operation's parameters: of its path, of its query, and the header of runs."""
    found = [_of_path(name) for name in operation.parameters]
    found += [_of_query(operation, name) for name in operation.query]
    if operation.operation_id in RUNS:
        found.append(
            {
                "name": "x-execution-id",
                "in": "header",
                "description": "A repeated one starts nothing and is answered 304.",
                "schema": {"type": "string"},
            }
        )
    return found


def _of_path(name: str) -> Json:
    schema: dict[str, Json] = {"type": "string", "minLength": 1}
    if name in {"id", "subjectId"}:
        schema = {"type": "integer", "format": "int64"}
    elif name in _DATES:
        schema = {"type": "string", "format": "date"}
    return {"name": name, "in": "path", "required": True, "schema": schema}


def _of_query(operation: Operation, name: str) -> Json:
    parameter: dict[str, Json] = {"name": name, "in": "query", "schema": {"type": "string"}}
    if name == "dateFilter":
        parameter["style"] = "deepObject"
        parameter["schema"] = {"type": "object"}
    elif name == "limit":
        most = {"maximum": LARGEST_SCHEDULE_LIMIT} if operation.resource == "Schedule" else {}
        parameter["schema"] = {"type": "integer", "minimum": 1, **most}
    elif name == "offset":
        parameter["schema"] = {"type": "integer", "minimum": 0}
    elif name in _WHOLE_NUMBERS:
        parameter["schema"] = {"type": "integer", "format": "int64"}
    elif name in _CHOICES:
        parameter["schema"] = {"type": "string", "enum": list(_CHOICES[name])}
    elif name.startswith("include") or name in _TRUTHS:
        parameter["schema"] = {"type": "boolean"}
    if name in _REQUIRED:
        parameter["required"] = True
    return parameter


def links_of(operation: Operation, edition: Edition) -> dict[str, Json]:
    """Return the links of an operation's answer, by the operation that each leads to."""
    root, expression = _source_of(operation)
    return {
        item.operation_id: {
            "operationId": item.operation_id,
            "parameters": {item.parameters[0]: expression},
        }
        for item in _taking_ids().get(root, ())
        if item.is_part_of(edition)
    }


def _source_of(operation: Operation) -> tuple[str, str]:
    if operation.operation_id in _ELSEWHERE:
        return _ELSEWHERE[operation.operation_id]
    if operation.parameters or operation.method not in {"GET", "POST"}:
        return "", ""
    place = "/id" if operation.method == "POST" else "/data/0/id"
    return operation.path, f"$response.body#{place}"


@functools.cache
def _taking_ids() -> Mapping[str, tuple[Operation, ...]]:
    """Return the operations that take one id and nothing else, by the path before it."""
    found: dict[str, list[Operation]] = {}
    for operation in operations():
        if len(operation.parameters) == 1:
            root, _, _ = operation.path.partition("/:")
            found.setdefault(root, []).append(operation)
    return {root: tuple(some) for root, some in found.items()}
