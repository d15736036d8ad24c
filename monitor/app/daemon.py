"""The daemon: named steps, started in order, drained in reverse. No signals, no files."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable, Iterable, Mapping

import structlog
from msgspec import Struct
from prometheus_client import CollectorRegistry

from monitor.alerting.engine.commit import CONSUMER as ALERTING_CONSUMER
from monitor.app.assembly import assembled, bridge_info, callback_settings
from monitor.app.following import FollowedWorkspace
from monitor.app.housekeeping import keep_house
from monitor.app.readiness import probe_store
from monitor.app.requests import AdminRequests
from monitor.bus.contract import Start
from monitor.bus.sqlite.store import SqliteBus
from monitor.callbacks.listener import CallbackListener
from monitor.config import Configuration, WorkspaceConfiguration, config_hash
from monitor.model.clock import Clock
from monitor.model.errors import BusError
from monitor.outputs.metrics.assembly import CONSUMER as METRICS_CONSUMER
from monitor.supervisor import Supervisor
from monitor.tracking.live_state import LiveStateView

log = structlog.get_logger()

_DRAIN_SECONDS = 10.0
# Changing these means other sockets or another store; a running daemon keeps those it has.
_NEEDS_RESTART = (
    "server",
    "callbacks",
    "storage",
    "tracking",
    "metrics",
    "mqtt",
    "alertmanager",
    "webhook",
    "log",
)


class Addresses(Struct, frozen=True, kw_only=True):
    """Where the daemon really listens, also where the settings say port 0."""

    server_port: int
    callbacks_port: int | None


class Daemon:
    """One monitor. Build it, then `run` it once."""

    def __init__(
        self, configuration: Configuration, *, clock: Clock, registry: CollectorRegistry
    ) -> None:
        self._configuration = configuration
        self._clock = clock
        self._registry = registry
        self._supervisor = Supervisor(clock=clock, registry=registry)
        self._tasks: dict[str, asyncio.Task[None]] = {}
        self._followed: dict[str, FollowedWorkspace] = {}
        self._listener: CallbackListener | None = None
        self._reloading = asyncio.Lock()

    async def run(
        self,
        stop: asyncio.Event,
        *,
        on_started: Callable[[Addresses], None] | None = None,
        on_draining: Callable[[], None] | None = None,
        beside: Mapping[str, Callable[[], Awaitable[None]]] | None = None,
    ) -> None:
        """Start everything, run until ``stop`` is set, and drain.

        ``on_draining`` is called before the daemon drains, whatever made it end. ``beside`` are
        tasks of the caller, by name: they are begun when the daemon has started, kept running as
        its own are, and ended before it drains.

        Raises:
            BusError: the store cannot be opened or was lost.
            ConfigurationError: an address cannot be listened on.
        """
        bus = await SqliteBus.open(
            self._configuration.storage, clock=self._clock, registry=self._registry
        )
        try:
            await self._run_on(bus, stop, on_started, on_draining, beside or {})
        finally:
            await bus.close()
            log.info("daemon stopped")

    async def _run_on(
        self,
        bus: SqliteBus,
        stop: asyncio.Event,
        on_started: Callable[[Addresses], None] | None,
        on_draining: Callable[[], None] | None,
        beside: Mapping[str, Callable[[], Awaitable[None]]],
    ) -> None:
        self._build(bus)
        try:
            async with asyncio.TaskGroup() as group:
                self._group = group
                try:
                    addresses = await self._start(bus)
                    if on_started is not None:
                        on_started(addresses)
                    for name, run in beside.items():
                        self._spawn(name, run)
                    await stop.wait()
                finally:
                    if on_draining is not None:
                        on_draining()
                    await self._cancel(beside)
                    await self._drain(is_orderly=stop.is_set())
        except ExceptionGroup as failures:
            # A vital task's failure has been logged with its trace; the first one names it.
            raise _first(failures) from failures

    def _build(self, bus: SqliteBus) -> None:
        parts = assembled(
            self._configuration,
            bus=bus,
            clock=self._clock,
            registry=self._registry,
            supervisor=self._supervisor,
            requests=AdminRequests(self._followed),
            on_callback=self._callback_stored,
        )
        self._bus = bus
        self._live_state, self._observer = parts.live_state, parts.observer
        self._metrics, self._engine, self._outputs = parts.metrics, parts.engine, parts.outputs
        self._server, self._listener = parts.server, parts.listener

    async def _start(self, bus: SqliteBus) -> Addresses:
        """Start the steps in their order; each rests on those before it."""
        self._spawn("store", bus.watch, vital=True)
        self._spawn("observer", self._observer.watch, vital=True)
        # Before anything can be appended: who begins at the newest event must miss none of it.
        await bus.subscribe(METRICS_CONSUMER, start=Start.OLDEST)
        await self._outputs.subscribe()
        await bus.subscribe(ALERTING_CONSUMER, start=Start.NEWEST)
        for configuration in self._configuration.workspaces:
            await self._take_in(self._built(configuration))
        await self._start_outputs(bus)
        server_port = await self._server.start()
        for followed in self._followed.values():
            self._follow(followed)
        # Last: a callback that is accepted finds somebody who reads it.
        callbacks_port = await self._listener.start() if self._listener is not None else None
        log.info(
            "daemon started",
            workspaces=list(self._followed),
            server_port=server_port,
            callbacks_port=callbacks_port,
        )
        return Addresses(server_port=server_port, callbacks_port=callbacks_port)

    async def _start_outputs(self, bus: SqliteBus) -> None:
        await self._drop_former_consumers(bus)
        self._spawn("metrics", self._metrics.consumer.run)
        self._spawn("loop lag", self._metrics.loop_lag.run)
        self._spawn(
            "retention",
            lambda: keep_house(
                bus=bus,
                observer=self._observer,
                clock=self._clock,
                settings=self._configuration.storage,
            ),
        )
        # Before the outputs: what they still show of an alert that nobody holds is deleted.
        await self._engine.restore()
        self._spawn("alerting", self._engine.run)
        for name, run in self._outputs.tasks().items():
            self._spawn(name, run)

    async def _drop_former_consumers(self, bus: SqliteBus) -> None:
        """Retention waits for every consumer of the store, so none may stay that nobody runs."""
        consumers = [METRICS_CONSUMER, ALERTING_CONSUMER, *self._outputs.names]
        for followed in self._followed.values():
            consumers.extend(followed.consumers())
        for dropped in await bus.keep_only(consumers):
            log.info("consumer is no longer configured and was dropped", consumer=dropped)

    async def _drain(self, *, is_orderly: bool) -> None:
        """Stop what brings events in, then, in an orderly stop, let them out within a bound."""
        log.info("daemon drains")
        try:
            if self._listener is not None:
                await self._listener.stop()
            for followed in list(self._followed.values()):
                await self._unfollow(followed)
            if is_orderly:
                await self._outputs.drain(timeout_seconds=_DRAIN_SECONDS)
        finally:
            # Also when the store breaks meanwhile, which cancels whatever is under way here.
            await self._server.stop()
            await self._cancel(list(self._tasks))
            await self._metrics.exposition.close()

    def _built(self, configuration: WorkspaceConfiguration) -> FollowedWorkspace:
        return FollowedWorkspace(
            configuration,
            bus=self._bus,
            observer=self._observer,
            live_state=self._live_state,
            clock=self._clock,
            registry=self._registry,
            instance=_instance(self._configuration),
        )

    async def _take_in(self, followed: FollowedWorkspace) -> None:
        """Load what the store knows, and let the workspace's consumers begin where it ends."""
        self._live_state.add_workspace(followed.name)
        await followed.open()
        for consumer in followed.consumers():
            await self._bus.subscribe(consumer, start=Start.NEWEST)
        self._followed[followed.name] = followed

    def _follow(self, followed: FollowedWorkspace) -> None:
        for name, run in followed.tasks().items():
            self._spawn(name, run)

    async def _unfollow(self, followed: FollowedWorkspace) -> None:
        await self._cancel(followed.tasks())
        await followed.close()
        self._followed.pop(followed.name, None)

    def _spawn(self, name: str, run: Callable[[], Awaitable[None]], *, vital: bool = False) -> None:
        # The store's watch returns when the store is closed; everything else runs for ever.
        supervised = self._supervisor.supervise(name, run, vital=vital, finite=vital)
        self._tasks[name] = self._group.create_task(supervised, name=name)

    async def _cancel(self, names: Iterable[str]) -> None:
        tasks = [self._tasks.pop(name) for name in names if name in self._tasks]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    # --- what the outside asks for ---

    @property
    def view(self) -> LiveStateView:
        """What is known now; there once the daemon has started."""
        return self._live_state.view

    async def reload(self, configuration: Configuration) -> list[str]:
        """Take a new configuration; return the sections that a restart alone can change."""
        async with self._reloading:
            before = {workspace.name: workspace for workspace in self._configuration.workspaces}
            after = {workspace.name: workspace for workspace in configuration.workspaces}
            # What cannot be built is refused while the former ones still run.
            built = [
                self._built(item)
                for item in after.values()
                if item.name not in self._followed or before.get(item.name) != item
            ]
            if self._listener is not None:
                self._listener.replace_workspaces(callback_settings(configuration.workspaces))
            await self._let_go(self._followed.keys() - after.keys(), for_good=True)
            await self._let_go(
                {item.name for item in built} & self._followed.keys(), for_good=False
            )
            for followed in built:
                await self._take_in(followed)
                self._follow(followed)
            await self._drop_former_consumers(self._bus)
            waiting = [
                section
                for section in _NEEDS_RESTART
                if getattr(configuration, section) != getattr(self._configuration, section)
            ]
            self._configuration = configuration
            self._metrics.configuration_taken(config_hash(configuration))
            if self._outputs.mqtt is not None:
                await self._outputs.mqtt.introduce(bridge_info(configuration))
            await self._engine.reconfigure(configuration.alerting)
            log.info("configuration reloaded", waiting_for_restart=waiting)
            return waiting

    async def _let_go(self, names: Iterable[str], *, for_good: bool) -> None:
        for name in sorted(names):
            await self._unfollow(self._followed[name])
            if for_good:
                self._observer.leave(name)

    async def probe(self) -> None:
        """Return when the store has answered a write, be it by a refusal; there once started.

        A full disk or a lock passes or needs somebody, and no new start of the daemon mends it.
        A store that is found broken ends the daemon by itself.
        """
        with contextlib.suppress(BusError):
            await probe_store(self._bus)

    def refuse_configuration(self) -> None:
        """Say that a new configuration could not be used; the one in force stays."""
        self._metrics.configuration_refused()

    def _callback_stored(self, workspace: str) -> None:
        followed = self._followed.get(workspace)
        # While a reload is under way there may be nobody; whoever comes reads the whole inbox.
        if followed is not None and followed.inbox is not None:
            self._live_state.update_workspace(workspace, last_callback_at=self._clock.now())
            followed.inbox.notify()


def _instance(configuration: Configuration) -> str:
    return configuration.mqtt.instance if configuration.mqtt is not None else "monitor"


def _first(failures: BaseExceptionGroup[BaseException]) -> BaseException:
    first = failures.exceptions[0]
    return _first(first) if isinstance(first, BaseExceptionGroup) else first
