"""``/schemas``: the JSON Schema of each type of event, as outputs send it."""

from __future__ import annotations

from typing import Annotated

import msgspec
from aiohttp import web
from msgspec import Meta, Struct

from monitor.outputs.cloudevent_schemas import json_schemas
from monitor.web.api.routes import NoParameters, RawRoute
from monitor.web.http.json_answers import answer_bytes
from monitor.web.http.problems import ProblemDetails
from monitor.web.http.queries import parse_query
from monitor.web.http.request_parsing import unknown
from monitor.web.views.view import View


class SchemaQuery(Struct, frozen=True, kw_only=True):
    """Which schema."""

    type: Annotated[str, Meta(description="A type, such as `dataprep.run.failed.v1`.")]


class EventSchema(Struct, frozen=True, kw_only=True):
    """One type of event. ``dataschema`` is what its messages name, ``url`` where its schema is."""

    type: str
    dataschema: str
    url: str


class EventSchemaList(Struct, frozen=True, kw_only=True):
    """Every type of event."""

    data: tuple[EventSchema, ...]


class EventSchemas:
    """The schemas, made once."""

    def __init__(self) -> None:
        schemas = json_schemas()
        self._bodies = {name: msgspec.json.encode(schema) for name, schema in schemas.items()}
        self._list = EventSchemaList(
            data=tuple(
                EventSchema(type=name, dataschema=schema["$id"], url=f"/schemas/{name}.json")
                for name, schema in sorted(schemas.items())
            )
        )

    def view(self) -> View:
        return View(
            name="schemas",
            summary="The types of events, each with its JSON Schema.",
            api="/schemas",
            query=NoParameters,
            answer=EventSchemaList,
            read=self._read,
        )

    def route(self) -> RawRoute:
        return RawRoute(
            name="schema",
            summary="The JSON Schema of one type of event, as MQTT, webhook and file have it.",
            api="/schemas/{type}.json",
            query=SchemaQuery,
            content_type="application/schema+json",
            schema={"type": "object"},
            has_tag=True,
            serve=self._serve,
        )

    async def _read(self, _: NoParameters) -> EventSchemaList:
        return self._list

    async def _serve(self, request: web.Request) -> web.Response:
        query = parse_query(SchemaQuery, request.match_info, request.query.items())
        body = self._bodies.get(query.type)
        if body is None:
            raise ProblemDetails(404, f"type: {unknown(query.type, self._bodies)}")
        return await answer_bytes(request, body, content_type="application/schema+json")
