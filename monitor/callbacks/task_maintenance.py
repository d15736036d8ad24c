"""Makes, adopts, verifies and removes the webhook task of one flow, by requests each time."""

from __future__ import annotations

import hashlib
from datetime import datetime, timedelta
from typing import NamedTuple

import msgspec
import structlog

from monitor.bus.contract import EventBus
from monitor.callbacks import own_tasks
from monitor.callbacks.bodies import TEST_FIELD, template
from monitor.callbacks.listener import FLOW_HEADER, SECRET_HEADER
from monitor.callbacks.own_tasks import OwnTask
from monitor.callbacks.settings import CallbackSettings
from monitor.callbacks.task_secrets import task_secret, task_signing_secret
from monitor.model.clock import Clock
from monitor.model.errors import NoSuchObjectError, RequestRejectedError
from monitor.model.secrets import Secret
from monitor.workspace.client import WorkspaceClient
from monitor.workspace.payloads import WebhookTaskRow, WebhookTest
from monitor.workspace.priority import Priority

log = structlog.get_logger()

TASK_NAME = "dataprep-monitor"
TASKS_PER_FLOW = 50  # the product's own bound for all tasks of one flow
# Stands for a flow in the test call, so that what it shows on its way opens no flow.
_TEST_FLOW = "test"
# No caller waits for these requests, so they may wait for their turn.
_BUDGET_WAIT_SECONDS = 120.0
# The workspace's time is known to the second.
_RESOLUTION = timedelta(seconds=1)


class _MadeTask(NamedTuple):
    """A task of now at its flow, which is not remembered yet."""

    task_id: str
    created_at: datetime  # workspace time


