"""Sends callbacks: the tasks that are registered with flows, and the requests of plans.

Known of the real thing: textual substitution of ``$jobId`` and ``$jobStatus``, 30 seconds for each
request, 2xx is success, retries where the task asks for them. Assumed here, and nowhere else: the
signature's form, the waits between retries, that a canceled job group fires nothing (an option
lets it), that redirects are not followed, and ``application/json`` where no content type is named.
"""

from __future__ import annotations

import asyncio
import hashlib
import hmac
from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from enum import StrEnum

import aiohttp
import structlog

from monitor.sandbox.callbacks.faults import Statement, statements
from monitor.sandbox.running.tasks import Unfinished
from monitor.sandbox.settings import DeliverySettings
from monitor.sandbox.world.records.objects import HttpTask, WebhookFlowTask
from monitor.sandbox.world.records.runs import JobGroup, NativeStatus, PlanSnapshotRun
from monitor.sandbox.world.shelves import World

log = structlog.get_logger()

SIGNATURE_HEADER = "X-Webhook-Signature"
_EVENTS = {
    "onJobSuccess": frozenset({NativeStatus.COMPLETE}),
    "onJobFailure": frozenset({NativeStatus.FAILED}),
    "onJobDone": frozenset({NativeStatus.COMPLETE, NativeStatus.FAILED}),
}
_SUCCESS = range(200, 300)
_HEARTBEAT_SECONDS = 3_600.0
_LONGEST_HOLD_SECONDS = 60.0


class DeliveryState(StrEnum):
    """Where a delivery is."""

    WAITING = "waiting"
    DELIVERED = "delivered"
    FAILED = "failed"
    DROPPED = "dropped"  # too many were waiting; it was never sent
    LOST = "lost"  # by a fault; it was never sent


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """What one request came to: a status, or the reason why there is none."""

    status_code: int | None = None
    error: str | None = None

    @property
    def is_success(self) -> bool:
        return self.status_code is not None and self.status_code in _SUCCESS


@dataclass(slots=True, kw_only=True)
class Delivery:
    """One line of the delivery log. ``answers`` has one entry for each attempt."""

    task_id: int | None  # None for the request of a plan
    run_id: int
    url: str = field(repr=False)  # people put secrets into it
    begun_at: datetime
    state: DeliveryState = DeliveryState.WAITING
    answers: list[Answer] = field(default_factory=list)


def signature(secret_key: str, body: bytes, *, at_milliseconds: int) -> str:
    """Return the header's value: HMAC-SHA256 over the time, a dot and the raw body."""
    signed = f"{at_milliseconds}.".encode() + body
    digest = hmac.new(secret_key.encode(), signed, hashlib.sha256).hexdigest()
    return f"t={at_milliseconds},sha256={digest}"


