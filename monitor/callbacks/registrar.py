"""Keeps one webhook task of ours at every flow that should have one, and none elsewhere."""

from __future__ import annotations

from asyncio import Lock
from collections import Counter

import structlog
from msgspec import Struct

from monitor.bus.contract import EventBus
from monitor.callbacks.agenda import TaskTimers
from monitor.callbacks.reach import Reach
from monitor.callbacks.settings import CallbackSettings
from monitor.callbacks.tasks import OwnTask
from monitor.callbacks.upkeep import TASKS_PER_FLOW, Upkeep
from monitor.catalogue.capabilities import Capability
from monitor.model.clock import Clock
from monitor.model.errors import (
    BusUnavailableError,
    ConfigurationError,
    NotAvailableError,
    TryLaterError,
    UnauthorizedError,
    WorkspaceError,
)
from monitor.model.live_state import NamedPipeline
from monitor.model.runs import PipelineKind
from monitor.tracking.live_state import LiveState
from monitor.workspace.client import WorkspaceClient
from monitor.workspace.payloads import WebhookTest

log = structlog.get_logger()

STATES = ("registered", "pending", "over_limit", "failed", "removed")
NAMES_POLL = "names"  # the poll that lists the flows

# Runs that start before their flow has a task cannot call back, and this wait asks memory only.
_OBSTACLE_TICK_SECONDS = 1.0
_TICK_SECONDS = 5.0
# Verifying all tasks again and again must leave most of the budget to others.
_VERIFY_GAP_SECONDS = 2.0
_FIRST_RETRY_SECONDS = 10.0
_LONGEST_RETRY_SECONDS = 3_600.0
_LONGEST_PAUSE_SECONDS = 300.0
# How long somebody who asks for all flows is kept waiting; the rest goes on by itself.
_PATIENCE_SECONDS = 20.0


class WebhookTaskStatus(Struct, frozen=True, kw_only=True):
    """How it stands with the task of one flow.

    ``state`` is registered, pending (not made yet), over_limit (the flow is full of others'
    tasks), failed (``reason`` says why; tried again) or removed (by the operator, until the next
    sync or start).
    """

    flow_id: str
    flow: str
    state: str
    task_id: str | None = None
    reason: str | None = None


