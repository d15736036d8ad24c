"""Replaces the configuration of a running daemon: all of it, or nothing.

All that can be refused comes first: new workspaces and outputs are built, loaded and get their
consumers, and unused consumers are dropped. A failure there is undone, and the
daemon goes on with exactly the workspaces and outputs of before. The swap itself needs no store, so
it cannot stop half-way. The consumer of an output that goes is dropped after it, because the
output stores its position as it ends.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection
from pathlib import Path

import structlog
from msgspec import Struct

from monitor.app.hosted.following import FollowedWorkspace
from monitor.app.hosted.hosting import Hosting
from monitor.app.hosted.outputs import OutputChange
from monitor.app.hosted.shard import REPORTS, HostedShard, daemon_info
from monitor.app.hosted.shard_definitions import configuration_of, shard_definitions
from monitor.bus.shards import ShardStore
from monitor.config import Configuration, changes_needing_restart, files_of
from monitor.model.errors import BusError

log = structlog.get_logger()


class ShardPlan(Struct, frozen=True, kw_only=True):
    """What a configuration changes. The workspaces ``built`` are not followed yet."""

    built: tuple[FollowedWorkspace, ...]  # new ones, and those whose settings changed
    kept: tuple[FollowedWorkspace, ...]
    removed: tuple[str, ...]
    outputs: OutputChange


class ShardReload:
    """The steps of a reload of one shard; `Reloading` calls them in their order."""

    def __init__(self, shard: HostedShard) -> None:
        self._shard = shard
        self.name = shard.name

    def plan(self, configuration: Configuration, renewed: Collection[str]) -> ShardPlan:
        """Return what changes, with all that is new built; raises where it cannot be."""
        before = {workspace.name: workspace for workspace in self._shard.configuration.workspaces}
        after = {workspace.name: workspace for workspace in configuration.workspaces}
        followed = self._shard.workspaces.by_name
        instance = configuration.instance
        is_renamed = instance != self._shard.configuration.instance
        changed = [
            workspace
            for name, workspace in after.items()
            if name not in followed
            or before.get(name) != workspace
            or is_renamed
            or any(path in renewed for path in files_of(workspace))
        ]
        changed_names = {workspace.name for workspace in changed}
        return ShardPlan(
            # What cannot be built is refused while the former ones still run.
            built=tuple(
                self._shard.workspaces.build(workspace, instance=instance) for workspace in changed
            ),
            kept=tuple(
                workspace
                for name, workspace in followed.items()
                if name in after and name not in changed_names
            ),
            removed=tuple(sorted(followed.keys() - after.keys())),
            outputs=self._shard.outputs.plan(
                configuration.outputs, info=daemon_info(configuration), renewed=renewed
            ),
        )

    async def prepare(self, plan: ShardPlan) -> None:
        """Do all store work. A failure leaves the daemon as it was."""
        try:
            if self._shard.has_leftovers:
                await self._shard.keep_consumers(self._shard.workspaces.by_name.values())
                self._shard.has_leftovers = False
            await self._shard.outputs.prepare(plan.outputs)
            for workspace in plan.built:
                await self._shard.workspaces.prepare(workspace)
            # Those that go may still read as their consumer until the swap; they wait, and end.
            await self._shard.keep_consumers((*plan.kept, *plan.built), more=plan.outputs.names)
        except BaseException:
            await self.undo(plan)
            raise

    async def undo(self, plan: ShardPlan) -> None:
        """Forget what was built and prepared."""
        for workspace in plan.built:
            if workspace.name not in self._shard.workspaces.by_name:
                self._shard.workspaces.forget(workspace.name)
            await workspace.close()
        await self.drop_leftovers()

    async def drop_leftovers(self) -> None:
        """Drop unused consumers now; if the store refuses, with the next reload."""
        try:
            await self._shard.keep_consumers(self._shard.workspaces.by_name.values())
        except BusError as exc:
            self._shard.has_leftovers = True
            log.warning("unused consumers stay for now", reason=str(exc))

    async def swap(self, plan: ShardPlan) -> None:
        """Let the new workspaces take over. No store work, and nothing that can be refused."""
        for name in plan.removed:
            await self._shard.workspaces.stop(name)
            self._shard.workspaces.forget(name)
        for workspace in plan.built:
            if workspace.name in self._shard.workspaces.by_name:
                await self._shard.workspaces.stop(workspace.name)
            self._shard.workspaces.add(workspace)
            self._shard.workspaces.start(workspace)
        await self._shard.outputs.swap(plan.outputs, self._shard.tasks)
        if plan.outputs.replaced:
            await self.drop_leftovers()

    async def announce(self, configuration: Configuration) -> None:
        """Let metrics, broker and alerting know; each deals with its own failures."""
        metrics = self._shard.metrics
        if configuration.metrics != self._shard.configuration.metrics:
            metrics.reconfigure(configuration.metrics)
            # A smaller budget applies to what was counted before, too.
            await self._shard.tasks.cancel(["metrics"])
            self._shard.tasks.start("metrics", metrics.consumer.run)
        await self._shard.outputs.introduce(daemon_info(configuration))
        await self._shard.engine.reconfigure(configuration.linked_alerting)
        before, self._shard.configuration = self._shard.configuration, configuration
        if configuration.reports != before.reports:
            await self._shard.tasks.cancel([REPORTS])
            self._shard.start_reports()


class Reloading:
    """Owns the configuration in force. One reload at a time."""

    def __init__(
        self,
        configuration: Configuration,
        *,
        store: ShardStore,
        hosting: Hosting,
        on_swap: Callable[[Configuration], None],
    ) -> None:
        """``on_swap`` is called as the new workspaces take over, and must not fail."""
        self._started_with = configuration  # what its keys that are read at start still say
        self._store = store
        self._hosting = hosting
        self._on_swap = on_swap
        self._files = _stamps(configuration)  # of the certificates that it names, as last read
        self._turn = asyncio.Lock()

    async def reload(self, configuration: Configuration) -> list[str]:
        """Put a configuration in force; return the keys whose change needs a restart.

        Raises:
            ConfigurationError: a file that it names cannot be used; nothing has changed.
            BusError: the store refused; nothing has changed, and the same reload may be repeated.
        """
        async with self._turn:
            await self._hosting.all_started()
            files = await asyncio.to_thread(_stamps, configuration)
            renewed = {path for path, stamp in files.items() if self._files.get(path) != stamp}
            plans = await self._prepare(configuration, renewed)
            self._on_swap(configuration)
            for reload, plan in plans:
                await reload.swap(plan)
            self._files = files
            waiting = changes_needing_restart(self._started_with, configuration)
            for reload, _ in plans:
                await reload.announce(configuration_of(reload.name, configuration))
            log.info("configuration reloaded", waiting_for_restart=waiting)
            return waiting

    async def _prepare(
        self, configuration: Configuration, renewed: set[str]
    ) -> list[tuple[ShardReload, ShardPlan]]:
        """Do all store work of all shards. A failure leaves the daemon as it was."""
        prepared: list[tuple[ShardReload, ShardPlan]] = []
        definitions = await asyncio.to_thread(shard_definitions, configuration)
        names = {definition.name for definition in definitions}
        try:
            for shard in self._hosting.shards.values():
                if shard.name not in names:
                    continue  # the store recalls it
                reload = ShardReload(shard)
                plan = reload.plan(configuration_of(shard.name, configuration), renewed)
                await reload.prepare(plan)
                prepared.append((reload, plan))
            await self._store.define(definitions)
        except BaseException:
            for reload, plan in reversed(prepared):
                await reload.undo(plan)
            raise
        return prepared


def _stamps(configuration: Configuration) -> dict[str, tuple[int, int, int] | None]:
    """Return for each file that is named what changes with its content; None where it is gone."""
    stamps: dict[str, tuple[int, int, int] | None] = {}
    for path in files_of(configuration):
        try:
            status = Path(path).stat()
        except OSError:
            stamps[path] = None
        else:
            stamps[path] = (status.st_ino, status.st_mtime_ns, status.st_size)
    return stamps