class Deliveries:
    """Sends each callback in a task of its own; a bounded number wait and a few are in the air."""

    def __init__(self, world: World, settings: DeliverySettings) -> None:
        self.log: deque[Delivery] = deque(maxlen=settings.log_kept)
        self._world = world
        self._settings = settings
        self._slots = asyncio.Semaphore(settings.at_once)
        self._group: asyncio.TaskGroup | None = None
        self._session: aiohttp.ClientSession | None = None
        self._held_back: asyncio.Event | None = None  # set when the one held back may be sent
        self._unfinished = Unfinished()
        self.idle = self._unfinished.idle

    async def run(self) -> None:
        """Send until cancelled; what is then under way is given up. Before it all is dropped."""
        timeout = aiohttp.ClientTimeout(total=self._settings.time_limit_seconds)
        async with (
            aiohttp.ClientSession(timeout=timeout, cookie_jar=aiohttp.DummyCookieJar()) as session,
            asyncio.TaskGroup() as group,
        ):
            self._session, self._group = session, group
            try:
                while True:
                    await self._world.clock.sleep(_HEARTBEAT_SECONDS)
            finally:
                self._session = self._group = None

    def on_job_group_ended(self, job_group: JobGroup) -> None:
        """Send the requests of the flow's tasks about this end."""
        if not job_group.fires_webhooks:
            return
        for task in self._world.webhook_tasks_of(job_group.flow_id):
            is_meant = task.trigger_object == "any" or job_group.recipe_id in task.flow_node_ids
            if is_meant and job_group.status in self._statuses_delivered(task):
                for statement in statements(self._world, task, job_group):
                    self._begin(task.id, statement, self._request_of(task, statement))

    async def send_plan_request(self, http_task: HttpTask, plan_run: PlanSnapshotRun) -> bool:
        """Send the request of a plan's HTTP node; True where it was answered 2xx."""
        plan = self._world.plans.get(plan_run.plan_id, with_deleted=True)
        names = {
            "{{$plan.runId}}": str(plan_run.id),
            "{{$plan.name}}": plan.name if plan else "",
        }
        request = _filled_in(http_task, names, retries=http_task.max_retries)
        delivery = Delivery(
            task_id=None, run_id=plan_run.id, url=request.url, begun_at=self._world.now()
        )
        self.log.append(delivery)
        await self._deliver(delivery, request)
        return delivery.state is DeliveryState.DELIVERED

    async def test(self, request: HttpTask) -> Answer:
        """Send one request now, as it is: it is about no run, so nothing is filled in."""
        return await self._send(request)

    def _statuses_delivered(self, task: WebhookFlowTask) -> frozenset[NativeStatus]:
        ends = _EVENTS[task.trigger_event]
        if task.trigger_event == "onJobDone" and self._world.options.cancels_fire_webhooks:
            return ends | {NativeStatus.CANCELED}
        return ends

    def _request_of(self, task: WebhookFlowTask, statement: Statement) -> HttpTask:
        names = {"$jobId": str(statement.run_id), "$jobStatus": statement.status.value}
        retries = self._settings.retries if task.retry_on_failure else 0
        request = _filled_in(task, names, retries=retries)
        if statement.has_wrong_signature:
            return replace(request, secret_key=f"not {task.secret_key}")
        return _with_wrong_secret(request) if statement.has_wrong_secret else request

    def _begin(self, task_id: int, statement: Statement, request: HttpTask) -> None:
        run_id = statement.run_id
        delivery = Delivery(
            task_id=task_id, run_id=run_id, url=request.url, begun_at=self._world.now()
        )
        self.log.append(delivery)
        if statement.is_lost:
            delivery.state = DeliveryState.LOST
            return
        if self._group is None or self._unfinished.count >= self._settings.waiting:
            delivery.state = DeliveryState.DROPPED
            log.warning("a callback was dropped", task=task_id, job_group=run_id)
            return
        self._unfinished.begin()
        name = f"delivery-{task_id}-{run_id}"
        self._group.create_task(
            self._deliver_in_turn(delivery, request, statement), name=name
        ).add_done_callback(self._unfinished.end)

    async def _deliver_in_turn(
        self, delivery: Delivery, request: HttpTask, statement: Statement
    ) -> None:
        if statement.wait_seconds > 0:
            await self._world.clock.sleep(statement.wait_seconds)
        if statement.is_held_back and self._held_back is None and self._group is not None:
            held_back = self._held_back = asyncio.Event()
            timer = self._group.create_task(self._release_later(held_back), name="held-back")
            await held_back.wait()
            timer.cancel()
            await self._deliver(delivery, request)
            return
        await self._deliver(delivery, request)
        if self._held_back is not None:
            self._release(self._held_back)

    async def _release_later(self, held_back: asyncio.Event) -> None:
        await self._world.clock.sleep(_LONGEST_HOLD_SECONDS)
        self._release(held_back)

    def _release(self, held_back: asyncio.Event) -> None:
        held_back.set()
        if self._held_back is held_back:
            self._held_back = None

    async def _deliver(self, delivery: Delivery, request: HttpTask) -> None:
        for attempt in range(request.max_retries + 1):
            if attempt > 0:
                await self._world.clock.sleep(self._backoff_seconds(attempt))
            async with self._slots:
                answer = await self._send(request)
            delivery.answers.append(answer)
            if answer.is_success:
                delivery.state = DeliveryState.DELIVERED
                return
        delivery.state = DeliveryState.FAILED
        log.info("a callback failed", task=delivery.task_id, run=delivery.run_id)

    def _backoff_seconds(self, attempt: int) -> float:
        settings = self._settings
        return min(
            settings.backoff_seconds * 2.0 ** min(attempt - 1, 60), settings.backoff_cap_seconds
        )

    async def _send(self, request: HttpTask) -> Answer:
        if self._session is None:
            return Answer(error="the workspace is not running")
        body = request.body.encode()
        headers = dict(request.headers)
        if not any(name.lower() == "content-type" for name in headers):
            headers["Content-Type"] = "application/json"
        if request.secret_key:
            at_milliseconds = int(self._world.now().timestamp() * 1_000)
            headers[SIGNATURE_HEADER] = signature(
                request.secret_key, body, at_milliseconds=at_milliseconds
            )
        try:
            async with self._session.request(
                request.method.upper(),
                request.url,
                data=body,
                headers=headers,
                ssl=request.ssl_verification,
                allow_redirects=False,
            ) as response:
                return Answer(status_code=response.status)
        except TimeoutError:
            return Answer(error=f"no answer within {self._settings.time_limit_seconds:g} seconds")
        except (
            aiohttp.ClientError,
            ValueError,
        ) as exc:  # ValueError: a header or URL unfit to send
            return Answer(error=f"{type(exc).__name__}: the request could not be sent")


def _with_wrong_secret(request: HttpTask) -> HttpTask:
    """Change every header, or the URL's end where the task has none to hold a secret."""
    headers = {
        name: value if name.lower() == "content-type" else _changed(value)
        for name, value in request.headers.items()
    }
    if headers != request.headers:
        return replace(request, headers=headers)
    return replace(request, url=_changed(request.url))


def _changed(text: str) -> str:
    return text[:-1] + ("x" if text[-1:] != "x" else "y")


def _filled_in(
    task: HttpTask | WebhookFlowTask, names: Mapping[str, str], *, retries: int
) -> HttpTask:
    """Return the request of a task, with what is known of the run in place of its names."""
    return HttpTask(
        url=_filled(task.url, names),
        method=task.method,
        headers={name: _filled(value, names) for name, value in task.headers.items()},
        body=_filled(task.body or "", names),
        secret_key=task.secret_key or "",
        ssl_verification=task.ssl_verification,
        max_retries=retries,
    )


def _filled(text: str, names: Mapping[str, str]) -> str:
    for name, value in names.items():
        text = text.replace(name, value)
    return text
