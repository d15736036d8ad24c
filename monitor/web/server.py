"""The server for people, scrapers and scripts: page, metrics, health and JSON API."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Coroutine
from operator import attrgetter

import msgspec
from aiohttp import web
from aiohttp.typedefs import Handler, Middleware
from prometheus_client import CollectorRegistry, Counter

from monitor.bus.contract import StoredLog, StoredRuns
from monitor.bus.shards import ClusterStatus
from monitor.listening.credentials import InvalidCredentials
from monitor.listening.http_listener import STOP_SECONDS, HttpListener
from monitor.listening.refusals import RefusalReason, Refusals
from monitor.model.clock import Clock
from monitor.web.api.event_stream import EventStreams
from monitor.web.api.json_api import json_api
from monitor.web.forms.alert_forms import AcknowledgeForm, ExpireForm, SilenceForm
from monitor.web.forms.form_page import FormPages, PageForm
from monitor.web.health import ClusterProblems, DaemonStatus, ReadChecks, readiness
from monitor.web.http.access import authenticate, log_writes, refuse_foreign
from monitor.web.http.form_bodies import FormTokens
from monitor.web.http.problem_details import errors_as_problems
from monitor.web.http.request_parsing import BODY_SECONDS
from monitor.web.http.response_writing import in_pieces
from monitor.web.merged_requests import merged_alerting, merged_requests
from monitor.web.page.live import LivePages
from monitor.web.page.shell import PageShell, problems_as_pages
from monitor.web.settings import ServerSettings
from monitor.web.shown_shards import ShardDirectory, ShownShards, live_state_of, own_or_merged
from monitor.web.views.all_views import AllViews
from monitor.web.views.log_follower import LogFollower
from monitor.web.views.view import ViewSources

_BODY_BYTES = 64 * 1024
# These answer by themselves; scrapers and load balancers call them all the time.
_NOT_SHOWN = ("/metrics", "/healthz", "/readyz", "/static/")

Render = Callable[[str], Awaitable[tuple[bytes, str]]]  # accept header -> body, content type


class Server:
    """Listens for everything but callbacks."""

    def __init__(
        self,
        *,
        settings: ServerSettings,
        shards: ShownShards,
        runs: StoredRuns,
        log: StoredLog,
        clock: Clock,
        registry: CollectorRegistry,
        render_metrics: Render,
        checks: ReadChecks,
        daemon: Callable[[], DaemonStatus],
        cluster: Callable[[], Awaitable[ClusterStatus | None]],
        cluster_problems: Callable[[], ClusterProblems] = ClusterProblems,
        refresh: Callable[[], Awaitable[None]] | None = None,
        store_id: str | None = None,
    ) -> None:
        """``refresh`` is awaited before shards of other daemons are shown; None: there are none."""
        self._settings = settings
        self._clock = clock
        self._refusals = _counted_refusals(registry, clock)
        self._listener = HttpListener(
            "server", settings=settings, refusals=self._refusals, clock=clock
        )
        self._render_metrics = render_metrics
        self._checks = checks
        self._store_id = store_id
        self._refresh = refresh
        directory = ShardDirectory(shards)
        sources = ViewSources(
            shards=directory,
            runs=runs,
            log=log,
            live_state=live_state_of(directory),
            clock=clock,
            settings=settings,
            checks=checks,
            alerting_requests=own_or_merged(
                directory, attrgetter("alerting"), merged_alerting(directory)
            ),
            daemon=daemon,
            cluster=cluster,
            cluster_problems=cluster_problems,
            is_shared=refresh is not None,
        )
        self._streams = EventStreams(sources)
        self._views = views = AllViews(sources)
        self._live = LivePages(clock=clock, kept_seconds=views.overview.kept_seconds)
        self._follower = LogFollower(log, self._live.on_events, clock=clock)
        self._json = json_api(
            self._views,
            sources=sources,
            streams=self._streams,
            requests=merged_requests(directory),
        )
        self._page = PageShell(
            views.pages, status=views.status, live=self._live, clock=clock, url=settings.page_url
        )
        self._forms = FormPages(shell=self._page, tokens=FormTokens(clock=clock), live=self._live)
        self._all_forms = _all_forms(sources)

    async def start(self) -> int:
        """Listen, and return the port, which settings of 0 leave to the system.

        Raises:
            ConfigurationError: the address cannot be listened on.
        """
        return await self._listener.start(
            web.AppRunner(
                self.application(), shutdown_timeout=STOP_SECONDS, **self._listener.options()
            )
        )

    def application(self) -> web.Application:
        """Return a new application with every route."""
        app = web.Application(client_max_size=_BODY_BYTES, middlewares=self._middlewares())
        app[BODY_SECONDS] = self._settings.body_timeout_seconds
        app.router.add_get("/metrics", self._metrics)
        app.router.add_get("/healthz", self._healthz)
        app.router.add_get("/readyz", self._readyz)
        self._page.add_routes(app.router)
        self._forms.add_routes(app.router, self._all_forms)
        self._json.add_routes(app.router)
        return app

    def _middlewares(self) -> list[Middleware]:
        """Return what a request passes before its handler, the outermost first."""
        settings, refusals, clock = self._settings, self._refusals, self._clock
        wrong = InvalidCredentials(
            refusals, clock=clock, delay_seconds=settings.wrong_credentials_delay_seconds
        )
        return [
            in_pieces,
            problems_as_pages(self._page),
            refuse_foreign(settings, refusals),
            authenticate(settings, wrong),
            log_writes(settings, refusals, clock=clock),
            errors_as_problems(self._page.outage),
            _prepared(self._follower.request, *([] if self._refresh is None else [self._refresh])),
        ]

    def tasks(self) -> dict[str, Callable[[], Coroutine[None, None, None]]]:
        """Return what runs beside the listener, by name."""
        return {"log follower": self._follower.run, "live pages": self._live.run}

    async def stop(self) -> None:
        """End the live streams, finish open requests, and stop listening."""
        self._streams.close()
        self._live.close()
        await self._listener.stop()

    async def _metrics(self, request: web.Request) -> web.Response:
        body, content_type = await self._render_metrics(request.headers.get("Accept", ""))
        return web.Response(body=body, headers={"Content-Type": content_type})

    async def _healthz(self, _: web.Request) -> web.Response:
        # By it a program that knows a store sees whether this daemon holds it.
        return web.json_response({"alive": True, "store": self._store_id})

    async def _readyz(self, _: web.Request) -> web.Response:
        result = await readiness(self._checks())
        return web.Response(
            status=200 if result.ready else 503,
            body=msgspec.json.encode(result),
            content_type="application/json",
        )


def _all_forms(sources: ViewSources) -> tuple[PageForm, ...]:
    return (SilenceForm(sources), ExpireForm(sources), AcknowledgeForm(sources))


def _counted_refusals(registry: CollectorRegistry, clock: Clock) -> Refusals:
    refused = Counter(
        "dataprep_monitor_server_refusals",
        "Connections and requests that the server refused, by reason.",
        ["reason"],
        registry=registry,
    )
    return Refusals("server", refused, reasons=list(RefusalReason), clock=clock)


def _prepared(*preparations: Callable[[], Awaitable[None]]) -> Middleware:
    """Return what makes the preparations before each request of the page and the JSON API."""

    @web.middleware
    async def prepare_all(request: web.Request, handler: Handler) -> web.StreamResponse:
        if not request.path.startswith(_NOT_SHOWN):
            for prepare in preparations:
                await prepare()
        return await handler(request)

    return prepare_all