class Registrar:
    """Creates, adopts, verifies and removes our tasks in one workspace, within its budget.

    One flow at a time, each at its own hour: a flow at fault is tried again with growing waits
    and holds up no other; when the workspace as a whole does not answer, all wait. Without
    ``public_url`` nothing is asked for, save that tasks made before are removed.
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
        self._upkeep = Upkeep(client, settings=settings, bus=bus, clock=clock, instance=instance)
        self._reach = Reach(self._upkeep, clock=clock)
        self._agenda: TaskTimers[str] = TaskTimers()
        self._pipeline_health: dict[str, WebhookTaskStatus] = {}
        self._failures: Counter[str] = Counter()
        self._pauses = 0
        self._is_obstacle_told = False
        self._held: set[str] = set()  # removed by the operator
        self._unknown: frozenset[str] = frozenset()  # names in the settings that fit no flow
        self._working = Lock()

    @property
    def is_switched_on(self) -> bool:
        """True where the settings say how the workspace reaches us."""
        return self._settings.public_url is not None and self._settings.secret is not None

    async def run(self) -> None:
        """Keep the tasks as they should be until cancelled."""
        while True:
            try:
                pause = await self.tend()
            except BusUnavailableError as exc:
                log.warning(
                    "webhook tasks wait for the store", workspace=self._workspace, reason=str(exc)
                )
                pause = _TICK_SECONDS
            await self._clock.sleep(pause)

    async def tend(self) -> float:
        """Work on the one flow that is due longest; return the seconds until the next may be."""
        async with self._working:
            if (obstacle := self._obstacle()) is not None:
                self._say_obstacle(obstacle)
                return _OBSTACLE_TICK_SECONDS
            await self._plan()
            now = self._clock.monotonic()
            due = self._agenda.take(now, limit=1)
            if not due:
                next_at = self._agenda.next_at()
                return _TICK_SECONDS if next_at is None else min(next_at - now, _TICK_SECONDS)
            try:
                has_only_verified = await self._attend(due[0])
            except (TryLaterError, UnauthorizedError) as exc:
                return self._pause_all(exc)
            self._pauses = 0
            return _VERIFY_GAP_SECONDS if has_only_verified else 0.0

    def task_statuses(self) -> list[WebhookTaskStatus]:
        """Return how it stands with each flow, as far as that was looked at."""
        return sorted(
            self._pipeline_health.values(), key=lambda status: (status.flow, status.flow_id)
        )

    async def test(self) -> WebhookTest:
        """Let the workspace call our listener once, without any job.

        Raises:
            WorkspaceError: the workspace did not even try.
        """
        return await self._upkeep.test()

    async def sync(self, flow_id: str | None = None) -> list[WebhookTaskStatus]:
        """Make the tasks of all flows, or of one, as they should be, without waiting their turn.

        Returns after some twenty seconds at the latest; what is not done by then goes on.

        Raises:
            ConfigurationError: the settings give that flow no task, and it has none.
            WorkspaceError: the workspace as a whole does not answer, or not yet.
        """
        began = self._clock.monotonic()
        async with self._working:
            if (obstacle := self._obstacle()) is not None:
                raise obstacle
            self._held -= self._held if flow_id is None else {flow_id}
            await self._plan()
            self._reach.try_again()
            chosen = self._chosen(flow_id)
            for item in chosen:
                self._agenda.put(item, began)
        for item in chosen:
            if self._clock.monotonic() - began > _PATIENCE_SECONDS:
                break
            async with self._working:
                if item in self._agenda:
                    await self._attend(item)
        return self.task_statuses()

    async def delete(self, flow_id: str | None = None) -> list[WebhookTaskStatus]:
        """Remove our tasks from all flows, or from one, and make none until the next `sync`.

        Raises:
            WorkspaceError: a task could not be removed; those before it were.
        """
        async with self._working:
            for task in list((await self._upkeep.own()).values()):
                if flow_id in (None, task.flow_id):
                    await self._upkeep.remove(task)
                    self._hold(task.flow_id)
            for item in self._flows_with_task():
                if flow_id in (None, item):
                    self._hold(item)
            self._publish()
        return self.task_statuses()

    def _obstacle(self) -> WorkspaceError | None:
        """Return why nothing can be done at all; None where work can begin."""
        status = self._live_state.workspaces[self._workspace]
        if status.edition is None:
            return TryLaterError("the workspace has not told yet what it offers")
        if not self.is_switched_on:
            return None
        if Capability.CREATE_WEBHOOK_TASKS not in status.capabilities:
            return NotAvailableError("webhook tasks cannot be made here: not offered to us")
        names = self._live_state.polls.get((self._workspace, NAMES_POLL))
        if names is None or names.last_success_at is None:
            # Until then a flow that is not known may exist, and its task must not be removed.
            return TryLaterError("the flows of the workspace have not been listed yet")
        return None

    def _say_obstacle(self, obstacle: WorkspaceError) -> None:
        if isinstance(obstacle, NotAvailableError) and not self._is_obstacle_told:
            self._is_obstacle_told = True
            log.warning(
                "no webhook tasks are kept", workspace=self._workspace, reason=str(obstacle)
            )

    async def _plan(self) -> None:
        """Give a turn to every flow that has none: new ones, and those that lost their task."""
        wanted, own = self._flows_with_task(), await self._upkeep.own()
        self._warn_about_unknown_flows(wanted)
        now = self._clock.monotonic()
        for flow_id in {**wanted, **own}:
            if flow_id in self._held:
                continue
            if flow_id not in self._agenda:
                self._agenda.put(flow_id, now)
            if flow_id not in wanted and self._pipeline_health.pop(flow_id, None) is not None:
                # Not at its next verification, but now.
                self._agenda.put(flow_id, now)
            if flow_id in wanted and flow_id not in self._pipeline_health:
                task = own.get(flow_id)
                is_made = task is not None and self._upkeep.is_current(task)
                self._stand(wanted[flow_id], task, "registered" if is_made else "pending")
        for flow_id in self._pipeline_health.keys() - wanted.keys() - own.keys():
            self._drop(flow_id)
        self._publish()

    async def _attend(self, flow_id: str) -> bool:
        """Do what one flow needs and give it its next turn; True where nothing had to be done."""
        wanted, own = self._flows_with_task(), await self._upkeep.own()
        flow, task = wanted.get(flow_id), own.get(flow_id)
        self._agenda.put(flow_id, self._clock.monotonic() + self._retry_seconds(flow_id))
        has_only_verified = False
        try:
            if flow is not None:
                has_only_verified = await self._ensure(flow, task)
            elif task is not None:
                await self._remove(task)
            else:
                self._drop(flow_id)
        except (TryLaterError, UnauthorizedError):
            # It says nothing about this flow, so what was known of its task still stands.
            self._failures[flow_id] += 1
            raise
        except WorkspaceError as exc:
            self._failures[flow_id] += 1
            if flow is not None:
                self._stand(flow, task, "failed", reason=str(exc))
            else:
                log.warning(
                    "webhook task cannot be removed",
                    workspace=self._workspace,
                    flow=flow_id,
                    reason=str(exc),
                )
        self._publish()
        return has_only_verified

    async def _ensure(self, flow: NamedPipeline, task: OwnTask | None) -> bool:
        if task is not None and self._upkeep.is_current(task):
            if await self._upkeep.still_exists(task):
                self._succeed(flow, task)
                return True
            log.warning("webhook task has vanished", workspace=self._workspace, flow=flow.label)
            await self._upkeep.forget(flow.id)
        reason = await self._reach.why_not()
        if reason is not None:
            self._failures[flow.id] += 1
            self._stand(flow, None, "failed", reason=reason)
            return False
        made = await self._upkeep.make(flow.id)
        if made is None:
            reason = f"the flow is full: the product allows {TASKS_PER_FLOW} webhook tasks"
            self._stand(flow, None, "over_limit", reason=reason)
            self._agenda.put(flow.id, self._clock.monotonic() + self._settings.verify_seconds)
        else:
            self._succeed(flow, made)
        return False

    async def _remove(self, task: OwnTask) -> None:
        is_listed = any(flow.id == task.flow_id for flow in self._flows())
        try:
            await self._upkeep.remove(task)
        except NotAvailableError as exc:
            # A deleted flow takes its tasks along, and the API may deny what is gone.
            if is_listed:
                raise
            log.info("webhook task is out of reach", workspace=self._workspace, reason=str(exc))
            await self._upkeep.forget(task.flow_id)
        log.info("webhook task removed", workspace=self._workspace, flow=task.flow_id)
        self._drop(task.flow_id)

    def _succeed(self, flow: NamedPipeline, task: OwnTask) -> None:
        self._failures.pop(flow.id, None)
        self._stand(flow, task, "registered")
        self._agenda.put(flow.id, self._clock.monotonic() + self._settings.verify_seconds)

    def _stand(
        self, flow: NamedPipeline, task: OwnTask | None, state: str, *, reason: str | None = None
    ) -> None:
        before = self._pipeline_health.get(flow.id)
        if state == "failed" and (before is None or before.reason != reason):
            log.warning(
                "webhook task cannot be kept",
                workspace=self._workspace,
                flow=flow.label,
                reason=reason,
            )
        elif before is not None and before.state != state:
            log.info("webhook task", workspace=self._workspace, flow=flow.label, state=state)
        self._pipeline_health[flow.id] = WebhookTaskStatus(
            flow_id=flow.id,
            flow=flow.label,
            state=state,
            task_id=task.task_id if task is not None else None,
            reason=reason,
        )

    def _hold(self, flow_id: str) -> None:
        self._held.add(flow_id)
        self._agenda.drop(flow_id)
        flow = self._flows_with_task().get(flow_id)
        if flow is not None:
            self._stand(flow, None, "removed")
        else:
            self._pipeline_health.pop(flow_id, None)

    def _drop(self, flow_id: str) -> None:
        self._agenda.drop(flow_id)
        self._pipeline_health.pop(flow_id, None)
        self._failures.pop(flow_id, None)

    def _chosen(self, flow_id: str | None) -> list[str]:
        if flow_id is None:
            return self._agenda.keys()
        if flow_id not in self._agenda:
            raise ConfigurationError(
                f"flow {flow_id!r} is none to which workspaces.{self._workspace}.callbacks.flows "
                "gives a webhook task"
            )
        return [flow_id]

    def _retry_seconds(self, flow_id: str) -> float:
        # Bounded, because a weekend of retries would overflow a float.
        doubled = _FIRST_RETRY_SECONDS * 2.0 ** min(self._failures[flow_id], 20)
        return float(min(doubled, _LONGEST_RETRY_SECONDS))

    def _pause_all(self, error: WorkspaceError) -> float:
        if self._pauses == 0:
            log.info(
                "webhook tasks wait for the workspace",
                workspace=self._workspace,
                reason=str(error),
            )
        self._pauses += 1
        doubled = _TICK_SECONDS * 2.0 ** min(self._pauses - 1, 20)
        return float(min(doubled, _LONGEST_PAUSE_SECONDS))

    def _flows(self) -> list[NamedPipeline]:
        return [
            named_pipeline
            for named_pipeline in self._live_state.named_pipelines()
            if named_pipeline.workspace == self._workspace
            and named_pipeline.kind is PipelineKind.FLOW
        ]

    def _flows_with_task(self) -> dict[str, NamedPipeline]:
        """Return the flows that should have a task, by id. Equal names all count."""
        if not self.is_switched_on:
            return {}
        named = set(self._settings.flows)
        return {
            flow.id: flow
            for flow in self._flows()
            if "*" in named or named.intersection({flow.id, flow.name})
        }

    def _warn_about_unknown_flows(self, wanted: dict[str, NamedPipeline]) -> None:
        known = {"*"} | {item for flow in wanted.values() for item in (flow.id, flow.name or "")}
        unknown = frozenset(self._settings.flows) - known if self.is_switched_on else frozenset()
        for flow in sorted(unknown - self._unknown):
            log.warning("no flow has this id or name", workspace=self._workspace, flow=flow)
        self._unknown = unknown

    def _publish(self) -> None:
        counts = Counter(status.state for status in self._pipeline_health.values())
        shown = {state: counts[state] for state in STATES} if self.is_switched_on else {}
        self._live_state.update_workspace(self._workspace, webhook_tasks=shown)
