"""The JSON API: every route under ``/api/v1``, and the document that describes them."""

from __future__ import annotations

import asyncio
import functools
from collections.abc import Iterable
from functools import partial
from typing import Any

import msgspec
from aiohttp import web

from monitor.web.access.routes import Routes
from monitor.web.api.actions import action_writes
from monitor.web.api.badges import Badges
from monitor.web.api.dead_letters import drop_write, resend_write
from monitor.web.api.event_stream import EventStreams, stream_route
from monitor.web.api.message_schemas import MessageSchemas
from monitor.web.api.openapi import openapi_document
from monitor.web.api.previews import previews_view
from monitor.web.api.replay import replay_write
from monitor.web.api.route_types import ApiWrite, RawRoute
from monitor.web.api.silences import acknowledge_write, expire_write, silence_write
from monitor.web.api.track import track_write, untrack_write
from monitor.web.api.webhooks import webhooks_view, webhooks_write
from monitor.web.http.request_parsing import parse_query
from monitor.web.http.response_writing import answer_bytes, answer_struct
from monitor.web.requests import Requests
from monitor.web.settings import ServerSettings
from monitor.web.views.all_views import AllViews
from monitor.web.views.view import NoParameters, View, ViewSources


class JsonApi:
    """Serves views, writes and raw routes, and describes them in one OpenAPI document."""

    def __init__(
        self,
        *,
        views: Iterable[View],
        writes: Iterable[ApiWrite],
        raw: Iterable[RawRoute],
        settings: ServerSettings,
    ) -> None:
        self._views = tuple(views)
        self._writes = tuple(writes)
        itself = RawRoute(
            name="openapi",
            summary="This document.",
            api="/api/v1/openapi.json",
            content_type="application/json",
            answer=dict[str, Any],
            has_tag=True,
            serve=self._serve_document,
        )
        self._raw = (*raw, itself)
        self._settings = settings

    def add_routes(self, routes: Routes) -> None:
        for view in self._views:
            routes.add("GET", view.api, partial(_serve, view), view.role, is_whole=view.is_whole)
        for route in self._raw:
            routes.add("GET", route.api, route.serve, route.role)
        for write in self._writes:
            routes.add(
                write.method,
                write.api,
                write.serve,
                write.role,
                is_whole=write.is_whole,
                what=write.name,
            )

    async def _serve_document(self, request: web.Request) -> web.Response:
        parse_query(NoParameters, request.match_info, request.query.items())
        # Made when it is first asked for, which takes longer than a step may.
        return await answer_bytes(request, await asyncio.to_thread(self._made_document))

    @functools.cached_property
    def _document(self) -> bytes:
        return msgspec.json.encode(
            openapi_document(
                views=self._views, writes=self._writes, raw=self._raw, settings=self._settings
            )
        )

    def _made_document(self) -> bytes:
        return self._document


async def _serve(view: View, request: web.Request) -> web.Response:
    query = parse_query(view.query, request.match_info, request.query.items())
    return await answer_struct(request, await view.read(query))


def json_api(
    views: AllViews, *, sources: ViewSources, streams: EventStreams, requests: Requests
) -> JsonApi:
    """Return the API: the views of the pages, what is JSON only, and what changes something."""
    schemas = MessageSchemas()
    return JsonApi(
        views=[*views.all(), webhooks_view(requests), previews_view(sources), schemas.view()],
        writes=[
            track_write(requests),
            untrack_write(requests),
            *action_writes(requests, sources),
            webhooks_write(requests),
            silence_write(sources),
            expire_write(sources),
            acknowledge_write(sources),
            replay_write(sources),
            resend_write(sources),
            drop_write(sources),
        ],
        raw=[stream_route(streams), schemas.route(), *Badges(sources).routes()],
        settings=sources.settings,
    )
