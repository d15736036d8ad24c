"""Keeps one webhook task of ours at every flow that should have one, and none elsewhere."""

from __future__ import annotations

import asyncio
import hashlib
from collections import Counter
from collections.abc import Iterable

import msgspec
import structlog
from msgspec import Struct

from monitor.bus.contract import EventBus
from monitor.callbacks import tasks
from monitor.callbacks.bodies import TEST_FIELD, template
from monitor.callbacks.listener import SECRET_HEADER
from monitor.callbacks.settings import CallbackSettings
from monitor.callbacks.tasks import OwnTask
from monitor.catalogue.capabilities import Capability
from monitor.model.clock import Clock
from monitor.model.errors import NoSuchObjectError, WorkspaceError
from monitor.model.knowledge import NamedPipeline
from monitor.model.runs import PipelineKind
from monitor.model.secrets import Secret
from monitor.tracking.knowledge import Knowledge
from monitor.workspace.client import WorkspaceClient
from monitor.workspace.payloads import WebhookTaskRow, WebhookTest
from monitor.workspace.priority import Priority

log = structlog.get_logger()

TASK_NAME = "dataprep-monitor"
TASKS_PER_FLOW = 50  # the product's own bound for all tasks of one flow
_FIRST_INVENTORY_SECONDS = 1.0


class TaskStanding(Struct, frozen=True, kw_only=True):
    """How it stands with the task of one flow.

    ``state`` is registered, over_limit (the flow is full of others' tasks), failed (``reason``
    says why) or removed.
    """

    flow_id: str
    flow: str
    state: str
    task_id: str | None = None
    reason: str | None = None


