"""The shards that this daemon holds: begun as the store grants them, ended as it takes them."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from datetime import datetime, timedelta
from functools import partial

import msgspec
import structlog
from prometheus_client import CollectorRegistry

from monitor.alerting.reports.report_query import ReportQuery
from monitor.app.hosted.cluster_watch import ClusterWatch, cluster_silences
from monitor.app.hosted.shard import HostedShard
from monitor.app.hosted.shard_definitions import configuration_of, shard_names
from monitor.app.hosted.start_slots import StartSlot, StartSlots
from monitor.bus.contract import Received, StoredCallback
from monitor.bus.shards import (
    CLUSTER,
    CallbacksArrived,
    ShardGranted,
    ShardLost,
    ShardStore,
)
from monitor.config import Configuration
from monitor.model.alerts import Silence, Trouble
from monitor.model.clock import Clock
from monitor.model.errors import BusLostError, BusUnavailableError
from monitor.model.registries import ShardRegistry
from monitor.model.reports import Report
from monitor.outputs.metrics.daemon_metrics import DaemonMetrics
from monitor.supervisor import Supervisor
from monitor.tracking.clock_step import move
from monitor.web.shown_shards import ShownShard
from monitor.workspace.access.stored_tokens import TokenMemory

log = structlog.get_logger()


class _Tenure:
    """One stretch in which this daemon holds a shard; the shard's parts are there while it runs."""

    def __init__(self, granted: ShardGranted, *, before: _Tenure | None) -> None:
        self.granted = granted
        self.bus = granted.bus
        self.before = before  # the shard's former one, which must be over first
        self.shard: HostedShard | None = None
        self.is_stopped = False
        self.slot: StartSlot | None = None  # while it starts
        self.has_started = asyncio.Event()  # or failed to
        self.is_over = asyncio.Event()

    def started(self) -> None:
        """Let others start: it has started, or failed to."""
        if self.slot is not None:
            self.slot.leave(is_unused=self.shard is None)
        self.has_started.set()

    def stop(self, *, is_orderly: bool) -> None:
        self.is_stopped = True
        if self.shard is not None:
            self.shard.stop(is_orderly=is_orderly)


