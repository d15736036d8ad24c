"""Keeps one webhook task of ours at every flow that should have one, and none elsewhere.

Two callers meet here: the task of `run`, which works on one flow at a time, and the commands
`sync` and `delete`. Timers, statuses and ``_removed`` are changed only by the holder of
``_working``. `sync` releases the lock between two flows, so `run` may finish a flow first; the
timer of each flow says whether there is still something to do. The id of a task is durable once
made, so a cancelled call leaves at most a task that the next one adopts.
"""

from __future__ import annotations

from asyncio import Lock

import structlog

from monitor.bus.contract import EventBus
from monitor.callbacks.configured_flows import ConfiguredFlows
from monitor.callbacks.listener_reachability import ReachabilityTest
from monitor.callbacks.own_tasks import OwnTask
from monitor.callbacks.settings import CallbackSettings
from monitor.callbacks.task_maintenance import TASKS_PER_FLOW, TaskMaintenance
from monitor.callbacks.task_statuses import TaskStatuses, WebhookTaskStatus
from monitor.model.clock import Clock
from monitor.model.due_queue import DueQueue
from monitor.model.errors import (
    ConfigurationError,
    NotAvailableError,
    TryLaterError,
    UnauthorizedError,
    WorkspaceError,
)
from monitor.model.live_state import NamedPipeline
from monitor.model.slices import in_slices
from monitor.model.waits import backoff_seconds, happens_within
from monitor.tracking.live_state import LiveState
from monitor.workspace.client import WorkspaceClient
from monitor.workspace.payloads import WebhookTest

log = structlog.get_logger()

# Short, because runs that start before their flow has a task cannot call back; it costs no request.
_UNAVAILABLE_TICK_SECONDS = 1.0
_TICK_SECONDS = 5.0
# Verifying all tasks again and again must leave most of the budget to others.
_VERIFY_GAP_SECONDS = 2.0
_FIRST_RETRY_SECONDS = 10.0
_LONGEST_RETRY_SECONDS = 3_600.0
_LONGEST_PAUSE_SECONDS = 300.0
# How long `sync` of all flows may take; `run` does the rest.
_SYNC_SECONDS = 20.0


