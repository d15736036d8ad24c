"""``/schemas``: the JSON Schema of each type of message, as outputs send it."""

from __future__ import annotations

from typing import Annotated, Any

import msgspec
from aiohttp import web
from msgspec import Meta, Struct

from monitor.outputs.payload_schemas import payload_schemas
from monitor.web.api.route_types import RawRoute
from monitor.web.http.problem_details import ProblemDetails
from monitor.web.http.request_parsing import parse_query, unknown
from monitor.web.http.response_writing import answer_bytes
from monitor.web.views.view import NoParameters, View


class SchemaQuery(Struct, frozen=True, kw_only=True):
    """Which schema."""

    type: Annotated[str, Meta(description="A type, such as `dataprep.run.failed.v1`.")]


class MessageSchema(Struct, frozen=True, kw_only=True):
    """One type of message. ``url`` is where its schema is, ``dataschema`` what its events name.

    ``topics`` are those on which MQTT retains a document of this type, after the prefix; an event
    has none.
    """

    type: str
    dataschema: str
    url: str
    topics: tuple[str, ...]


class MessageSchemaList(Struct, frozen=True, kw_only=True):
    """Every type of event, and of document that MQTT retains."""

    data: tuple[MessageSchema, ...]


class MessageSchemas:
    """The schemas, made once."""

    def __init__(self) -> None:
        schemas = payload_schemas()
        self._bodies = {name: msgspec.json.encode(found.schema) for name, found in schemas.items()}
        self._list = MessageSchemaList(
            data=tuple(
                MessageSchema(
                    type=name,
                    dataschema=found.schema["$id"],
                    url=f"/schemas/{name}.json",
                    topics=found.topics,
                )
                for name, found in sorted(schemas.items())
            )
        )

    def view(self) -> View:
        return View(
            name="schemas",
            summary="The types of events and retained documents, each with its JSON Schema.",
            api="/schemas",
            query=NoParameters,
            answer=MessageSchemaList,
            read=self._read,
        )

    def route(self) -> RawRoute:
        return RawRoute(
            name="schema",
            summary="The JSON Schema of one type of message, as every output sends it.",
            api="/schemas/{type}.json",
            query=SchemaQuery,
            content_type="application/schema+json",
            answer=dict[str, Any],
            has_tag=True,
            serve=self._serve,
        )

    async def _read(self, _: NoParameters) -> MessageSchemaList:
        return self._list

    async def _serve(self, request: web.Request) -> web.Response:
        query = parse_query(SchemaQuery, request.match_info, request.query.items())
        body = self._bodies.get(query.type)
        if body is None:
            raise ProblemDetails(404, f"type: {unknown(query.type, self._bodies)}")
        return await answer_bytes(request, body, content_type="application/schema+json")
