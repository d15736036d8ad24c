"""The server for people, scrapers and scripts: page, metrics, health and JSON API."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping

import msgspec
from aiohttp import web
from aiohttp.typedefs import Middleware
from prometheus_client import CollectorRegistry, Counter

from monitor.bus.contract import EventBus
from monitor.listening.credentials import InvalidCredentials
from monitor.listening.http_listener import STOP_SECONDS, HttpListener
from monitor.listening.refusals import RefusalReason, Refusals
from monitor.model.alerts import AlertingSnapshot
from monitor.model.clock import Clock
from monitor.tracking.live_state import LiveStateView
from monitor.web.alerts_api import AlertingRequests, AlertsApi
from monitor.web.api import Api, Requests
from monitor.web.authentication import authenticate
from monitor.web.explain_api import ExplainApi
from monitor.web.explained_names import ExplainedNames
from monitor.web.health import Check, readiness
from monitor.web.hosts import refuse_foreign
from monitor.web.long_answers import in_pieces
from monitor.web.overview import Overview
from monitor.web.page_view import PageView
from monitor.web.problems import errors_as_problems
from monitor.web.request_parsing import BODY_SECONDS
from monitor.web.settings import ServerSettings
from monitor.web.stream import EventStreams
from monitor.web.writes import log_writes

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
        registry: CollectorRegistry,
        render_metrics: Render,
        checks: Callable[[], Mapping[str, Check]],
        requests: Requests,
        alerting: AlertingRequests | None = None,
        store_id: str | None = None,
    ) -> None:
        self._settings = settings
        self._clock = clock
        refused = Counter(
            "dataprep_monitor_server_refusals",
            "Connections and requests that the server refused, by reason.",
            ["reason"],
            registry=registry,
        )
        self._refusals = Refusals("server", refused, reasons=list(RefusalReason), clock=clock)
        self._listener = HttpListener(
            "server",
            settings=settings,
            refusals=self._refusals,
            clock=clock,
        )
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

    async def start(self) -> int:
        """Listen, and return the port, which settings of 0 leave to the system.

        Raises:
            ConfigurationError: the address cannot be listened on.
        """
        app = web.Application(
            client_max_size=_BODY_BYTES,
            middlewares=self._middlewares(),
        )
        app[BODY_SECONDS] = self._settings.body_timeout_seconds
        app.router.add_get("/metrics", self._metrics)
        app.router.add_get("/healthz", self._healthz)
        app.router.add_get("/readyz", self._readyz)
        self._page.add_routes(app.router)
        for api in self._apis:
            api.add_routes(app.router)
        return await self._listener.start(
            web.AppRunner(app, shutdown_timeout=STOP_SECONDS, **self._listener.options())
        )

    def _middlewares(self) -> list[Middleware]:
        """Return what a request passes before its handler, the outermost first."""
        settings, refusals, clock = self._settings, self._refusals, self._clock
        wrong = InvalidCredentials(
            refusals, clock=clock, delay_seconds=settings.wrong_credentials_delay_seconds
        )
        return [
            in_pieces,
            refuse_foreign(settings, refusals),
            authenticate(settings, wrong),
            log_writes(settings, refusals, clock=clock),
            errors_as_problems,
        ]

    async def stop(self) -> None:
        """End the live streams, finish open requests, and stop listening."""
        self._streams.close()
        await self._listener.stop()

    async def _metrics(self, request: web.Request) -> web.Response:
        body, content_type = await self._render_metrics(request.headers.get("Accept", ""))
        return web.Response(body=body, headers={"Content-Type": content_type})

    async def _healthz(self, _: web.Request) -> web.Response:
        # Whoever knows a store can see whether this daemon is the one that holds it.
        return web.json_response({"alive": True, "store": self._store_id})

    async def _readyz(self, _: web.Request) -> web.Response:
        result = await readiness(self._checks())
        return web.Response(
            status=200 if result.ready else 503,
            body=msgspec.json.encode(result),
            content_type="application/json",
        )
