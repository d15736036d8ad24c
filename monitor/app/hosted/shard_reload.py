"""Another configuration for one shard: planned, prepared in the store, then swapped in."""

from __future__ import annotations

from collections.abc import Collection

import structlog
from msgspec import Struct

from monitor.app.hosted.following import FollowedWorkspace
from monitor.app.hosted.outputs import OutputChange
from monitor.app.hosted.shard import HostedShard, daemon_info
from monitor.config import Configuration, files_of
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
        self._shard.configuration = configuration
