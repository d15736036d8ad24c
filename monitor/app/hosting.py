"""The shards that this daemon holds: begun as the store grants them, ended as it takes them."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from functools import partial

import structlog
from prometheus_client import CollectorRegistry

from monitor.app.shard import HostedShard
from monitor.app.shard_definitions import configuration_of
from monitor.bus.contract import EventBus, Received, StoredCallback
from monitor.bus.shards import (
    ShardGranted,
    ShardLost,
    ShardStore,
)
from monitor.config import Configuration
from monitor.model.clock import Clock
from monitor.supervisor import Supervisor
from monitor.web.shown_shards import ShownShard

log = structlog.get_logger()


class Hosting:
    """Follows what the store grants. One shard's failure leaves the others as they are."""

    def __init__(
        self,
        configuration: Configuration,
        *,
        store: ShardStore,
        clock: Clock,
        registry: CollectorRegistry,
        supervisor: Supervisor,
    ) -> None:
        self._configuration = configuration
        self._store = store
        self._clock = clock
        self._registry = registry
        self._supervisor = supervisor
        self._shards: dict[str, HostedShard] = {}
        self._shown: Mapping[str, ShownShard] = {}
        self._tasks: dict[str, asyncio.Task[None]] = {}
        self._starts: dict[str, asyncio.Event] = {}  # set once a shard has started, or failed to

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

    # --- their life ---

    def use(self, group: asyncio.TaskGroup) -> None:
        """Run every shard in this group. A failure that the store does not forgive ends it."""
        self._group = group

    async def run(self) -> None:
        """Follow the store's changes for ever."""
        while True:
            change = await self._store.next_change()
            if isinstance(change, ShardGranted):
                self._begin(change.bus)
            elif (shard := self._shards.get(change.shard)) is None:
                await self._store.release(change.shard)
            else:
                is_lost = isinstance(change, ShardLost)
                reason = change.reason if isinstance(change, ShardLost) else f"for {change.by}"
                log.info("shard stops", shard=shard.name, is_lost=is_lost, reason=reason)
                shard.stop(is_orderly=not is_lost)

    async def all_started(self) -> None:
        """Return when no shard is still starting."""
        for start in list(self._starts.values()):
            await start.wait()

    async def drain(self) -> None:
        """End all shards in order, and take none any more."""
        await self._store.drain()
        for shard in self._shards.values():
            shard.stop(is_orderly=True)
        await asyncio.gather(*self._tasks.values(), return_exceptions=True)

    def _begin(self, bus: EventBus) -> None:
        before = self._tasks.get(bus.shard)
        start = self._starts[bus.shard] = asyncio.Event()
        self._tasks[bus.shard] = self._group.create_task(
            self._host(bus, before, start), name=f"shard {bus.shard}".rstrip()
        )

    async def _host(
        self, bus: EventBus, before: asyncio.Task[None] | None, start: asyncio.Event
    ) -> None:
        """Run one shard. It begins once its former life here is over."""
        if before is not None:
            await asyncio.wait((before,))
        shard = self._build(bus)
        self._shards[bus.shard] = shard
        try:
            await shard.run(on_started=partial(self._started, shard, start))
        except Exception as exc:  # noqa: BLE001 - the store says whether the daemon goes on
            await self._store.give_up(bus.shard, exc)
            log.warning("shard given up", shard=bus.shard, reason=str(exc))
        else:
            await self._store.release(bus.shard)
        finally:
            start.set()
            del self._shards[bus.shard]
            self._show()

    def _started(self, shard: HostedShard, start: asyncio.Event) -> None:
        self._show(shard)
        start.set()

    def _show(self, *new: HostedShard) -> None:
        """Show the shards that run, in place of those shown before."""
        shown = {name: found for name, found in self._shown.items() if name in self._shards}
        self._shown = shown | {shard.name: shard.shown() for shard in new}

    # --- its configuration ---

    def _build(self, bus: EventBus) -> HostedShard:
        return HostedShard(
            configuration_of(bus.shard, self._configuration),
            bus=bus,
            clock=self._clock,
            registry=self._registry,
            supervisor=self._supervisor,
        )

    @property
    def configuration(self) -> Configuration:
        """The configuration in force."""
        return self._configuration

    def configure(self, configuration: Configuration) -> None:
        """Begin shards by this configuration from now on."""
        self._configuration = configuration

    # --- callbacks ---

    async def observe_directly(self, callback: StoredCallback) -> Received | None:
        """Take a callback the direct way, where its workspace is followed here."""
        shard = self.shard_of(callback.workspace)
        if shard is None:
            return None
        direct_way = shard.workspaces.by_name[callback.workspace].direct_way
        received = None if direct_way is None else await direct_way.take(callback)
        if received is not None:
            self._show_callback(shard, callback.workspace)
        return received

    def callback_stored(self, workspace: str) -> None:
        """Wake the reader of the inbox that holds a new callback."""
        # During a reload there may be none; the next reader of the inbox starts with all of it.
        shard = self.shard_of(workspace)
        inbox = None if shard is None else shard.workspaces.by_name[workspace].inbox
        if shard is not None and inbox is not None:
            self._show_callback(shard, workspace)
            inbox.notify()

    def _show_callback(self, shard: HostedShard, workspace: str) -> None:
        shard.live_state.update_workspace(workspace, last_callback_at=self._clock.now())
