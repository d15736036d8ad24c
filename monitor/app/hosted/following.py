"""One followed workspace: client, poller, tracked runs, inbox and webhook tasks."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

import msgspec
import structlog
from prometheus_client import CollectorRegistry

from monitor.app.hosted.run_actions import RunActions
from monitor.app.hosted.token_store import StoredTokenStore
from monitor.app.hosted.tracked_runs import TrackedRuns
from monitor.bus.contract import EventBus
from monitor.callbacks.inbox import InboxReader
from monitor.callbacks.intake import CallbackIntake
from monitor.callbacks.missed_callbacks import MissedCallbackWatch
from monitor.callbacks.registrar import Registrar
from monitor.callbacks.settings import CallbackSettings
from monitor.config import WorkspaceConfiguration
from monitor.model.clock import Clock
from monitor.model.errors import BusError, ConfigurationError
from monitor.model.live_state import Authentication, TokenStatus
from monitor.polling.lists.listed_objects import show_listed_names
from monitor.polling.poller import WorkspacePoller
from monitor.tracking.live_state import LiveState
from monitor.tracking.observer import Observer
from monitor.tracking.status_memory import StatusMemory
from monitor.workspace.access.access_tokens import AccessTokens, ConfiguredToken
from monitor.workspace.access.refreshed_tokens import RefreshedTokens
from monitor.workspace.access.stored_tokens import TokenMemory
from monitor.workspace.access.token_endpoint import TokenEndpoint
from monitor.workspace.api_metrics import ApiMetrics
from monitor.workspace.client import WorkspaceClient

log = structlog.get_logger()

# The share of the request budget that confirming unknown runs named by callbacks may use.
_CONFIRMATION_SHARE = 0.5
# Callbacks are gathered for a twentieth of the wait for job records, so it hardly grows.
_GATHERINGS_IN_A_WAIT = 20


class FollowedWorkspace:
    """One workspace and the tasks that follow it. Callbacks only where they are configured."""

    def __init__(
        self,
        configuration: WorkspaceConfiguration,
        *,
        bus: EventBus,
        observer: Observer,
        live_state: LiveState,
        clock: Clock,
        registry: CollectorRegistry,
        token_memory: TokenMemory,
        instance: str,
    ) -> None:
        self.configuration = configuration
        self.name = configuration.name
        self._observer = observer
        self._bus, self._live_state = bus, live_state
        self._tokens = self._access_tokens(bus, clock=clock, registry=registry, memory=token_memory)
        self._client = WorkspaceClient(
            configuration.workspace,
            clock=clock,
            registry=registry,
            may_send=bus.may_publish,
            tokens=self._tokens,
        )
        self.poller = WorkspacePoller(
            client=self._client,
            observer=observer,
            live_state=live_state,
            bus=bus,
            clock=clock,
            registry=registry,
            settings=configuration.poll,
            inventory=configuration.inventory,
        )
        self.tracked_runs = TrackedRuns(
            self.name, poller=self.poller, observer=observer, bus=bus, clock=clock
        )
        self.actions = self._run_actions(clock)
        self.inbox: InboxReader | None = None
        self.intake: CallbackIntake | None = None
        # Also without callbacks: it deletes the webhook tasks that were registered before.
        self.registrar = Registrar(
            self._client,
            settings=configuration.callbacks or CallbackSettings(),
            bus=bus,
            live_state=live_state,
            clock=clock,
            instance=instance,
        )
        self._status_memory = StatusMemory(self.name, bus=bus, live_state=live_state, clock=clock)
        self._misses: MissedCallbackWatch | None = None
        if (settings := configuration.callbacks) is not None:
            self.inbox = self._inbox(settings, bus=bus, clock=clock)
            self.intake = self._intake(self.inbox)
            self._misses = MissedCallbackWatch(
                self.name, settings=settings, bus=bus, live_state=live_state, clock=clock
            )

    def _run_actions(self, clock: Clock) -> RunActions:
        return RunActions(
            self.name,
            client=self._client,
            observer=self._observer,
            tracked_runs=self.tracked_runs,
            clock=clock,
        )

    def _access_tokens(
        self, bus: EventBus, *, clock: Clock, registry: CollectorRegistry, memory: TokenMemory
    ) -> AccessTokens:
        settings = self.configuration.workspace
        if settings.oauth is None:
            return ConfiguredToken(
                settings.token, workspace=self.name, clock=clock, register=memory.register
            )
        return RefreshedTokens(
            self.name,
            settings.oauth,
            endpoint=TokenEndpoint(settings, settings.oauth, may_send=bus.may_publish),
            store=StoredTokenStore(self.name, bus),
            memory=memory,
            clock=clock,
            metrics=ApiMetrics.of(registry),
            show=self._show_token,
        )

    def _show_authentication(self) -> None:
        settings = self.configuration.workspace
        if settings.oauth is not None:
            how = Authentication.REFRESHED_TOKEN
            self._live_state.update_workspace(self.name, authentication=how)
            return
        how = Authentication.NONE if settings.token is None else Authentication.STATIC_TOKEN
        # Its tokens may have been refreshed before a reload.
        self._live_state.update_workspace(self.name, authentication=how, token=None)

    def _show_token(self, token: TokenStatus) -> None:
        self._live_state.update_workspace(self.name, token=token)

    def _inbox(self, settings: CallbackSettings, *, bus: EventBus, clock: Clock) -> InboxReader:
        wait_seconds = self.configuration.poll.detail_wait_seconds
        requests_per_minute = self.configuration.workspace.requests_per_minute
        return InboxReader(
            self.name,
            settings=settings,
            bus=bus,
            observer=self._observer,
            clock=clock,
            follower=self.poller,
            ask_gap_seconds=60.0 / (_CONFIRMATION_SHARE * requests_per_minute),
            gather_seconds=wait_seconds / _GATHERINGS_IN_A_WAIT,
            batches=2 * _GATHERINGS_IN_A_WAIT if wait_seconds else 1,
        )

    def _intake(self, inbox: InboxReader) -> CallbackIntake:
        return CallbackIntake(
            self.name,
            observer=self._observer,
            view=self._live_state.view,
            follower=self.poller,
            inbox=inbox,
        )

    def tasks(self) -> dict[str, Callable[[], Awaitable[None]]]:
        """Return what must be kept running, by name."""
        running: dict[str, Callable[[], Awaitable[None]]] = {
            f"access token {self.name}": self._tokens.run,
            f"poller {self.name}": self.poller.run,
            f"tracked runs {self.name}": self.tracked_runs.run,
            f"registrar {self.name}": self.registrar.run,
            f"status memory {self.name}": self._status_memory.run,
        }
        if self.inbox is not None:
            running[f"inbox {self.name}"] = self.inbox.run
        if self._misses is not None:
            running[f"misses {self.name}"] = self._misses.run
        return running

    def consumers(self) -> list[str]:
        """Return the consumers of the bus that belong to this workspace."""
        return [MissedCallbackWatch.consumer(self.name)] if self._misses is not None else []

    async def open(self) -> None:
        """Load what the store knows of the workspace."""
        await self._observer.open(self.name)
        self._show_authentication()
        await self._status_memory.restore()
        # A scrape must never show a pipeline under another's name.
        await show_listed_names(self._live_state, self.name, bus=self._bus)

    async def remember(self) -> None:
        """Store the last status, for the next start; a store that fails does not stop the stop."""
        try:
            await self._status_memory.store()
        except BusError as exc:
            log.info("workspace status not stored", workspace=self.name, reason=str(exc))

    async def close(self) -> None:
        """Finish callbacks in work and release the connections, once the tasks have ended."""
        if self.intake is not None:
            await self.intake.close()
        await self._client.close()

    async def act_on_webhooks(self, action: str, flow: str | None) -> list[dict[str, Any]]:
        """List, synchronise, test or delete the webhook tasks that this daemon registered.

        Raises:
            ConfigurationError: no tasks are configured for this workspace, or for that flow.
            WorkspaceError: the workspace refused or could not be reached.
        """
        registrar = self.registrar
        if action in ("test", "sync") and not registrar.is_switched_on:
            raise ConfigurationError(
                f"workspaces.{self.name}.callbacks.public_url is not set: "
                "no webhook tasks are kept in this workspace"
            )
        if action == "test":
            tested = await registrar.test()
            row = {"status_code": tested.status_code, "error": tested.error, "ok": tested.is_ok}
            return [{"workspace": self.name, **row}]
        if action == "sync":
            task_statuses = await registrar.sync(flow)
        elif action == "delete":
            task_statuses = await registrar.delete(flow)
        else:
            task_statuses = registrar.task_statuses()
        rows: list[dict[str, Any]] = msgspec.to_builtins(task_statuses)
        return [{"workspace": self.name, **row} for row in rows]
