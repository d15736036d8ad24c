"""The JSON API: runs, pipelines, events, and the requests that the daemon accepts."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from aiohttp import web
from msgspec import Struct

from monitor.bus.contract import EventBus
from monitor.model.outside import is_run_id
from monitor.model.runs import RunKind
from monitor.web.http.problems import ProblemDetails, number
from monitor.web.http.request_parsing import (
    answer_json,
    answer_rows,
    read_body,
    refuse_unknown,
)
from monitor.web.http.stream import FARTHEST, EventStreams
from monitor.web.requests import Requests
from monitor.web.views.overview import Overview

_DEFAULT_LIMIT = 100
_MOST = 1_000


class TrackRequest(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The body of ``POST /api/v1/track``."""

    kind: RunKind
    id: str
    workspace: str | None = None


class WebhooksRequest(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The body of ``POST /api/v1/webhooks``: ``action`` is sync, test or delete."""

    action: str
    workspace: str | None = None
    flow: str | None = None


class Api:
    """The handlers of ``/api/v1``."""

    def __init__(
        self, *, bus: EventBus, overview: Overview, streams: EventStreams, requests: Requests
    ) -> None:
        self._bus = bus
        self._overview = overview
        self._streams = streams
        self._requests = requests

    def add_routes(self, router: web.UrlDispatcher) -> None:
        prefix = "/api/v1"
        router.add_get(f"{prefix}/pipelines", self._pipelines)
        router.add_get(f"{prefix}/events", self._events)
        router.add_get(f"{prefix}/events/stream", self._streams.serve)
        router.add_post(f"{prefix}/track", self._track)
        router.add_get(f"{prefix}/webhooks", self._list_webhooks)
        router.add_post(f"{prefix}/webhooks", self._act_on_webhooks)

    async def _pipelines(self, request: web.Request) -> web.Response:
        workspace = request.query.get("workspace")
        return await self._answer_of(workspace, await self._overview.pipelines(workspace))

    async def _answer_of(self, workspace: str | None, rows: Sequence[Struct]) -> web.Response:
        if not rows:
            refuse_unknown(workspace, self._overview.workspace_names())
        return await answer_rows(rows)

    async def _events(self, request: web.Request) -> web.Response:
        after = _number(request, "after", default=0, most=FARTHEST)
        if last := _number(request, "last", default=0, most=_MOST):
            after = max(after, (await self._bus.status()).newest_position - last)
        if (since := request.query.get("since")) is not None:
            after = max(after, await self._bus.events_since(_instant("since", since)))
        limit = _number(request, "limit", default=_DEFAULT_LIMIT, most=_MOST)
        recorded = await self._bus.events(after=after, limit=limit)
        cursor = recorded[-1].position if recorded else after
        return await answer_rows(recorded, next=cursor)

    async def _track(self, request: web.Request) -> web.Response:
        body = await read_body(request, TrackRequest)
        if not is_run_id(body.id):
            raise ProblemDetails(400, f"id: {body.id[:40]!r} is not the id of a run")
        detail = await self._requests.track(body.workspace, body.kind, body.id)
        return answer_json({"detail": detail}, status=202)

    async def _list_webhooks(self, request: web.Request) -> web.Response:
        data = await self._requests.webhooks(request.query.get("workspace"), "list", None)
        return answer_json({"data": data})

    async def _act_on_webhooks(self, request: web.Request) -> web.Response:
        body = await read_body(request, WebhooksRequest)
        if body.action not in ("sync", "test", "delete"):
            raise ProblemDetails(400, f"action: {body.action[:40]!r} is none of sync, test, delete")
        data = await self._requests.webhooks(body.workspace, body.action, body.flow)
        return answer_json({"data": data})


def _number(request: web.Request, name: str, *, default: int, most: int) -> int:
    text = request.query.get(name)
    return default if text is None else number(name, text, most=most)


def _instant(name: str, text: str) -> datetime:
    try:
        instant = datetime.fromisoformat(text)
    except ValueError as exc:
        raise ProblemDetails(400, f"{name}: {text[:40]!r} is not an ISO 8601 instant") from exc
    if instant.tzinfo is None:
        raise ProblemDetails(400, f"{name}: {text[:40]!r} names no time zone; add Z or an offset")
    return instant
