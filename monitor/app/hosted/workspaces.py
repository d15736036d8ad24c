"""The workspaces that the daemon follows: built, prepared in the store, started, stopped."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial

from prometheus_client import CollectorRegistry

from monitor.app.hosted.following import FollowedWorkspace
from monitor.app.tasks import DaemonTasks
from monitor.bus.contract import EventBus, Start
from monitor.config import WorkspaceConfiguration
from monitor.model.clock import Clock
from monitor.tracking.live_state import LiveState
from monitor.tracking.observer import Observer
from monitor.workspace.access.stored_tokens import TokenMemory


class FollowedWorkspaces:
    """Those that are followed now, by name, and the steps by which one comes and goes."""

    def __init__(
        self,
        *,
        bus: EventBus,
        observer: Observer,
        live_state: LiveState,
        clock: Clock,
        registry: CollectorRegistry,
        token_memory: TokenMemory,
        tasks: DaemonTasks,
    ) -> None:
        self._followed: dict[str, FollowedWorkspace] = {}
        self.by_name: Mapping[str, FollowedWorkspace] = self._followed
        self._bus = bus
        self._observer = observer
        self._live_state = live_state
        self._tasks = tasks
        self._build = partial(
            FollowedWorkspace,
            bus=bus,
            observer=observer,
            live_state=live_state,
            clock=clock,
            registry=registry,
            token_memory=token_memory,
        )

    def build(self, configuration: WorkspaceConfiguration, *, instance: str) -> FollowedWorkspace:
        """Return a workspace that is not followed yet; ``instance`` is in its webhook tasks.

        Raises:
            ConfigurationError: a file that it names cannot be used.
        """
        return self._build(configuration, instance=instance)

    async def prepare(self, workspace: FollowedWorkspace) -> None:
        """Do all store work of a workspace: load what is stored, and create its consumers.

        Raises:
            BusError: a part may be loaded or created; see `forget`.
        """
        self._live_state.add_workspace(workspace.name)
        await workspace.open()
        for consumer in workspace.consumers():
            await self._bus.subscribe(consumer, start=Start.NEWEST)

    def add(self, workspace: FollowedWorkspace) -> None:
        """Count a prepared workspace among those that are followed; its tasks do not run yet."""
        self._followed[workspace.name] = workspace

    def start(self, workspace: FollowedWorkspace) -> None:
        """Start the tasks of a workspace. Without store work, so it cannot fail by the store."""
        self._tasks.start_all(workspace.tasks())

    async def stop(self, name: str) -> None:
        """End the tasks of a workspace and release its connections."""
        workspace = self._followed[name]
        await self._tasks.cancel(workspace.tasks())
        await workspace.close()
        self._followed.pop(name, None)

    async def close(self) -> None:
        """Release the connections of all that `stop` has not ended; their tasks have ended."""
        while self._followed:
            _, workspace = self._followed.popitem()
            await workspace.close()

    def forget(self, name: str) -> None:
        """Drop what is known of a workspace that is not followed; the store keeps what it has."""
        self._observer.leave(name)
