"""Replaces the configuration of a running daemon: all of it, or nothing.

All that can be refused comes first: new workspaces and outputs are built, loaded and get their
consumers, and consumers that nobody needs any more are dropped. A failure there is undone, and the
daemon goes on with exactly the workspaces and outputs of before. The swap itself needs no store, so
it cannot stop half-way. The consumer of an output that goes is dropped behind it, because the
output stores its position as it ends.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Iterable
from pathlib import Path

import structlog
from msgspec import Struct

from monitor.app.assembly import DaemonParts, callback_settings, daemon_info
from monitor.app.following import FollowedWorkspace
from monitor.app.outputs import OutputChange
from monitor.app.tasks import DaemonTasks
from monitor.app.workspaces import FollowedWorkspaces
from monitor.bus.contract import EventBus
from monitor.config import Configuration, changes_needing_restart, config_hash, files_of
from monitor.model.errors import BusError

log = structlog.get_logger()

# Returns every consumer of the store that is needed with these outputs and workspaces.
ConsumersOf = Callable[[Iterable[str], Iterable[FollowedWorkspace]], list[str]]


class _Plan(Struct, frozen=True, kw_only=True):
    """What a configuration changes. The workspaces ``built`` are not followed yet."""

    built: tuple[FollowedWorkspace, ...]  # new ones, and those whose settings changed
    kept: tuple[FollowedWorkspace, ...]
    removed: tuple[str, ...]
    outputs: OutputChange


class Reloading:
    """Owns the configuration in force. One reload at a time."""

    def __init__(
        self,
        configuration: Configuration,
        *,
        bus: EventBus,
        parts: DaemonParts,
        workspaces: FollowedWorkspaces,
        consumers_of: ConsumersOf,
        tasks: DaemonTasks,
    ) -> None:
        self._started_with = configuration  # what its keys that are read at start still say
        self._configuration = configuration
        self._bus = bus
        self._parts = parts
        self._workspaces = workspaces
        self._consumers_of = consumers_of
        self._tasks = tasks
        self._files = _stamps(configuration)  # of the certificates that it names, as last read
        self._turn = asyncio.Lock()
        self._has_leftovers = False  # consumers that the store did not drop yet

    async def reload(self, configuration: Configuration) -> list[str]:
        """Put a configuration in force; return the keys whose change needs a restart.

        Raises:
            ConfigurationError: a file that it names cannot be used; nothing has changed.
            BusError: the store refused; nothing has changed, and the same reload may be repeated.
        """
        async with self._turn:
            files = await asyncio.to_thread(_stamps, configuration)
            renewed = {path for path, stamp in files.items() if self._files.get(path) != stamp}
            plan = self._plan(configuration, renewed)
            await self._prepare(plan)
            await self._swap(plan, configuration)
            self._files = files
            if plan.outputs.replaced:
                await self._drop_leftovers()
            waiting = changes_needing_restart(self._started_with, configuration)
            await self._announce(configuration)
            self._configuration = configuration
            log.info("configuration reloaded", waiting_for_restart=waiting)
            return waiting

    def _plan(self, configuration: Configuration, renewed: Collection[str]) -> _Plan:
        before = {workspace.name: workspace for workspace in self._configuration.workspaces}
        after = {workspace.name: workspace for workspace in configuration.workspaces}
        followed = self._workspaces.by_name
        instance = configuration.instance
        is_renamed = instance != self._configuration.instance
        changed = [
            workspace
            for name, workspace in after.items()
            if name not in followed
            or before.get(name) != workspace
            or is_renamed
            or any(path in renewed for path in files_of(workspace))
        ]
        changed_names = {workspace.name for workspace in changed}
        return _Plan(
            # What cannot be built is refused while the former ones still run.
            built=tuple(
                self._workspaces.build(workspace, instance=instance) for workspace in changed
            ),
            kept=tuple(
                workspace
                for name, workspace in followed.items()
                if name in after and name not in changed_names
            ),
            removed=tuple(sorted(followed.keys() - after.keys())),
            outputs=self._parts.outputs.plan(
                configuration.outputs, info=daemon_info(configuration), renewed=renewed
            ),
        )

    async def _prepare(self, plan: _Plan) -> None:
        """Do all store work. A failure leaves the daemon as it was."""
        try:
            if self._has_leftovers:
                await self._keep_consumers(self._workspaces.by_name.values())
                self._has_leftovers = False
            await self._parts.outputs.prepare(plan.outputs)
            for workspace in plan.built:
                await self._workspaces.prepare(workspace)
            # Those that go may still read as their consumer until the swap; they wait, and end.
            await self._keep_consumers((*plan.kept, *plan.built), more=plan.outputs.names)
        except BaseException:
            await self._undo(plan)
            raise

    async def _undo(self, plan: _Plan) -> None:
        for workspace in plan.built:
            if workspace.name not in self._workspaces.by_name:
                self._workspaces.forget(workspace.name)
            await workspace.close()
        await self._drop_leftovers()

    async def _drop_leftovers(self) -> None:
        """Drop the consumers that nobody needs now; if the store refuses, with the next reload."""
        try:
            await self._keep_consumers(self._workspaces.by_name.values())
        except BusError as exc:
            self._has_leftovers = True
            log.warning("consumers that nobody needs stay for now", reason=str(exc))

    async def _keep_consumers(
        self, workspaces: Iterable[FollowedWorkspace], *, more: Iterable[str] = ()
    ) -> None:
        """Drop every consumer that nobody needs, because retention waits for all of them."""
        outputs = {*self._parts.outputs.by_name, *more}
        for dropped in await self._bus.keep_only(self._consumers_of(outputs, workspaces)):
            log.info("consumer is no longer configured and was dropped", consumer=dropped)

    async def _swap(self, plan: _Plan, configuration: Configuration) -> None:
        """Let the new workspaces take over. No store work, and nothing that can be refused."""
        if self._parts.listener is not None:
            self._parts.listener.replace_workspaces(callback_settings(configuration.workspaces))
        for name in plan.removed:
            await self._workspaces.stop(name)
            self._workspaces.forget(name)
        for workspace in plan.built:
            if workspace.name in self._workspaces.by_name:
                await self._workspaces.stop(workspace.name)
            self._workspaces.add(workspace)
            self._workspaces.start(workspace)
        await self._parts.outputs.swap(plan.outputs, self._tasks)

    async def _announce(self, configuration: Configuration) -> None:
        """Let metrics, broker and alerting know; each deals with its own failures."""
        metrics = self._parts.metrics
        metrics.configuration_taken(config_hash(configuration))
        if configuration.metrics != self._configuration.metrics:
            metrics.reconfigure(configuration.metrics)
            # A smaller budget applies to what was counted before, too.
            await self._tasks.cancel(["metrics"])
            self._tasks.start("metrics", metrics.consumer.run)
        await self._parts.outputs.introduce(daemon_info(configuration))
        await self._parts.engine.reconfigure(configuration.alerting)


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