class Hosting:
    """Follows what the store grants. One shard's failure leaves the others as they are."""

    def __init__(
        self,
        configuration: Configuration,
        *,
        store: ShardStore,
        clock: Clock,
        registry: CollectorRegistry,
        metrics: DaemonMetrics,
        supervisor: Supervisor,
        token_memory: TokenMemory,
        trouble: Callable[[], Trouble | None],
        ages_at: Callable[[], datetime],
        reports: Callable[[ReportQuery], Awaitable[Report]],
    ) -> None:
        """``trouble`` is what the daemon lacks whatever it holds; one of its shards alerts.

        ``ages_at`` returns the time by which ages are judged where something is deleted by them.
        """
        self._configuration = configuration
        self._store = store
        self._clock = clock
        self._registry = registry
        self._metrics = metrics
        self._supervisor = supervisor
        self._token_memory = token_memory
        self._trouble = trouble
        self._ages_at = ages_at
        self._reports = reports
        self._shards: dict[str, HostedShard] = {}
        self._shown: Mapping[str, ShownShard] = {}
        self._tenures: dict[str, _Tenure] = {}  # the newest of each shard
        self._starts = StartSlots()
        self._is_draining = False

    def shown(self) -> Mapping[str, ShownShard]:
        """Return what the server needs of the shards that have started."""
        return self._shown

    @property
    def shards(self) -> Mapping[str, HostedShard]:
        """The shards of now by name, also those that are still starting."""
        return self._shards

    def shard_of(self, workspace: str) -> HostedShard | None:
        """Return the shard of a workspace that is followed here."""
        return next(
            (shard for shard in self._shards.values() if workspace in shard.workspaces.by_name),
            None,
        )

    def move_clock(self, step: timedelta) -> None:
        """Let what is known keep its age: the wall clock was set by this."""
        log.warning("wall clock was set", step_seconds=round(step.total_seconds(), 1))
        for shard in self._shards.values():
            move(shard.live_state, step, now=self._clock.now())

    # --- their life ---

    def use(self, group: asyncio.TaskGroup) -> None:
        """Run every shard in this group. A failure that the store does not forgive ends it."""
        self._group = group

    async def run(self) -> None:
        """Follow the store's changes until cancelled."""
        while True:
            change = await self._store.next_change()
            if isinstance(change, ShardGranted):
                self._begin(change)
                continue
            if isinstance(change, CallbacksArrived):
                self._wake_inboxes(change.shard)
                continue
            is_lost = isinstance(change, ShardLost)
            reason = (
                change.reason
                if isinstance(change, ShardLost)
                else f"for {change.by}"
                if change.by
                else "not configured"
            )
            log.info("shard stops", shard=change.shard, is_lost=is_lost, reason=reason)
            self._tenures[change.shard].stop(is_orderly=not is_lost)

    async def all_started(self) -> None:
        """Return when no shard is still starting."""
        for tenure in list(self._tenures.values()):
            await tenure.has_started.wait()

    async def drain(self) -> None:
        """End all shards in order, and take none any more."""
        self._is_draining = True
        await self._store.drain()
        for tenure in self._tenures.values():
            tenure.stop(is_orderly=True)
        while running := [held for held in self._tenures.values() if not held.is_over.is_set()]:
            await running[0].is_over.wait()

    def _begin(self, granted: ShardGranted) -> None:
        name = granted.bus.shard
        tenure = self._tenures[name] = _Tenure(granted, before=self._tenures.get(name))
        if self._is_draining:
            tenure.stop(is_orderly=True)  # its claim was under way: it is given back at once
        self._group.create_task(self._host(tenure), name=f"shard {name}".rstrip())

    async def _host(self, tenure: _Tenure) -> None:
        """Run one shard, and give it back once."""
        name = tenure.bus.shard
        try:
            if tenure.before is not None:
                await tenure.before.is_over.wait()
                tenure.before = None
            tenure.slot = await self._starts.take()
            if not tenure.is_stopped:
                tenure.shard = self._shards[name] = self._build(tenure.granted)
                await self._run(tenure, tenure.shard)
        except BusLostError as exc:
            # Another daemon may have it by now; a file that is lost ends the daemon by itself.
            log.info("shard lost", shard=name, reason=str(exc))
            await self._let_others_have(name)
        except Exception as exc:  # noqa: BLE001 - the store says whether the daemon goes on
            log.warning("shard failed", shard=name, reason=str(exc))
            await self._let_others_have(name, exc)
        else:
            await self._let_others_have(name)
        finally:
            self._shards.pop(name, None)
            self._show()
            tenure.started()
            tenure.is_over.set()

    async def _run(self, tenure: _Tenure, shard: HostedShard) -> None:
        try:
            await shard.run(on_started=partial(self._started, tenure, shard))
        finally:
            # Before another daemon can have it, and show it.
            self._metrics.remove(shard.metrics)

    def _started(self, tenure: _Tenure, shard: HostedShard) -> None:
        self._metrics.add(shard.metrics)
        self._show(shard)
        tenure.started()

    def _show(self, *new: HostedShard) -> None:
        """Show the shards that run, in place of those shown before."""
        shown = {name: found for name, found in self._shown.items() if name in self._shards}
        self._shown = shown | {shard.name: shard.shown() for shard in new}

    async def _let_others_have(self, shard: str, cause: Exception | None = None) -> None:
        try:
            if cause is None:
                await self._store.release(shard)
            else:
                await self._store.give_up(shard, cause)
        except BusUnavailableError as exc:
            if exc is cause:
                raise
            # The lease ends by itself.
            log.warning("shard not released", shard=shard, reason=str(exc))

    # --- its configuration ---

    def _build(self, granted: ShardGranted) -> HostedShard:
        return HostedShard(
            configuration_of(granted.bus.shard, self._configuration),
            bus=granted.bus,
            instructions=granted.instructions,
            clock=self._clock,
            registry=ShardRegistry(self._registry, shard=granted.bus.shard),
            supervisor=self._supervisor,
            token_memory=self._token_memory,
            cluster=self._cluster_watch() if granted.bus.shard == CLUSTER else None,
            own_trouble=partial(self._own_trouble, granted.bus.shard),
            ages_at=self._ages_at,
            silences=self._silences,
            reports=self._reports,
        )

    def _own_trouble(self, shard: str) -> Trouble | None:
        """Return what this daemon lacks where the shard is the first that it holds.

        The part names the shard: another one may be the first tomorrow, and alert while the alert
        of this one is still open.
        """
        trouble = self._trouble() if shard == next(iter(self._shards), None) else None
        if trouble is None or not shard:
            return trouble
        return msgspec.structs.replace(trouble, part=f"{trouble.part}@{shard}")

    async def _silences(self) -> list[Silence]:
        return await cluster_silences(self._store.elsewhere)

    def _cluster_watch(self) -> ClusterWatch:
        return ClusterWatch(
            self._store,
            configured=lambda: shard_names(self._configuration),
            clock=self._clock,
        )

    @property
    def configuration(self) -> Configuration:
        """The configuration in force."""
        return self._configuration

    def configure(self, configuration: Configuration) -> None:
        """Begin shards by this configuration from now on."""
        self._configuration = configuration

    # --- callbacks ---

    async def receive(
        self, callback: StoredCallback, *, inbox_bound: int, timeout_seconds: float
    ) -> Received:
        """Take a callback: as its workspace does where it is followed here, else into its inbox."""
        keep = partial(
            self._store.receive, inbox_bound=inbox_bound, timeout_seconds=timeout_seconds
        )
        shard = self.shard_of(callback.workspace)
        intake = None if shard is None else shard.workspaces.by_name[callback.workspace].intake
        if shard is None or intake is None:
            # During a reload there may be none; the next reader of the inbox starts with all of it.
            return await keep(callback)
        received = await intake.receive(callback, keep=keep, timeout_seconds=timeout_seconds)
        if received is not Received.FULL:
            self._show_callback(shard, callback.workspace)
        return received

    def _wake_inboxes(self, name: str) -> None:
        """Wake the readers of the inboxes into which another daemon has put callbacks."""
        shard = self._shards.get(name)
        for workspace in shard.workspaces.by_name.values() if shard is not None else ():
            if shard is not None and workspace.inbox is not None:
                self._show_callback(shard, workspace.name)
                workspace.inbox.notify()

    def _show_callback(self, shard: HostedShard, workspace: str) -> None:
        shard.live_state.update_workspace(workspace, last_callback_at=self._clock.now())
