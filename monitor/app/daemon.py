"""The daemon: named steps, started in order, drained in reverse. No signals, no files."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Iterable, Mapping

import structlog
from msgspec import Struct
from prometheus_client import CollectorRegistry

from monitor.alerting.engine.commit import CONSUMER as ALERTING_CONSUMER
from monitor.app.assembly import assemble
from monitor.app.failures import first_failure
from monitor.app.following import FollowedWorkspace
from monitor.app.readiness import probe_store
from monitor.app.reloading import Reloading
from monitor.app.requests import AdminRequests
from monitor.app.retention import apply_retention
from monitor.app.store import DaemonStore, OpenStore, open_sqlite
from monitor.app.tasks import DaemonTasks, Run
from monitor.app.workspaces import FollowedWorkspaces
from monitor.bus.contract import Received, Start, StoredCallback
from monitor.config import Configuration
from monitor.model.clock import Clock
from monitor.model.errors import BusError
from monitor.outputs.metrics.assembly import CONSUMER as METRICS_CONSUMER
from monitor.supervisor import Supervisor
from monitor.tracking.live_state import LiveStateView

log = structlog.get_logger()

_DRAIN_SECONDS = 10.0


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
        open_store: OpenStore = open_sqlite,
    ) -> None:
        self._configuration = configuration  # as at the start; `Reloading` has the one in force
        self._clock = clock
        self._registry = registry
        self._open_store = open_store
        self._supervisor = Supervisor(clock=clock, registry=registry)
        self._tasks = DaemonTasks(self._supervisor)
        self._followed: dict[str, FollowedWorkspace] = {}

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
        bus = await self._open_store(
            self._configuration.storage, clock=self._clock, registry=self._registry
        )
        try:
            await self._run_on(bus, stop, on_started, on_draining, beside or {})
        finally:
            await bus.close()
            log.info("daemon stopped")

    async def _run_on(
        self,
        bus: DaemonStore,
        stop: asyncio.Event,
        on_started: Callable[[Addresses], None] | None,
        on_draining: Callable[[], None] | None,
        beside: Mapping[str, Run],
    ) -> None:
        self._build(bus)
        try:
            async with asyncio.TaskGroup() as group:
                self._tasks.use(group)
                try:
                    addresses = await self._start(bus)
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

    def _build(self, bus: DaemonStore) -> None:
        self._bus = bus
        self._parts = assemble(
            self._configuration,
            bus=bus,
            clock=self._clock,
            registry=self._registry,
            supervisor=self._supervisor,
            requests=AdminRequests(self._followed),
            direct=self._observe_directly,
            on_stored=self._callback_stored,
        )
        self._workspaces = FollowedWorkspaces(
            self._followed,
            bus=bus,
            observer=self._parts.observer,
            live_state=self._parts.live_state,
            clock=self._clock,
            registry=self._registry,
            tasks=self._tasks,
        )
        self._reloading = Reloading(
            self._configuration,
            bus=bus,
            parts=self._parts,
            workspaces=self._workspaces,
            consumers_of=_consumers,
            tasks=self._tasks,
        )

    async def _start(self, bus: DaemonStore) -> Addresses:
        """Start the steps in their order; each rests on those before it."""
        self._tasks.start("store", bus.watch, vital=True)
        self._tasks.start("observer", self._parts.observer.watch, vital=True)
        await self._create_consumers(bus)
        await self._prepare_workspaces(bus)
        await self._start_consumers(bus)
        server_port = await self._parts.server.start()
        self._tasks.start_all(self._parts.server.tasks())
        for workspace in self._followed.values():
            self._workspaces.start(workspace)
        callbacks_port = await self._start_listener()
        log.info(
            "daemon started",
            workspaces=list(self._followed),
            server_port=server_port,
            callbacks_port=callbacks_port,
        )
        return Addresses(server_port=server_port, callbacks_port=callbacks_port)

    async def _create_consumers(self, bus: DaemonStore) -> None:
        """Before any event can be appended: one that begins at the newest must miss none."""
        await bus.subscribe(METRICS_CONSUMER, start=Start.OLDEST)
        await self._parts.outputs.subscribe()
        await bus.subscribe(ALERTING_CONSUMER, start=Start.NEWEST)

    async def _prepare_workspaces(self, bus: DaemonStore) -> None:
        for configuration in self._configuration.workspaces:
            workspace = self._workspaces.build(configuration, instance=self._configuration.instance)
            await self._workspaces.prepare(workspace)
            self._workspaces.add(workspace)
        # Retention waits for every consumer of the store, so none may stay that nobody runs.
        for dropped in await bus.keep_only(
            _consumers(self._parts.outputs.by_name, self._followed.values())
        ):
            log.info("consumer is no longer configured and was dropped", consumer=dropped)

    async def _start_consumers(self, bus: DaemonStore) -> None:
        parts = self._parts
        self._tasks.start("metrics", parts.metrics.consumer.run)
        self._tasks.start("loop lag", parts.metrics.loop_lag.run)
        self._tasks.start(
            "retention",
            lambda: apply_retention(
                bus=bus,
                observer=parts.observer,
                clock=self._clock,
                settings=self._configuration.storage,
            ),
        )
        # Before the outputs: they delete what they still show of an alert that is no longer held.
        await parts.engine.restore()
        self._tasks.start("alerting", parts.engine.run)
        self._tasks.start_all(parts.outputs.tasks())

    async def _start_listener(self) -> int | None:
        """Last: a callback that is accepted finds its reader."""
        listener = self._parts.listener
        return None if listener is None else await listener.start()

    async def _drain(self, *, is_orderly: bool) -> None:
        """Stop what brings events in, then, in an orderly stop, deliver them within a bound."""
        log.info("daemon drains")
        try:
            if self._parts.listener is not None:
                await self._parts.listener.stop()
            for name, workspace in list(self._followed.items()):
                if is_orderly:
                    await workspace.remember()
                await self._workspaces.stop(name)
            if is_orderly:
                await self._parts.outputs.drain(timeout_seconds=_DRAIN_SECONDS)
        finally:
            # Also when the store breaks meanwhile, which cancels whatever is under way here.
            await self._parts.server.stop()
            await self._tasks.cancel_all()
            await self._parts.metrics.exposition.close()

    # --- what callers may request while it runs ---

    @property
    def view(self) -> LiveStateView:
        """The live state; there once the daemon has started."""
        return self._parts.live_state.view

    async def reload(self, configuration: Configuration) -> list[str]:
        """Put a configuration in force, or change nothing; see `Reloading.reload`."""
        return await self._reloading.reload(configuration)

    async def probe(self) -> None:
        """Return when the store has answered a write, be it by a refusal; there once started.

        A full disk or a lock passes or needs an operator, and no restart of the daemon mends it.
        A store that is found broken ends the daemon by itself.
        """
        with contextlib.suppress(BusError):
            await probe_store(self._bus)

    def refuse_configuration(self) -> None:
        """Count a new configuration that could not be used; the one in force stays."""
        self._parts.metrics.configuration_refused()

    async def _observe_directly(self, callback: StoredCallback) -> Received | None:
        followed = self._followed.get(callback.workspace)
        if followed is None or followed.direct_way is None:
            return None
        received = await followed.direct_way.take(callback)
        if received is not None:
            self._parts.live_state.update_workspace(
                callback.workspace, last_callback_at=self._clock.now()
            )
        return received

    def _callback_stored(self, workspace: str) -> None:
        followed = self._followed.get(workspace)
        # During a reload there may be none; the next reader of the inbox starts with all of it.
        if followed is not None and followed.inbox is not None:
            self._parts.live_state.update_workspace(workspace, last_callback_at=self._clock.now())
            followed.inbox.notify()


def _consumers(outputs: Iterable[str], workspaces: Iterable[FollowedWorkspace]) -> list[str]:
    """Return every consumer that this daemon runs with these outputs and workspaces."""
    own = [METRICS_CONSUMER, ALERTING_CONSUMER, *outputs]
    return [*own, *(name for workspace in workspaces for name in workspace.consumers())]