class Registrar:
    """Creates, adopts, verifies and removes our tasks in one workspace, within its budget.

    Works on one flow at a time, each by its own timer: a flow that fails is tried again with
    growing waits and delays no other; while the workspace as a whole does not answer, all wait.
    Without ``public_url`` it makes no requests, except to remove tasks made before.
    """

    def __init__(
        self,
        client: WorkspaceClient,
        *,
        settings: CallbackSettings,
        bus: EventBus,
        live_state: LiveState,
        clock: Clock,
        instance: str,
    ) -> None:
        self._workspace = client.name
        self._settings = settings
        self._live_state = live_state
        self._clock = clock
        self._answering = client.requester.answering
        self._maintenance = TaskMaintenance(
            client, settings=settings, bus=bus, clock=clock, instance=instance
        )
        self._reachability = ReachabilityTest(self._maintenance, clock=clock)
        self._configured = ConfiguredFlows(client.name, settings=settings, live_state=live_state)
        self._flows: DueQueue[str, None] = DueQueue(  # as configured, or ours
            clock, bound=None, base_seconds=_FIRST_RETRY_SECONDS, cap_seconds=_LONGEST_RETRY_SECONDS
        )
        self._statuses = TaskStatuses(client.name)
        self._pauses = 0
        self._is_unavailable_logged = False
        self._removed: set[str] = set()  # flows whose task the operator removed
        self._working = Lock()

    @property
    def is_switched_on(self) -> bool:
        """True where the settings say how the workspace reaches us."""
        return self._configured.is_switched_on

    async def run(self) -> None:
        """Keep the tasks as configured until cancelled.

        Raises:
            BusUnavailableError: the next run goes on from what is stored.
        """
        while True:
            await self._rest(await self.work_on_next())

    async def _rest(self, seconds: float) -> None:
        """Wait, but no longer than an outage of the workspace."""
        if self._answering.is_set():
            await self._clock.sleep(seconds)
            return
        await happens_within(
            self._answering.wait(),
            clock=self._clock,
            seconds=seconds,
            name="webhook tasks: waiting for the end of an outage",
        )

    async def work_on_next(self) -> float:
        """Work on the one flow that is due longest; return the seconds until the next may be."""
        async with self._working:
            if (unavailable := self._configured.unavailable()) is not None:
                self._log_unavailable(unavailable)
                return _UNAVAILABLE_TICK_SECONDS
            await self._schedule_flows()
            due = self._flows.due(1)
            if not due:
                wait = self._flows.seconds_until_due()
                return _TICK_SECONDS if wait is None else min(wait, _TICK_SECONDS)
            try:
                has_only_verified = await self._work_on(due[0])
            except (TryLaterError, UnauthorizedError) as exc:
                return self._pause_all(exc)
            self._pauses = 0
            return _VERIFY_GAP_SECONDS if has_only_verified else 0.0

    def task_statuses(self) -> list[WebhookTaskStatus]:
        """Return the status of each flow that was scheduled so far."""
        return self._statuses.ordered()

    async def test(self) -> WebhookTest:
        """Let the workspace call our listener once, without any job.

        Raises:
            WorkspaceError: the workspace did not even try.
        """
        return await self._maintenance.test()

    async def sync(self, flow_id: str | None = None) -> list[WebhookTaskStatus]:
        """Make the tasks of all flows, or of one, as configured, at once.

        Returns after some twenty seconds; `run` does the rest. A cancelled call leaves the flows
        scheduled.

        Raises:
            ConfigurationError: the settings give that flow no task, and it has none.
            WorkspaceError: the workspace as a whole does not answer, or not yet.
        """
        began = self._clock.monotonic()
        async with self._working:
            if (unavailable := self._configured.unavailable()) is not None:
                raise unavailable
            self._removed -= self._removed if flow_id is None else {flow_id}
            await self._schedule_flows()
            self._reachability.try_again()
            chosen = self._chosen(flow_id)
            for chosen_id in chosen:
                self._flows.schedule(chosen_id)
        for chosen_id in chosen:
            if self._clock.monotonic() - began > _SYNC_SECONDS:
                break
            async with self._working:
                if chosen_id in self._flows:
                    await self._work_on(chosen_id)
        return self.task_statuses()

    async def delete(self, flow_id: str | None = None) -> list[WebhookTaskStatus]:
        """Remove our tasks from all flows, or from one, and make none until the next `sync`.

        Raises:
            WorkspaceError: a task could not be removed; those before it were.
        """
        async with self._working:
            for task in list((await self._maintenance.own()).values()):
                if flow_id in (None, task.flow_id):
                    await self._maintenance.remove(task)
                    self._mark_removed(task.flow_id)
            for configured_id in self._configured.by_id():
                if flow_id in (None, configured_id):
                    self._mark_removed(configured_id)
            self._publish()
        return self.task_statuses()

    def _log_unavailable(self, unavailable: WorkspaceError) -> None:
        if isinstance(unavailable, NotAvailableError) and not self._is_unavailable_logged:
            self._is_unavailable_logged = True
            log.warning(
                "webhook tasks unavailable", workspace=self._workspace, reason=str(unavailable)
            )

    async def _schedule_flows(self) -> None:
        """Queue every flow that is not: new flows, and those that lost their task."""
        configured, own = self._configured.by_id(), await self._maintenance.own()
        self._configured.warn_of_unmatched(configured)
        # A workspace may have ten thousand flows.
        async for flow_id in in_slices({**configured, **own}):
            if flow_id in self._removed:
                continue
            self._flows.put(flow_id, None)
            if flow_id not in configured and self._statuses.drop(flow_id):
                # Not at its next verification, but now.
                self._flows.schedule(flow_id)
            if flow_id in configured and flow_id not in self._statuses:
                task = own.get(flow_id)
                is_made = task is not None and self._maintenance.is_current(task)
                self._statuses.record(
                    configured[flow_id], task, "registered" if is_made else "pending"
                )
        for flow_id in self._statuses.flow_ids() - configured.keys() - own.keys():
            self._drop(flow_id)
        self._publish()

    async def _work_on(self, flow_id: str) -> bool:
        """Make, verify or remove the task of one flow; True where it was only verified."""
        own = await self._maintenance.own()
        flow, task = self._configured.get(flow_id), own.get(flow_id)
        has_only_verified = False
        try:
            if flow is not None:
                has_only_verified = await self._ensure(flow, task)
            elif task is not None:
                await self._remove(task)
            else:
                self._drop(flow_id)
        except (TryLaterError, UnauthorizedError):
            # It says nothing about this flow, so the status of its task stays.
            if self._answering.is_set():  # else it stays due, whenever the outage ends
                self._flows.retry(flow_id)
            raise
        except WorkspaceError as exc:
            self._flows.retry(flow_id)
            if flow is not None:
                self._statuses.record(flow, task, "failed", reason=str(exc))
            else:
                log.warning(
                    "webhook task removal failed",
                    workspace=self._workspace,
                    flow=flow_id,
                    reason=str(exc),
                )
        self._publish()
        return has_only_verified

    async def _ensure(self, flow: NamedPipeline, task: OwnTask | None) -> bool:
        if task is not None and self._maintenance.is_current(task):
            if await self._maintenance.still_exists(task):
                self._record_success(flow, task)
                return True
            log.warning("webhook task vanished", workspace=self._workspace, flow=flow.label)
            await self._maintenance.forget(flow.id)
        reason = await self._reachability.problem()
        if reason is not None:
            self._flows.retry(flow.id)
            self._statuses.record(flow, None, "failed", reason=reason)
            return False
        made = await self._maintenance.make(flow.id)
        if made is None:
            reason = f"the flow is full: the product allows {TASKS_PER_FLOW} webhook tasks"
            self._statuses.record(flow, None, "over_limit", reason=reason)
            self._flows.schedule(flow.id, after_seconds=self._settings.verify_seconds)
        else:
            self._record_success(flow, made)
        return False

    async def _remove(self, task: OwnTask) -> None:
        is_listed = self._configured.is_listed(task.flow_id)
        try:
            await self._maintenance.remove(task)
        except NotAvailableError as exc:
            # A deleted flow takes its tasks along, and the API may deny what is gone.
            if is_listed:
                raise
            log.info("webhook task unreachable", workspace=self._workspace, reason=str(exc))
            await self._maintenance.forget(task.flow_id)
        log.info("webhook task removed", workspace=self._workspace, flow=task.flow_id)
        self._drop(task.flow_id)

    def _record_success(self, flow: NamedPipeline, task: OwnTask) -> None:
        self._statuses.record(flow, task, "registered")
        self._flows.forgive(flow.id)
        self._flows.schedule(flow.id, after_seconds=self._settings.verify_seconds)

    def _mark_removed(self, flow_id: str) -> None:
        self._removed.add(flow_id)
        self._flows.remove(flow_id)
        flow = self._configured.get(flow_id)
        if flow is not None:
            self._statuses.record(flow, None, "removed")
        else:
            self._statuses.drop(flow_id)

    def _drop(self, flow_id: str) -> None:
        self._flows.remove(flow_id)
        self._statuses.drop(flow_id)

    def _chosen(self, flow_id: str | None) -> list[str]:
        if flow_id is None:
            return list(self._flows)
        if flow_id not in self._flows:
            raise ConfigurationError(
                f"flow {flow_id!r} is not among those to which "
                f"workspaces.{self._workspace}.callbacks.flows gives a webhook task"
            )
        return [flow_id]

    def _pause_all(self, error: WorkspaceError) -> float:
        if self._pauses == 0:
            log.info(
                "webhook tasks paused",
                workspace=self._workspace,
                reason=str(error),
            )
        self._pauses += 1
        return backoff_seconds(
            self._pauses, base_seconds=_TICK_SECONDS, cap_seconds=_LONGEST_PAUSE_SECONDS
        )

    def _publish(self) -> None:
        counts = self._statuses.counts() if self.is_switched_on else {}
        self._live_state.update_workspace(self._workspace, webhook_tasks=counts)
