"""The server for people, scrapers and scripts: page, metrics, health and JSON API."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine
from functools import partial
from operator import attrgetter

import msgspec
from aiohttp import web
from aiohttp.typedefs import Handler, Middleware
from prometheus_client import CollectorRegistry, Counter

from monitor.bus.contract import StoredLog, StoredRuns, StoreEntries
from monitor.bus.shards import ClusterStatus
from monitor.listening.credentials import InvalidCredentials
from monitor.listening.http_listener import STOP_SECONDS, HttpListener
from monitor.listening.refusals import RefusalReason, Refusals
from monitor.listening.served_certificate import CertificateLoaded, not_shown
from monitor.model.clock import Clock
from monitor.web.access.authentication import PRINCIPAL, Authenticator, authenticate, authorize
from monitor.web.access.routes import Route, Routes
from monitor.web.access.sessions import Sessions
from monitor.web.audit.audit_log import AuditLog
from monitor.web.audit.recording import audit_writes
from monitor.web.audit.summed_refusals import SummedRefusals
from monitor.web.health import ClusterProblems, DaemonStatus, ReadChecks, Readiness, readiness
from monitor.web.http.access import IS_OURS, log_writes, refuse_foreign
from monitor.web.http.form_bodies import FormTokens
from monitor.web.http.form_keys import FormKeys
from monitor.web.http.problem_details import errors_as_problems
from monitor.web.http.read_limits import limit_reads
from monitor.web.http.request_parsing import BODY_SECONDS
from monitor.web.http.response_writing import in_pieces
from monitor.web.login import LoginPages
from monitor.web.merged_requests import merged_alerting
from monitor.web.openid_login import OpenIdLogin
from monitor.web.page.shell import PageShell, problems_as_pages
from monitor.web.principals import Role
from monitor.web.probes import ProbeListener
from monitor.web.restricted.metric_lines import lines_about
from monitor.web.restricted.restricting import seeing
from monitor.web.settings import ServerSettings
from monitor.web.shown_shards import ShardDirectory, ShownShards, live_state_of, own_or_merged
from monitor.web.site import Sites
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
        entries: StoreEntries,
        audit: AuditLog,
        clock: Clock,
        registry: CollectorRegistry,
        render_metrics: Render,
        checks: ReadChecks,
        daemon: Callable[[], DaemonStatus],
        cluster: Callable[[], Awaitable[ClusterStatus | None]],
        cluster_problems: Callable[[], ClusterProblems] = ClusterProblems,
        refresh: Callable[[], Awaitable[None]] | None = None,
        store_id: str | None = None,
        on_certificate: CertificateLoaded = not_shown,
    ) -> None:
        """``refresh`` is awaited before shards of other daemons are shown; None: there are none."""
        self._settings, self._audit = settings, audit
        self._clock = clock
        self._refusals = _counted_refusals(registry, clock)
        self._listener = self._made_listener(on_certificate)
        self._probes = self._made_probes(checks, store_id)
        self._refused = SummedRefusals(audit, clock=clock)
        self._authenticator = self._made_authenticator(entries)
        self._render_metrics, self._checks = render_metrics, checks
        self._store_id = store_id
        self._refresh = refresh
        directory = ShardDirectory(shards)
        sources = ViewSources(
            shards=directory,
            runs=runs,
            log=log,
            audit=audit,
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
        tokens = FormTokens(FormKeys(entries, clock=clock), clock=clock)
        self.sites = Sites(
            sources,
            tokens=tokens,
            settings=lambda: self._authenticator.settings,
        )
        self.follower = LogFollower(log, self.sites.whole.live.on_events, clock=clock)
        self._login = LoginPages(
            sites=self.sites, tokens=tokens, authenticator=self._authenticator, audit=audit
        )
        self._openid = OpenIdLogin(self._login, authenticator=self._authenticator, clock=clock)

    def _made_listener(self, on_certificate: CertificateLoaded) -> HttpListener:
        return HttpListener(
            "server",
            settings=self._settings,
            refusals=self._refusals,
            clock=self._clock,
            on_certificate=on_certificate,
            hsts_seconds=self._settings.hsts_seconds,
        )

    def _made_probes(self, checks: ReadChecks, store_id: str | None) -> ProbeListener | None:
        listen = self._settings.probe_listen
        if listen is None:
            return None
        return ProbeListener(
            listen, checks=checks, store_id=store_id, refusals=self._refusals, clock=self._clock
        )

    def _made_authenticator(self, entries: StoreEntries) -> Authenticator:
        settings, clock = self._settings, self._clock
        delay_seconds = settings.wrong_credentials_delay_seconds
        return Authenticator(
            settings,
            sessions=Sessions(entries, clock=clock, lasts_seconds=settings.session_seconds),
            wrong=InvalidCredentials(self._refusals, clock=clock, delay_seconds=delay_seconds),
            on_refused=self._refused.add_login,
            clock=clock,
        )

    probe_port: int | None = None  # once it listens

    async def start(self) -> int:
        """Listen, and return the port, which settings of 0 leave to the system.

        Raises:
            ConfigurationError: the address cannot be listened on.
        """
        if self._probes is not None:
            self.probe_port = await self._probes.start()
        return await self._listener.start(
            web.AppRunner(
                self.application(), shutdown_timeout=STOP_SECONDS, **self._listener.options()
            )
        )

    def application(self) -> web.Application:
        """Return a new application with every route."""
        routes = self.routes()
        app = web.Application(client_max_size=_BODY_BYTES, middlewares=self._middlewares(routes))
        app[BODY_SECONDS] = self._settings.body_timeout_seconds
        routes.register(app.router)
        return app

    def routes(self) -> Routes:
        """Return every route, with the role that it needs."""
        routes = Routes()
        routes.add("GET", "/metrics", self._metrics, Role.METRICS)
        routes.add("GET", "/healthz", self._healthz, None)
        routes.add("GET", "/readyz", self._readyz, None)
        self._login.add_routes(routes)
        self._openid.add_routes(routes)
        for route in self.sites.whole.routes:
            routes.add(
                route.method,
                route.path,
                partial(self._serve, route),
                route.role,
                is_whole=route.is_whole,
                what=route.what,
            )
        return routes

    async def _serve(self, route: Route, request: web.Request) -> web.StreamResponse:
        """Let the site of who asks answer."""
        site = await self.sites.of(request.get(PRINCIPAL))
        return await site.routes.handler_of(route)(request)

    def _middlewares(self, routes: Routes) -> list[Middleware]:
        """Return what a request passes before its handler, the outermost first."""
        settings, refusals, clock = self._settings, self._refusals, self._clock
        outage = self.sites.whole.page.outage
        return [
            in_pieces,
            problems_as_pages(self.sites.whole.page, self._shell_of),
            refuse_foreign(
                settings, refusals, must_authenticate=lambda: self._authenticator.is_needed
            ),
            authenticate(self._authenticator, routes, outage),
            limit_reads(settings, refusals, clock=clock),
            log_writes(settings, refusals, clock=clock),
            audit_writes(self._audit, routes, self._refused),
            authorize(routes),
            errors_as_problems(outage),
            _prepared(self.follower.request, *([] if self._refresh is None else [self._refresh])),
        ]

    def _shell_of(self, request: web.Request) -> PageShell | None:
        """Return what may show a page with the state of everything to who asks, None: nothing."""
        principal = request.get(PRINCIPAL)
        if principal is None or not principal.role.includes(Role.READ):
            return None
        site = self.sites.known(principal)
        return None if site is None else site.page

    def reconfigure(self, settings: ServerSettings) -> None:
        """Let the people of other settings in; the rest of them is read at start."""
        self._listener.renew_certificate()
        self._authenticator.reconfigure(settings)
        self.sites.keep([entry.workspaces for entry in settings.access])

    def tasks(self) -> dict[str, Callable[[], Coroutine[None, None, None]]]:
        """Return what runs beside the listener, by name."""
        return {
            "log follower": self.follower.run,
            "live pages": self.sites.whole.live.run,
            "refused writes": self._refused.run,
            **self._listener.tasks(),
        }

    async def stop(self) -> None:
        """End the live streams, finish open requests, and stop listening."""
        self.sites.close()
        await self._listener.stop()
        if self._probes is not None:
            await self._probes.stop()
        await self._refused.store()

    async def _metrics(self, request: web.Request) -> web.Response:
        body, content_type = await self._render_metrics(request.headers.get("Accept", ""))
        principal = request.get(PRINCIPAL)
        if principal is not None and principal.workspaces:
            body = await asyncio.to_thread(lines_about, body, seeing(principal.workspaces))
        return web.Response(body=body, headers={"Content-Type": content_type})

    async def _healthz(self, _: web.Request) -> web.Response:
        # By it a program that knows a store sees whether this daemon holds it.
        return web.json_response({"alive": True, "store": self._store_id})

    async def _readyz(self, request: web.Request) -> web.Response:
        result = await readiness(self._checks())
        principal = request.get(PRINCIPAL)
        if not request[IS_OURS] or principal is None or principal.workspaces:
            # The findings name workspaces, receivers and files, which is nothing for strangers.
            result = Readiness(ready=result.ready, checks={})
        return web.Response(
            status=200 if result.ready else 503,
            body=msgspec.json.encode(result),
            content_type="application/json",
        )


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
