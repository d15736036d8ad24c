"""The server for people, scrapers and scripts: page, metrics, health and JSON API."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping

import msgspec
from aiohttp import web
from aiohttp.http_exceptions import HttpProcessingError

from monitor.bus.contract import EventBus
from monitor.model.alerts import AlertingSnapshot
from monitor.model.clock import Clock
from monitor.model.errors import ConfigurationError
from monitor.model.request_errors import RequestErrors
from monitor.tracking.live_state import LiveStateView
from monitor.web.alerts_api import AlertingRequests, AlertsApi
from monitor.web.api import Api, Requests
from monitor.web.authentication import authenticate
from monitor.web.explain_api import ExplainApi
from monitor.web.explained_names import ExplainedNames
from monitor.web.health import Check, readiness
from monitor.web.overview import Overview
from monitor.web.page_view import PageView
from monitor.web.problems import errors_as_problems
from monitor.web.settings import ServerSettings
from monitor.web.stream import EventStreams

_BODY_BYTES = 64 * 1024

Render = Callable[[str], Awaitable[tuple[bytes, str]]]  # accept header -> body, content type


class Server:
    """Listens for everything but callbacks."""

    def __init__(
        self,
        *,
        settings: ServerSettings,
        bus: EventBus,
        view: LiveStateView,
        clock: Clock,
        render_metrics: Render,
        checks: Mapping[str, Check],
        requests: Requests,
        alerting: AlertingRequests | None = None,
        store_id: str | None = None,
    ) -> None:
        self._settings = settings
        self._render_metrics = render_metrics
        self._checks = checks
        self._store_id = store_id
        self._streams = EventStreams(bus)
        overview = Overview(
            bus=bus,
            view=view,
            clock=clock,
            stale_after_seconds=settings.stale_after_seconds,
            alerting=alerting.snapshot if alerting is not None else AlertingSnapshot,
        )
        api = Api(bus=bus, overview=overview, streams=self._streams, requests=requests)
        self._apis: list[Api | AlertsApi | ExplainApi] = [api]
        explain = None
        if alerting is not None:
            names = ExplainedNames(alerting, view=view, bus=bus)
            explain = ExplainApi(alerting, names=names)
            self._apis += [AlertsApi(alerting, clock=clock, overview=overview), explain]
        self._page = PageView(overview, explain)
        self._runner: web.AppRunner | None = None

    async def start(self) -> int:
        """Listen, and return the port, which settings of 0 leave to the system.

        Raises:
            ConfigurationError: the address cannot be listened on.
        """
        app = web.Application(
            client_max_size=_BODY_BYTES,
            middlewares=[authenticate(self._settings), errors_as_problems],
        )
        app.router.add_get("/metrics", self._metrics)
        app.router.add_get("/healthz", self._healthz)
        app.router.add_get("/readyz", self._readyz)
        self._page.add_routes(app.router)
        for api in self._apis:
            api.add_routes(app.router)
        self._runner = web.AppRunner(
            app,
            access_log=None,
            logger=RequestErrors(harmless=(HttpProcessingError, ConnectionError)),
            shutdown_timeout=5.0,
        )
        await self._runner.setup()
        site = web.TCPSite(self._runner, self._settings.host, self._settings.port)
        try:
            await site.start()
        except OSError as exc:
            await self._runner.cleanup()
            address = f"{self._settings.host}:{self._settings.port}"
            raise ConfigurationError(
                f"server.listen: {address} cannot be listened on ({exc.strerror}): "
                "free the port or choose another"
            ) from exc
        port: int = self._runner.addresses[0][1]
        return port

    async def stop(self) -> None:
        """End the live streams, finish open requests, and stop listening."""
        self._streams.close()
        if self._runner is not None:
            await self._runner.cleanup()
            self._runner = None

    async def _metrics(self, request: web.Request) -> web.Response:
        body, content_type = await self._render_metrics(request.headers.get("Accept", ""))
        return web.Response(body=body, headers={"Content-Type": content_type})

    async def _healthz(self, _: web.Request) -> web.Response:
        # Whoever knows a store can see whether this daemon is the one that holds it.
        return web.json_response({"alive": True, "store": self._store_id})

    async def _readyz(self, _: web.Request) -> web.Response:
        result = await readiness(self._checks)
        return web.Response(
            status=200 if result.ready else 503,
            body=msgspec.json.encode(result),
            content_type="application/json",
        )