class Registrar:
    """Creates, adopts, verifies and removes our tasks in one workspace, within its budget."""

    def __init__(
        self,
        client: WorkspaceClient,
        *,
        settings: CallbackSettings,
        bus: EventBus,
        knowledge: Knowledge,
        clock: Clock,
        instance: str,
    ) -> None:
        self._client = client
        self._settings = settings
        self._bus = bus
        self._knowledge = knowledge
        self._clock = clock
        # Two daemons may watch one workspace; each knows its own tasks by this name.
        self._task_name = f"{TASK_NAME} {instance}"
        self._standings: dict[str, TaskStanding] = {}
        self._syncing = asyncio.Lock()

    @property
    def is_switched_on(self) -> bool:
        """True where the settings say how the workspace reaches us."""
        return self._settings.public_url is not None and self._settings.secret is not None

    async def run(self) -> None:
        """Keep the tasks as they should be until cancelled."""
        while True:
            standing = self._knowledge.workspaces[self._client.name]
            can_create = Capability.CREATE_WEBHOOK_TASKS in standing.capabilities
            if not self._flows() or not can_create:
                await self._clock.sleep(_FIRST_INVENTORY_SECONDS)
                continue
            await self.sync()
            await self._clock.sleep(self._settings.verify_seconds)

    def standings(self) -> list[TaskStanding]:
        """Return how it stands with each flow, as of the last synchronisation."""
        return sorted(self._standings.values(), key=lambda one: one.flow)

    async def test(self) -> WebhookTest:
        """Let the workspace call our listener once, without any job.

        Raises:
            WorkspaceError: the workspace did not even try.
        """
        return await self._client.test_webhook(
            url=self._url(),
            body=msgspec.json.encode({TEST_FIELD: self._client.name}).decode(),
            headers=self._headers(),
            secret_key=self._settings.signing_secret,
            priority=Priority.INVENTORY,
        )

    async def sync(self, flow_id: str | None = None) -> list[TaskStanding]:
        """Make the tasks of all flows, or of one, as they should be."""
        async with self._syncing:
            own = await tasks.own_tasks(self._bus, self._client.name)
            wanted = {flow.id: flow for flow in self._wanted()} if self.is_switched_on else {}
            for flow in wanted.values():
                if flow_id in (None, flow.id):
                    await self._guarded(flow, own.get(flow.id))
            for task in own.values():
                if task.flow_id not in wanted and flow_id in (None, task.flow_id):
                    await self._remove(task)
            self._publish()
        return self.standings()

    async def delete(self, flow_id: str | None = None) -> list[TaskStanding]:
        """Remove our tasks from all flows, or from one, whatever the settings want."""
        async with self._syncing:
            for task in (await tasks.own_tasks(self._bus, self._client.name)).values():
                if flow_id in (None, task.flow_id):
                    await self._remove(task)
            self._publish()
        return self.standings()

    def _flows(self) -> list[NamedPipeline]:
        return [
            one
            for one in self._knowledge.named_pipelines()
            if one.workspace == self._client.name and one.kind is PipelineKind.FLOW
        ]

    def _wanted(self) -> Iterable[NamedPipeline]:
        wanted = set(self._settings.flows)
        return (
            flow
            for flow in self._flows()
            if "*" in wanted or wanted.intersection({flow.id, flow.name})
        )

    async def _guarded(self, flow: NamedPipeline, known: OwnTask | None) -> None:
        try:
            standing = await self._ensure(flow, known)
        except WorkspaceError as exc:
            standing = TaskStanding(
                flow_id=flow.id, flow=flow.label, state="failed", reason=str(exc)
            )
        before = self._standings.get(flow.id)
        if before is None or before.state != standing.state:
            log.info(
                "webhook task",
                workspace=self._client.name,
                flow=flow.label,
                state=standing.state,
                reason=standing.reason,
            )
        self._standings[flow.id] = standing

    async def _ensure(self, flow: NamedPipeline, known: OwnTask | None) -> TaskStanding:
        if known is not None and known.fingerprint == self._fingerprint(flow.id):
            if await self._exists(known):
                return self._registered(flow, known)
        elif known is not None:
            await self._remove(known)
        theirs = await self._client.flow_webhook_tasks(flow.id, priority=Priority.INVENTORY)
        ours = [task for task in theirs if task.name == self._task_name]
        # Tasks of an earlier life hold an earlier secret or URL: made anew, not trusted.
        for task in ours:
            await self._delete(task.id)
        if len(theirs) - len(ours) >= TASKS_PER_FLOW:
            reason = f"the flow has {len(theirs)} tasks; the product allows {TASKS_PER_FLOW}"
            return TaskStanding(flow_id=flow.id, flow=flow.label, state="over_limit", reason=reason)
        return self._registered(flow, await self._create(flow))

    async def _exists(self, task: OwnTask) -> bool:
        try:
            row: WebhookTaskRow = await self._client.webhook_task(
                task.task_id, priority=Priority.INVENTORY
            )
        except NoSuchObjectError:
            return False
        return row.flow_id in (None, task.flow_id)

    async def _create(self, flow: NamedPipeline) -> OwnTask:
        key = self._fingerprint(flow.id)[:16]
        # Taken before the request: runs created from here on may be expected to call back.
        created_at = self._client.workspace_now() or self._clock.now()
        task_id = await self._client.create_webhook_task(
            flow_id=flow.id,
            name=self._task_name,
            url=self._url(),
            body=template(workspace=self._client.name, flow_id=flow.id, task_key=key),
            headers=self._headers(),
            secret_key=self._settings.signing_secret,
            priority=Priority.INVENTORY,
        )
        task = OwnTask(
            flow_id=flow.id,
            task_id=task_id,
            task_key=key,
            created_at=created_at,
            fingerprint=self._fingerprint(flow.id),
        )
        await tasks.remember(self._bus, self._client.name, task)
        return task

    async def _remove(self, task: OwnTask) -> None:
        await self._delete(task.task_id)
        await tasks.forget(self._bus, self._client.name, task.flow_id)
        self._standings.pop(task.flow_id, None)

    async def _delete(self, task_id: str) -> None:
        try:
            await self._client.delete_webhook_task(task_id, priority=Priority.INVENTORY)
        except NoSuchObjectError:
            log.debug("webhook task was gone already", workspace=self._client.name, task=task_id)

    def _registered(self, flow: NamedPipeline, task: OwnTask) -> TaskStanding:
        return TaskStanding(
            flow_id=flow.id, flow=flow.label, state="registered", task_id=task.task_id
        )

    def _publish(self) -> None:
        counts = Counter(one.state for one in self._standings.values())
        self._knowledge.update_workspace(self._client.name, webhook_tasks=dict(counts))

    def _url(self) -> str:
        return f"{(self._settings.public_url or '').rstrip('/')}/hooks/{self._client.name}"

    def _headers(self) -> dict[str, Secret | str]:
        secret = self._settings.secret
        headers: dict[str, Secret | str] = {"Content-Type": "application/json"}
        return {**headers, SECRET_HEADER: secret} if secret is not None else headers

    def _fingerprint(self, flow_id: str) -> str:
        """Return a digest of everything that a task of ours contains, secrets included."""
        digest = hashlib.sha256()
        signing = self._settings.signing_secret
        secret = self._settings.secret
        for part in (
            self._task_name,
            self._url(),
            template(workspace=self._client.name, flow_id=flow_id, task_key=""),
            secret.reveal() if secret is not None else "",
            signing.reveal() if signing is not None else "",
        ):
            digest.update(part.encode() + b"\0")
        return digest.hexdigest()