class TaskMaintenance:
    """Knows the tasks that are ours and does the work for one flow at a time.

    Every method that calls the workspace may raise `WorkspaceError`, every method that remembers
    may raise `BusUnavailableError`; either way the work can be done again.
    """

    def __init__(
        self,
        client: WorkspaceClient,
        *,
        settings: CallbackSettings,
        bus: EventBus,
        clock: Clock,
        instance: str,
    ) -> None:
        self._client = client
        self._settings = settings
        self._bus = bus
        self._clock = clock
        # Two daemons may watch one workspace; each knows its own tasks by this name.
        self._task_name = f"{TASK_NAME} {instance}"
        self._own: dict[str, OwnTask] | None = None

    async def own(self) -> dict[str, OwnTask]:
        """Return the tasks that are ours by flow id, read from the store once."""
        if self._own is None:
            self._own = await own_tasks.own_tasks(self._bus, self._client.name)
        return self._own

    def is_current(self, task: OwnTask) -> bool:
        """True where the task was made with the settings that are in force."""
        return task.fingerprint == self._fingerprint(task.flow_id)

    async def still_exists(self, task: OwnTask) -> bool:
        try:
            row = await self._client.webhook_tasks.read(
                task.task_id, priority=Priority.SCHEDULES, wait_seconds=_BUDGET_WAIT_SECONDS
            )
        except NoSuchObjectError:
            return False
        return row.flow_id in (None, task.flow_id)

    async def make(self, flow_id: str) -> OwnTask | None:
        """Adopt the task of an earlier life or make a new one; then any other of ours goes.

        None: the flow holds as many tasks of others as the product allows.
        """
        theirs = await self._tasks_of(flow_id)
        former = await self._former(flow_id)
        if former is not None and former.task_id not in {task.id for task in theirs}:
            await self.remove(former)  # it may exist without being listed
            former = None
        former_id = None if former is None else former.task_id
        ours = [task for task in theirs if task.name == self._task_name or task.id == former_id]
        adopted = next((task for task in ours if self._matches_settings(task, flow_id)), None)
        made: _MadeTask | None = None
        if adopted is not None:
            made = _MadeTask(adopted.id, adopted.created_at or self._now())
        elif ours and len(theirs) < TASKS_PER_FLOW:
            # First: no run may end between two tasks. If the rest fails, this one is adopted.
            made = await self._create(flow_id)
        for task in ours:
            if task is not adopted:
                await self._delete(task.id)
        if made is None and len(theirs) - len(ours) < TASKS_PER_FLOW:
            made = await self._create(flow_id)
        if made is None:
            await self.forget(flow_id)
            return None
        return await self._remember(flow_id, made)

    async def _former(self, flow_id: str) -> OwnTask | None:
        """Return the remembered task of the flow if it was made with other settings."""
        task = (await self.own()).get(flow_id)
        return None if task is None or self.is_current(task) else task

    async def remove(self, task: OwnTask) -> None:
        """Delete the task; one that is gone already counts as deleted."""
        await self._delete(task.task_id)
        await self.forget(task.flow_id)

    async def forget(self, flow_id: str) -> None:
        """Forget the flow's task, whether or not it still exists."""
        await own_tasks.forget(self._bus, self._client.name, flow_id)
        (await self.own()).pop(flow_id, None)

    async def test(self) -> WebhookTest:
        """Let the workspace call our listener once, without any job."""
        tested = await self._client.webhook_tasks.test(
            url=self._url(),
            body=msgspec.json.encode({TEST_FIELD: self._client.name}).decode(),
            headers=self._headers(_TEST_FLOW),
            secret_key=self._signing_secret(_TEST_FLOW),
            priority=Priority.SCHEDULES,
        )
        # Its words may repeat the request, which held our secrets.
        return msgspec.structs.replace(tested, error=self._without_secrets(tested.error))

    async def _tasks_of(self, flow_id: str) -> tuple[WebhookTaskRow, ...]:
        try:
            return await self._client.webhook_tasks.of_flow(
                flow_id, priority=Priority.SCHEDULES, wait_seconds=_BUDGET_WAIT_SECONDS
            )
        except RequestRejectedError as exc:
            # That a flow shows its tasks is an assumption; without it only our entries know ours.
            log.info("webhook tasks of flow not listed", flow=flow_id, reason=str(exc))
            return ()

    def _matches_settings(self, task: WebhookTaskRow, flow_id: str) -> bool:
        """True where the task is what we would make now: its body's key covers every setting."""
        shown = {name.lower(): value for name, value in task.headers.items()}
        secret = shown.get(SECRET_HEADER.lower())
        return (
            task.body == self._body(flow_id)
            and task.url.matches(self._url())
            and (secret is None or secret == self._secret(flow_id))
        )

    async def _create(self, flow_id: str) -> _MadeTask:
        task_id = await self._client.webhook_tasks.create(
            flow_id=flow_id,
            name=self._task_name,
            url=self._url(),
            body=self._body(flow_id),
            headers=self._headers(flow_id),
            secret_key=self._signing_secret(flow_id),
            priority=Priority.SCHEDULES,
            wait_seconds=_BUDGET_WAIT_SECONDS,
        )
        # Taken after the answer: only runs created from here on must call back.
        return _MadeTask(task_id, self._now() + _RESOLUTION)

    async def _remember(self, flow_id: str, made: _MadeTask) -> OwnTask:
        task = OwnTask(
            flow_id=flow_id,
            task_id=made.task_id,
            task_key=self._key(flow_id),
            created_at=made.created_at,
            fingerprint=self._fingerprint(flow_id),
        )
        await own_tasks.remember(self._bus, self._client.name, task)
        (await self.own())[flow_id] = task
        return task

    async def _delete(self, task_id: str) -> None:
        await self._client.webhook_tasks.delete(
            task_id, priority=Priority.SCHEDULES, wait_seconds=_BUDGET_WAIT_SECONDS
        )

    def _now(self) -> datetime:
        return self._client.workspace_now() or self._clock.now()

    def _url(self) -> str:
        return f"{(self._settings.public_url or '').rstrip('/')}/hooks/{self._client.name}"

    def _headers(self, flow_id: str) -> dict[str, Secret | str]:
        headers: dict[str, Secret | str] = {"Content-Type": "application/json"}
        secret = self._secret(flow_id)
        return {**headers, FLOW_HEADER: flow_id, SECRET_HEADER: secret} if secret else headers

    def _secret(self, flow_id: str) -> Secret | None:
        secret = self._settings.secret
        return secret and task_secret(secret, workspace=self._client.name, flow_id=flow_id)

    def _signing_secret(self, flow_id: str) -> Secret | None:
        key = self._settings.signing_secret
        return key and task_signing_secret(key, workspace=self._client.name, flow_id=flow_id)

    def _body(self, flow_id: str) -> str:
        return template(workspace=self._client.name, flow_id=flow_id, task_key=self._key(flow_id))

    def _key(self, flow_id: str) -> str:
        return self._fingerprint(flow_id)[:16]

    def _fingerprint(self, flow_id: str) -> str:
        """Return a digest of everything that a task of ours contains, secrets included."""
        digest = hashlib.sha256()
        secret, key = self._secret(flow_id), self._signing_secret(flow_id)
        for part in (
            self._task_name,
            self._url(),
            template(workspace=self._client.name, flow_id=flow_id, task_key=""),
            secret.reveal() if secret is not None else "",
            key.reveal() if key is not None else "",
        ):
            digest.update(part.encode() + b"\0")
        return digest.hexdigest()

    def _without_secrets(self, text: str | None) -> str | None:
        for secret in (self._secret(_TEST_FLOW), self._signing_secret(_TEST_FLOW)):
            if text is not None and secret:
                text = text.replace(secret.reveal(), "***")
        return text
