"""The specification that the workspace serves about itself, made from the catalogue."""

from __future__ import annotations

import functools
import re
from http import HTTPStatus

from monitor.catalogue.operations import Edition, Operation, operations
from monitor.sandbox.api.calls import Call, Handlers, Reply
from monitor.sandbox.api.errors import Json
from monitor.sandbox.api.models.models import (
    FORM_TYPE,
    JSON_TYPE,
    RUNS,
    body_types_of,
    media_type_of,
    models,
    request_of,
    response_of,
    status_of,
)
from monitor.sandbox.api.specification.schemas import components, links_of, parameters_of, schema_of

_BYTES: Json = {"type": "string", "format": "binary"}
_QUOTA_HEADERS = tuple(
    f"x-rate-limit-{scope}-{word}"
    for scope in ("user", "workspace")
    for word in ("limit", "remaining", "reset")
)


@functools.cache
def document(edition: Edition, base_url: str) -> dict[str, Json]:
    """Return the OpenAPI 3.0 document of an edition's operations."""
    listed = [operation for operation in operations() if operation.is_part_of(edition)]
    paths: dict[str, dict[str, Json]] = {}
    for item in listed:
        path = re.sub(r":(\w+)", r"{\1}", item.path)
        paths.setdefault(path, {})[item.method.lower()] = _operation(item, edition)
    return {
        "openapi": "3.0.3",
        "info": {"title": "Data-preparation workspace", "version": "v4"},
        "servers": [{"url": base_url}],
        "security": [{"accessToken": []}],
        "tags": [{"name": name} for name in dict.fromkeys(item.resource for item in listed)],
        "paths": paths,
        "components": {
            "securitySchemes": {"accessToken": {"type": "http", "scheme": "bearer"}},
            "headers": {"RequestId": _header("string"), "Quota": _header("integer")},
            "schemas": components(),
        },
    }


def _header(kind: str) -> Json:
    return {"required": True, "schema": {"type": kind}}


def _operation(operation: Operation, edition: Edition) -> dict[str, Json]:
    found: dict[str, Json] = {
        "operationId": operation.operation_id,
        "summary": operation.name,
        "tags": [operation.resource],
        "parameters": parameters_of(operation),
        "responses": _responses(operation, edition),
    }
    if types := body_types_of(operation):
        content = {media_type: {"schema": _request(operation, media_type)} for media_type in types}
        found["requestBody"] = {"required": _needs_body(operation), "content": content}
    return found


def _request(operation: Operation, media_type: str) -> dict[str, Json]:
    request = request_of(operation)
    if media_type == JSON_TYPE and request is not None:
        return schema_of(request)
    if media_type == FORM_TYPE:
        return {"type": "object", "required": ["data"], "properties": {"data": _BYTES}}
    return dict(_BYTES)


def _needs_body(operation: Operation) -> bool:
    request = request_of(operation)
    if request is None:
        return True  # a file
    return any(field.required for field in models().get(request, {}).values())


def _responses(operation: Operation, edition: Edition) -> dict[str, Json]:
    status = status_of(operation)
    done = _response(operation, HTTPStatus(status).phrase)
    if media_type := media_type_of(operation):
        done["content"] = {media_type: {"schema": _answer(operation, media_type)}}
    if links := links_of(operation, edition):
        done["links"] = links
    found: dict[str, Json] = {str(status): done, "default": _refusal("Refused")}
    if operation.operation_id in RUNS:
        found["304"] = _response(operation, "Started before, by the same x-execution-id")
    if operation.quota_per_minute is not None:
        found["429"] = _refusal("Quota used up")
        found["429"]["headers"] |= {
            name: {"$ref": "#/components/headers/Quota"}
            for name in (*_QUOTA_HEADERS, "x-retry-after")
        }
    return found


def _answer(operation: Operation, media_type: str) -> dict[str, Json]:
    response = response_of(operation)
    if media_type == JSON_TYPE and response is not None:
        return schema_of(response)
    return dict(_BYTES)


def _response(operation: Operation, description: str) -> dict[str, Json]:
    names = _QUOTA_HEADERS if operation.quota_per_minute is not None else ()
    quota = {name: {"$ref": "#/components/headers/Quota"} for name in names}
    return {"description": description, "headers": _headers() | quota}


def _headers() -> dict[str, Json]:
    return {"x-trifacta-request-id": {"$ref": "#/components/headers/RequestId"}}


def _refusal(description: str) -> dict[str, Json]:
    schema = {"$ref": "#/components/schemas/Error"}
    return {
        "description": description,
        "headers": _headers(),
        "content": {JSON_TYPE: {"schema": schema}},
    }


def get_specification(call: Call) -> Reply:
    """Return the OpenAPI document of this edition's operations."""
    is_complete = call.world.options.specification == "whole"
    edition = Edition.OPEN if is_complete else call.services.edition
    return Reply(body=document(edition, call.base_url))


HANDLERS: Handlers = {"getOpenApiSpec": get_specification}
