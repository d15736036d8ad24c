"""The workspace's front: from an HTTP request to the handler of its operation, and back.

In this order a request is checked: token, route, quota, body, and then by its handler. Every
answer, refusals too, carries the workspace's ``Date`` and an ``x-trifacta-request-id``.
"""

from __future__ import annotations

import inspect
import uuid
from collections.abc import Callable, Mapping, Sequence

import msgspec
from aiohttp import web

from monitor.catalogue.operations import Edition, Operation
from monitor.sandbox.api.calls import Call, Reply, Services
from monitor.sandbox.api.errors import ApiError, Json, route_not_found
from monitor.sandbox.api.oauth.token_endpoint import TokenEndpoint
from monitor.sandbox.api.request.admission import (
    UPLOAD_LIMIT_BYTES,
    Quotas,
    authenticate,
    read_content,
    readable,
)
from monitor.sandbox.api.request.parameters import Query, integer
from monitor.sandbox.api.resources import RESOURCES
from monitor.sandbox.api.response.faults import DATE, FaultyAnswers, FaultyLists
from monitor.sandbox.api.response.kinds import View
from monitor.sandbox.api.routes import HANDLERS, UNLISTED_HANDLERS
from monitor.sandbox.api.unlisted.operations import find_operation
from monitor.sandbox.callbacks.deliveries import Deliveries
from monitor.sandbox.running.engine import Engine
from monitor.sandbox.world.ledger import Ledger
from monitor.sandbox.world.shelves import World

LEDGER_PATH = "/sandbox/ledger"
_SERVED = {**HANDLERS, **UNLISTED_HANDLERS}

# Gets the operation's id and the query of a request that is about to be served.
RequestListener = Callable[[str, Mapping[str, str]], None]


def build_app(
    world: World,
    *,
    engine: Engine,
    deliveries: Deliveries,
    ledger: Ledger,
    edition: Edition,
    listeners: Sequence[RequestListener] = (),
) -> web.Application:
    """Return the application that serves one workspace in one edition; it starts nothing.

    Outside ``/v4`` there are `token_endpoint` and, for those who run the sandbox as a process,
    ``GET /sandbox/ledger`` and ``POST /sandbox/token-pair``.
    Listeners may be added to ``listeners`` later.
    """
    services = Services(
        world=world,
        engine=engine,
        deliveries=deliveries,
        edition=edition,
        faulty_lists=FaultyLists(world),
    )
    front = Front(services, ledger, listeners)

    # A middleware sees every request, those without a proper path too; routes are the catalogue's.
    @web.middleware
    async def answer(request: web.Request, handler: object) -> web.StreamResponse:
        del handler
        return await front.receive(request)

    app = web.Application(middlewares=[answer], client_max_size=UPLOAD_LIMIT_BYTES)
    app.on_response_prepare.append(front.sign)
    return app


class Front:
    """Answers every request of one workspace."""

    def __init__(
        self, services: Services, ledger: Ledger, listeners: Sequence[RequestListener]
    ) -> None:
        self._services = services
        self._ledger = ledger
        self._listeners = listeners
        self._faults = FaultyAnswers(services.world)
        self._quotas = Quotas(services.world)
        self._token_endpoint = TokenEndpoint(services.world)
        self._request_ids = services.world.random("request ids")

    async def sign(self, request: web.Request, response: web.StreamResponse) -> None:
        """Add what stands on every answer. The date is the workspace's, with its offset."""
        response.headers["Date"] = request.get(DATE) or self._services.world.date()
        request_id = uuid.UUID(int=self._request_ids.getrandbits(128), version=4)
        response.headers["x-trifacta-request-id"] = str(request_id)

    async def receive(self, request: web.Request) -> web.StreamResponse:
        """Answer as the workspace does, with the faults that it has below ``/v4``."""
        path = readable(request.path)
        if self._token_endpoint.serves(request.method, path):
            return await self._token_endpoint.answer(request, path)
        if not _is_of_api(path):
            return await self.answer(request)
        found = find_operation(request.method, path)
        return await self._faults.answer(request, found[0] if found else None, self.answer)

    async def answer(self, request: web.Request) -> web.Response:
        """Answer as a workspace that is well."""
        headers: dict[str, str] = {}
        try:
            reply = await self._reply(request, headers)
        except ApiError as error:
            return _json_response(error.status, error.body(), headers | error.headers)
        if reply.content is None:
            return _json_response(reply.status, reply.body, headers)
        if reply.status in {204, 304}:
            return web.Response(status=reply.status, headers=headers)
        return web.Response(
            status=reply.status,
            body=reply.content,
            content_type=reply.content_type,
            headers=headers,
        )

    async def _reply(self, request: web.Request, headers: dict[str, str]) -> Reply:
        """Check and serve a request; ``headers`` receives what even a refusal shall carry."""
        path = readable(request.path)
        query = Query((readable(name), readable(text)) for name, text in request.query.items())
        if path == LEDGER_PATH and request.method == "GET":
            newest = integer(query, "newest", 1_000)
            return Reply(body=self._ledger.document(newest=newest))
        if not _is_of_api(path):
            raise route_not_found(request.method, path)
        world = self._services.world
        header = readable(request.headers.get("Authorization", ""))
        person = authenticate(world, header, self._services.edition)
        operation, path_values = self._route(request.method, path)
        headers.update(self._quotas.take(operation, person.id))
        for listener in self._listeners:
            listener(operation.operation_id, dict(query.items()))
        content = await read_content(request, operation)
        call = Call(
            operation=operation,
            path_values=path_values,
            query=query,
            body=content.body,
            upload=content.upload,
            upload_name=content.upload_name,
            execution_id=readable(request.headers.get("x-execution-id", "")).strip(),
            base_url=f"{request.scheme}://{readable(request.host)}",
            person=person,
            services=self._services,
            view=View(world, person, RESOURCES),
        )
        found = _SERVED[operation.operation_id](call)
        return await found if inspect.isawaitable(found) else found

    def _route(self, method: str, path: str) -> tuple[Operation, tuple[str, ...]]:
        found = find_operation(method, path)
        if (
            found is None
            or found[0].operation_id not in _SERVED
            or not found[0].is_part_of(self._services.edition)
            or self._faults.is_lost(found[0])
        ):
            raise route_not_found(method, path)
        return found


def _is_of_api(path: str) -> bool:
    return f"{path}/".casefold().startswith("/v4/")


def _json_response(status: int, body: Json, headers: dict[str, str]) -> web.Response:
    return web.Response(
        status=status,
        body=msgspec.json.encode(body),
        content_type="application/json",
        charset="utf-8",
        headers=headers,
    )
