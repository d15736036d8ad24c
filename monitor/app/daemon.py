"""The daemon: named steps, started in order, drained in reverse. No signals, no files."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Mapping

import msgspec
import structlog
from msgspec import Struct
from prometheus_client import CollectorRegistry

from monitor import __version__
from monitor.alerting.reports.report_query import ReportQuery
from monitor.app.assembly import build_listener, build_mirrors, build_server, callback_settings
from monitor.app.hosted.hosting import Hosting
from monitor.app.hosted.retention import RetentionTask
from monitor.app.hosted.shard_definitions import shard_definitions
from monitor.app.readiness import probe_store
from monitor.app.reloading import Reloading
from monitor.app.store_opening import OpenStore, open_store
from monitor.app.tasks import DaemonTasks, Run, first_failure
from monitor.bus.shards import ShardStore
from monitor.callbacks.listener import CallbackListener
from monitor.config import Configuration, config_hash
from monitor.model.clock import Clock, WatchedClock
from monitor.model.errors import BusError, MonitorError
from monitor.model.reports import Report
from monitor.model.secrets import RegisterSecrets, not_logged
from monitor.outputs.metrics.daemon_metrics import DaemonMetrics
from monitor.supervisor import Supervisor
from monitor.web.audit.audit_log import (
    LOCAL,
    AuditLine,
    AuditLog,
    AuditResult,
    Redact,
    as_it_is,
)
from monitor.web.merged_requests import merged_alerting
from monitor.web.server import Server
from monitor.web.shown_shards import ShardDirectory, ShownLiveState, live_state_of
from monitor.workspace.access.stored_tokens import TokenMemory

log = structlog.get_logger()

_SHARDS_BEFORE_SERVER_SECONDS = 5.0
_SIGNAL = "SIGHUP"  # who asks for a reload


class Addresses(Struct, frozen=True, kw_only=True):
    """Where the daemon really listens, also where the settings say port 0."""

    server_port: int
    callbacks_port: int | None


class Daemon:
    """One monitor. Build it, then `run` it once."""

    def __init__(
        self,
        configuration: Configuration,
        *,
        clock: Clock,
        registry: CollectorRegistry,
        open_store: OpenStore = open_store,
        register: RegisterSecrets = not_logged,
        redact: Redact = as_it_is,
    ) -> None:
        """``register`` keeps secrets out of the log that come while the daemon runs.

        ``redact`` keeps those that are registered out of the audit.
        """
        self._configuration = configuration  # as at the start
        self._clock = clock = WatchedClock(clock)
        self._registry = registry
        self._open_store = open_store
        self._token_memory = TokenMemory(register)
        self._redact = redact
        self._supervisor = Supervisor(clock=clock, registry=registry)
        self._metrics = DaemonMetrics(
            registry=registry, clock=clock, settings=configuration.metrics, version=__version__
        )
        self._metrics.configuration_taken(config_hash(configuration))
        self._tasks = DaemonTasks(self._supervisor)
        self._server: Server | None = None
        self._has_started = asyncio.Event()  # the first shards have
        self._listener: CallbackListener | None = None

    async def run(
        self,
        stop: asyncio.Event,
        *,
        on_started: Callable[[Addresses], None] | None = None,
        on_draining: Callable[[], None] | None = None,
        beside: Mapping[str, Run] | None = None,
    ) -> None:
        """Start everything, run until ``stop`` is set, and drain.

        ``on_draining`` is called before the daemon drains, whatever made it end. ``beside`` are
        tasks of the caller, by name: started with the daemon, restarted as its own are, and ended
        before it drains.

        Raises:
            BusError: the store cannot be opened or was lost.
            ConfigurationError: an address cannot be listened on.
        """
        store = await self._open_store(
            self._configuration.storage,
            clock=self._clock,
            registry=self._registry,
            url=self._configuration.server.page_url,
        )
        try:
            await self._run_on(store, stop, on_started, on_draining, beside or {})
        finally:
            await store.close()
            log.info("daemon stopped")

    async def _run_on(
        self,
        store: ShardStore,
        stop: asyncio.Event,
        on_started: Callable[[Addresses], None] | None,
        on_draining: Callable[[], None] | None,
        beside: Mapping[str, Run],
    ) -> None:
        self._build(store)
        try:
            async with asyncio.TaskGroup() as group:
                self._tasks.use(group)
                self._hosting.use(group)
                try:
                    addresses = await self._started(store, stop)
                    if addresses is not None:
                        if on_started is not None:
                            on_started(addresses)
                        self._tasks.start_all(beside)
                        await stop.wait()
                finally:
                    if on_draining is not None:
                        on_draining()
                    await self._tasks.cancel(beside)
                    await self._drain(is_orderly=stop.is_set())
        except ExceptionGroup as failures:
            # A vital task's failure has been logged with its trace; the first one names it.
            raise first_failure(failures) from failures

    # --- steps of the start ---

    def _build(self, store: ShardStore) -> None:
        self._store = store
        storage = self._configuration.storage
        self._audit = AuditLog(
            store.entries,
            clock=self._clock,
            redact=self._redact,
            daemon=storage.daemon_id if storage.postgres else "",
        )
        self._retention = RetentionTask(
            clock=self._clock,
            settings=storage,
            registry=self._registry,
            forget_audit=self._audit.forget,
        )
        self._hosting = Hosting(
            self._configuration,
            store=store,
            clock=self._clock,
            registry=self._registry,
            metrics=self._metrics,
            supervisor=self._supervisor,
            token_memory=self._token_memory,
            trouble=lambda: self._retention.trouble,
            ages_at=self._retention.ages_at,
            reports=self._report,
        )
        self._clock.on_step(self._hosting.move_clock)
        self._clock.on_step(self._retention.clock_was_set)
        self._mirrors = build_mirrors(self._hosting, store=store, clock=self._clock)
        self._listener = build_listener(
            self._configuration,
            self._hosting,
            clock=self._clock,
            registry=self._registry,
            metrics=self._metrics,
        )
        self._reloading = Reloading(
            self._configuration, store=store, hosting=self._hosting, on_swap=self._swap
        )

    async def _started(self, store: ShardStore, stop: asyncio.Event) -> Addresses | None:
        """Start; None where it was stopped meanwhile: the first shards may be long in coming."""
        starting = asyncio.create_task(self._start(store), name="start")
        stopping = asyncio.create_task(stop.wait(), name="stop")
        try:
            await asyncio.wait((starting, stopping), return_when=asyncio.FIRST_COMPLETED)
            return starting.result() if starting.done() else None
        finally:
            for task in (starting, stopping):
                task.cancel()
            await asyncio.gather(starting, stopping, return_exceptions=True)

    async def _start(self, store: ShardStore) -> Addresses:
        """Start the steps in their order; each rests on those before it."""
        self._tasks.start("store", store.watch, vital=True)
        server = self._build_server(store)  # compiles all pages: while no shard can wait for it
        # In a thread: of a thousand shards it would hold the loop.
        await store.define(await asyncio.to_thread(shard_definitions, self._configuration))
        self._tasks.start("shards", self._hosting.run, vital=True)
        self._tasks.start("loop lag", self._metrics.loop_lag.run)
        first_shards = asyncio.create_task(self._first_shards(store), name="first shards")
        try:
            # Many may take long, and meanwhile it must be seen that the daemon lives.
            await asyncio.wait((first_shards,), timeout=_SHARDS_BEFORE_SERVER_SECONDS)
            server_port = await self._start_server(server)
            await first_shards
        finally:
            first_shards.cancel()
        self._has_started.set()
        self._tasks.start("retention", lambda: self._retention.run(store, self._hosting))
        # Last: a callback that is accepted finds its reader.
        callbacks_port = None
        if self._listener is not None:
            callbacks_port = await self._listener.start()
            self._tasks.start_all(self._listener.tasks())
        log.info(
            "daemon started",
            workspaces=[workspace.name for workspace in self._configuration.workspaces],
            server_port=server_port,
            callbacks_port=callbacks_port,
            event_loop=type(asyncio.get_running_loop()).__module__.partition(".")[0],
        )
        return Addresses(server_port=server_port, callbacks_port=callbacks_port)

    async def _first_shards(self, store: ShardStore) -> None:
        await store.await_first_shards()
        await self._hosting.all_started()

    def _build_server(self, store: ShardStore) -> Server:
        return build_server(
            self._configuration,
            self._hosting,
            store=store,
            audit=self._audit,
            mirrors=self._mirrors,
            has_started=self._has_started.is_set,
            clock=self._clock,
            registry=self._registry,
            metrics=self._metrics,
            supervisor=self._supervisor,
        )

    async def _start_server(self, server: Server) -> int:
        self._server = server
        port = await server.start()
        self._tasks.start_all(server.tasks())
        if self._mirrors is not None:
            self._tasks.start("mirrors", self._mirrors.run)
        return port

    async def _drain(self, *, is_orderly: bool) -> None:
        """Stop what brings events in, then, in an orderly stop, deliver them within a bound."""
        log.info("daemon drains")
        try:
            if self._listener is not None:
                await self._listener.stop()
            if is_orderly:
                await self._hosting.drain()
        finally:
            # Also when the store breaks meanwhile, which cancels whatever is under way here.
            if self._server is not None:
                await self._server.stop()
            await self._metrics.exposition.close()
            if self._mirrors is not None:
                await self._mirrors.close()
            await self._tasks.cancel_all()

    async def _report(self, query: ReportQuery) -> Report:
        """Return a report over all shards, also of those that other daemons hold."""
        shown = self._hosting.shown if self._mirrors is None else self._mirrors.shown
        if self._mirrors is not None:
            await self._mirrors.refresh()
        return await merged_alerting(ShardDirectory(shown)).report(query)

    # --- what callers may request while it runs ---

    @property
    def view(self) -> ShownLiveState:
        """The live state of the shards that this daemon holds."""
        return live_state_of(ShardDirectory(self._hosting.shown))()

    @property
    def registries(self) -> list[CollectorRegistry]:
        """Where the metrics are, those of the hosted shards too."""
        return self._metrics.registries()

    async def reload(self, configuration: Configuration) -> list[str]:
        """Put a configuration in force, or change nothing; see `Reloading.reload`."""
        # Who sent the signal is not known; it came from this machine.
        line = self._audit.line("reload", person=_SIGNAL, source=LOCAL)
        before = {"config_hash": config_hash(self._hosting.configuration)}
        line = msgspec.structs.replace(line, before=before)
        try:
            await self._audit.store(line)
            waiting = await self._reloading.reload(configuration)
        except MonitorError as exc:
            await self._refuse(line, str(exc))
            raise
        after = {"config_hash": config_hash(configuration), "waiting_for_restart": waiting}
        await self._audit.finish(line, AuditResult.DONE, after=after)
        return waiting

    async def probe(self) -> None:
        """Return when the store has answered a write, be it by a refusal; there once started.

        A full disk or a lock passes or needs an operator, and no restart of the daemon mends it.
        A store that is found broken ends the daemon by itself.
        """
        with contextlib.suppress(BusError):
            await probe_store(self._store)

    async def refuse_configuration(self, reason: str) -> None:
        """Count a new configuration that cannot even be read; the one in force stays."""
        await self._refuse(self._audit.line("reload", person=_SIGNAL, source=LOCAL), reason)

    async def _refuse(self, line: AuditLine, reason: str) -> None:
        self._metrics.configuration_refused()
        await self._audit.finish(line, AuditResult.REFUSED, reason=reason)

    def _swap(self, configuration: Configuration) -> None:
        self._hosting.configure(configuration)
        if self._server is not None:
            self._server.reconfigure(configuration.server)
        self._metrics.configuration_taken(config_hash(configuration))
        self._metrics.reconfigure(configuration.metrics)
        if self._listener is not None:
            self._listener.replace_workspaces(callback_settings(configuration.workspaces))
            self._listener.renew_certificate()
