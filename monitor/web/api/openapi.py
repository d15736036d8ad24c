"""The OpenAPI document of the JSON API, made from the types that serve it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import msgspec
from msgspec import NODEFAULT, Struct, inspect
from msgspec.structs import FieldInfo, fields

from monitor import __version__
from monitor.outputs.cloudevents import CLOUD_EVENT_SHAPES
from monitor.web.api.route_types import ApiWrite, RawRoute
from monitor.web.http.problem_details import ProblemDocument
from monitor.web.http.request_parsing import kinds_of
from monitor.web.settings import ServerSettings
from monitor.web.views.view import View

_REFERENCE = "#/components/schemas/{name}"
_INSTANT = {"type": "string", "format": "date-time"}

_ABOUT = """\
What the page shows, as JSON, with the same filters: the address of a page's box is at its foot.

Lists answer `data` and `next`: pass `next` as `cursor` for the next page; null is the end.
Answers have an entity tag (`If-None-Match`) and are compressed (`Accept-Encoding: gzip`).
Errors are problem details (RFC 9457); `detail` says what to change. Instants are ISO 8601 with a
time zone, durations are seconds. What changes something takes `Content-Type: application/json`.
"""
# What a status means where nothing else is said.
_PROBLEMS = {
    400: "A parameter or the body does not fit; `detail` names it.",
    401: "The credentials are wrong or absent.",
    403: "The role does not suffice, or a page of another origin asks for a change.",
    404: "What the request names is not known.",
    408: "The body did not arrive in time.",
    409: "It cannot be done as things are.",
    413: "The body is too long.",
    415: "The body is not `application/json`.",
    421: "The server has another name; see `hosts` in `[server]`.",
    429: "Too many writes, reads that cost too much, or wrong credentials; see `Retry-After`.",
    503: "It cannot be done now; try again.",
}
_OF_READS = (400, 404, 409, 503)
_OF_WRITES = (400, 403, 408, 409, 413, 415, 429, 503)
# Parameters that mean the same everywhere, where their field says nothing.
_PARAMETERS = {
    "workspace": "Name of a workspace.",
    "kind": "What kind of runs, or flow or plan.",
    "id": "Id, as the workspace has it.",
    "pipeline": "A flow or plan, by id or name.",
    "owner": "A part of the owner's name.",
    "folder": "A part of the name of a folder of flows.",
    "status": "How it stands.",
    "state": "How it stands.",
    "severity": "How much it needs people.",
    "rule": "Name of a rule.",
    "fingerprint": "What an alert is known by.",
    "since": "Only what is newer: an instant, or how long ago, such as `24h` or `7d`.",
    "range": "How far back.",
    "week": "A week, such as `2026-W47`; the present one without it.",
    "zone": "Time zone of days and hours.",
    "sort": "What comes first.",
    "q": "A part of the name.",
    "open": "The pipeline whose parts are listed too: `WORKSPACE/KIND/ID`.",
    "cells": "Newest runs of each pipeline.",
    "groups": "Groups in an answer.",
    "skip": "Groups to leave out at the beginning.",
    "runs": "Runs in an answer.",
    "past": "Runs to leave out at the beginning.",
    "limit": "Rows in an answer.",
    "cursor": "`next` of the page before.",
}
_SCHEMES = {
    "bearer": {"type": "http", "scheme": "bearer"},
    "basic": {"type": "http", "scheme": "basic"},
}


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


def openapi_document(
    *,
    views: Sequence[View],
    writes: Sequence[ApiWrite],
    raw: Sequence[RawRoute],
    settings: ServerSettings,
) -> dict[str, Any]:
    """Return the document, OpenAPI 3.1."""
    schemas = ComponentSchemas(_types_of(views, writes, raw))
    describe = _Operations(schemas, has_auth=settings.has_auth)
    paths: dict[str, dict[str, Any]] = {}
    for view in views:
        paths.setdefault(view.api, {})["get"] = describe.view(view)
    for route in raw:
        paths.setdefault(route.api, {})["get"] = describe.raw(route)
    for write in writes:
        paths.setdefault(write.api, {})[write.method.lower()] = describe.write(write)
    schemes = {
        name: scheme
        for name, scheme in _SCHEMES.items()
        if settings.access or (settings.token if name == "bearer" else settings.password)
    }
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "dataprep-monitor",
            "version": __version__,
            "description": _ABOUT,
            "license": {"name": "Apache-2.0", "identifier": "Apache-2.0"},
        },
        "security": [{name: []} for name in schemes],
        "paths": dict(sorted(paths.items())),
        "components": {"schemas": schemas.components, "securitySchemes": schemes},
    }


class _Operations:
    """Describes routes. What all routes have in common is written here."""

    def __init__(self, schemas: ComponentSchemas, *, has_auth: bool) -> None:
        self._schemas = schemas
        self._always = (401, 403, 421, 429) if has_auth else (421,)

    def view(self, view: View) -> dict[str, Any]:
        return {
            **self._about(view.name, view.summary, view.api, view.query),
            "responses": {
                "200": self._answer(view.summary, self._schemas.of(view.answer)),
                "304": {"description": "The client has it already, by `If-None-Match`."},
                **self._problems(_OF_READS),
            },
        }

    def raw(self, route: RawRoute) -> dict[str, Any]:
        return {
            **self._about(route.name, route.summary, route.api, route.query),
            "responses": {
                "200": self._answer(
                    route.summary, self._schemas.of(route.answer), route.content_type
                ),
                **({"304": {"description": "The client has it already."}} if route.has_tag else {}),
                **self._problems(_OF_READS, route.problems),
            },
        }

    def write(self, write: ApiWrite) -> dict[str, Any]:
        about = self._about(write.name, write.summary, write.api, write.path)
        if write.body is not None:
            content = {"application/json": {"schema": self._schemas.of(write.body)}}
            about["requestBody"] = {"required": True, "content": content}
        return {
            **about,
            "responses": {
                str(write.status): self._answer("Done.", self._schemas.of(write.answer)),
                **self._problems(_OF_WRITES, write.problems),
            },
        }

    def _about(self, name: str, summary: str, path: str, query: type[Struct]) -> dict[str, Any]:
        parameters = [self._parameter(field, path) for field in fields(query)]
        about: dict[str, Any] = {"operationId": name, "summary": summary, "tags": [_tag(path)]}
        if parameters:
            about["description"] = as_markdown(query.__doc__ or summary)
            about["parameters"] = parameters
        return about

    def _parameter(self, field: FieldInfo, path: str) -> dict[str, Any]:
        name = field.encode_name
        is_in_path = f"{{{name}}}" in path
        schema = _without_null(self._schemas.of(field.type))
        description = schema.pop("description", None) or _PARAMETERS.get(name)
        if any(isinstance(kind, msgspec.inspect.DateTimeType) for kind in kinds_of(field.type)):
            schema["format"] = "date-time"
        if field.default is not NODEFAULT and field.default is not None:
            schema["default"] = msgspec.to_builtins(field.default)
        return {
            "name": name,
            "in": "path" if is_in_path else "query",
            "required": field.required,
            **({"description": description} if description else {}),
            "schema": schema,
        }

    def _answer(
        self, summary: str, schema: Mapping[str, Any], content_type: str = "application/json"
    ) -> dict[str, Any]:
        return {"description": summary, "content": {content_type: {"schema": dict(schema)}}}

    def _problems(
        self, usual: Iterable[int], more: Mapping[int, str] | None = None
    ) -> dict[str, Any]:
        meanings = {status: _PROBLEMS[status] for status in (*usual, *self._always)}
        meanings.update(more or {})
        schema = self._schemas.of(ProblemDocument)
        return {
            str(status): {
                "description": meaning,
                "content": {"application/problem+json": {"schema": schema}},
            }
            for status, meaning in sorted(meanings.items())
        }


def _types_of(
    views: Iterable[View], writes: Iterable[ApiWrite], raw: Iterable[RawRoute]
) -> list[Any]:
    """Return every type that the document names, parameters' too."""
    types: list[Any] = [ProblemDocument, *CLOUD_EVENT_SHAPES]
    queries: list[type[Struct]] = []
    for route in raw:
        types.append(route.answer)
        queries.append(route.query)
    for view in views:
        types.append(view.answer)
        queries.append(view.query)
    for write in writes:
        types += [write.answer] if write.body is None else [write.answer, write.body]
        queries.append(write.path)
    return types + [field.type for query in queries for field in fields(query)]


def _without_null(schema: dict[str, Any]) -> dict[str, Any]:
    """Return the schema of a parameter, which is left out where a field is None."""
    kinds = [kind for kind in schema.pop("anyOf", ()) if kind != {"type": "null"}]
    if len(kinds) == 1:
        return {**kinds[0], **schema}
    return {"anyOf": kinds, **schema} if kinds else schema


def _tag(path: str) -> str:
    return path.removeprefix("/api/v1/").lstrip("/").partition("/")[0].partition(".")[0]
