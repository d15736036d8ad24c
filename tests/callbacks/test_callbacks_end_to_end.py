"""From a job group's end in a workspace to its event, by a callback that was really sent."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable, Coroutine, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime

import aiohttp
import msgspec
import pytest
from prometheus_client import CollectorRegistry

from monitor.bus.contract import StoredCallback
from monitor.bus.sqlite.store import SqliteBus
from monitor.callbacks.inbox import InboxReader
from monitor.callbacks.intake import CallbackIntake
from monitor.callbacks.listener import FLOW_HEADER, SECRET_HEADER, CallbackListener
from monitor.callbacks.registrar import Registrar
from monitor.callbacks.settings import CallbackSettings, ListenerSettings, SignatureMode
from monitor.model.events import RunEvent
from monitor.model.runs import RunKey, RunKind, Source
from monitor.model.secrets import Secret
from monitor.polling.poller import WorkspacePoller
from monitor.polling.settings import PollSettings
from monitor.sandbox.callbacks.deliveries import SIGNATURE_HEADER, signature
from monitor.sandbox.running.engine import Order, Outcome
from monitor.sandbox.sandbox import Sandbox
from monitor.sandbox.settings import SandboxSettings, WorkSettings
from monitor.sandbox.world.records.objects import WebhookFlowTask
from monitor.sandbox.world.records.runs import JobGroup
from monitor.tracking.live_state import LiveState
from monitor.tracking.observer import Observer
from monitor.workspace.client import WorkspaceClient
from monitor.workspace.settings import WorkspaceSettings
from tests.app.eventually import eventually
from tests.callbacks.conftest import SECRET, received_by
from tests.clocks import FastClock

POLL = PollSettings(
    active_seconds=0.5, idle_seconds=1, wake_gap_seconds=0.2, detail_wait_seconds=0.2
)


FORGED = StoredCallback(
    workspace="acme",
    kind=RunKind.JOB_GROUP,
    run_id="999999",
    native_status="Complete",
    received_at=datetime.now(UTC),
    fingerprint="forged",
)


@dataclass
class Monitor:
    """All parts for a workspace, wired as the daemon does it."""

    sandbox: Sandbox
    bus: SqliteBus
    registry: CollectorRegistry
    live_state: LiveState
    registrar: Registrar
    poller: WorkspacePoller
    reader: InboxReader

    async def events(self, job_group: JobGroup) -> list[RunEvent]:
        key = RunKey("acme", RunKind.JOB_GROUP, str(job_group.id))
        events = [event.event for event in await self.bus.events(after=0, limit=10_000)]
        return [event for event in events if isinstance(event, RunEvent) and event.run.key == key]

    async def ends(self, job_group: JobGroup) -> list[RunEvent]:
        events = await self.events(job_group)
        return [
            event
            for event in events
            if event.run.status.is_terminal and event.before != event.run.status
        ]

    def accepted(self) -> float:
        return self.count("callback_requests", outcome="accepted")

    def count(self, name: str, **labels: str) -> float:
        return self.registry.get_sample_value(f"dataprep_monitor_{name}_total", labels) or 0

    def run_job_group(
        self, outcome: Outcome = Outcome.COMPLETE, *, work_seconds: float = 3.0
    ) -> JobGroup:
        recipe = next(iter(self.sandbox.world.recipes.live()))
        order = Order(outcome=outcome, queue_seconds=0.2, work_seconds=work_seconds)
        self.sandbox.engine.order(order)
        return self.sandbox.engine.start_job_group(recipe, by=11)


@contextlib.asynccontextmanager
async def running(*loops: Callable[[], Coroutine[object, object, None]]) -> AsyncIterator[None]:
    tasks = [asyncio.create_task(loop()) for loop in loops]
    try:
        yield
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.wait(tasks)


KEY = "a key for signatures"
SETTINGS = CallbackSettings(
    flows=("*",),
    secret=Secret(SECRET),
    signing_secret=Secret(KEY),
    signature=SignatureMode.REQUIRE,
)


@pytest.fixture
async def sandbox(clock: FastClock) -> AsyncIterator[Sandbox]:
    living = Sandbox(
        SandboxSettings(traffic=None, schedules_fire=False, work=WorkSettings(speed=10)),
        clock,
    )
    await living.start()
    yield living
    await living.stop()


@pytest.fixture
async def client(
    sandbox: Sandbox, clock: FastClock, registry: CollectorRegistry
) -> AsyncIterator[WorkspaceClient]:
    settings = WorkspaceSettings(
        name="acme",
        url=sandbox.url or "",
        token=Secret(sandbox.token),
        requests_per_minute=60_000,
    )
    async with WorkspaceClient(settings, clock=clock, registry=registry) as opened:
        yield opened


@pytest.fixture
def clock() -> FastClock:
    """All parts run by one clock that stands still."""
    return FastClock()


@pytest.fixture
async def monitor(
    sandbox: Sandbox,
    client: WorkspaceClient,
    bus: SqliteBus,
    observer: Observer,
    live_state: LiveState,
    clock: FastClock,
    registry: CollectorRegistry,
) -> AsyncIterator[Monitor]:
    """Tasks sign what they send, and the listener requires it."""
    poller = WorkspacePoller(
        client,
        observer=observer,
        live_state=live_state,
        bus=bus,
        clock=clock,
        registry=registry,
        settings=POLL,
    )
    reader = InboxReader(
        "acme",
        settings=SETTINGS,
        bus=bus,
        observer=observer,
        clock=clock,
        follower=poller,
    )
    intake = CallbackIntake(
        "acme", observer=observer, view=live_state.view, follower=poller, inbox=reader
    )
    listener = CallbackListener(
        settings=ListenerSettings(listen="127.0.0.1:0", wrong_secret_delay_seconds=0),
        workspaces={"acme": SETTINGS},
        receive=received_by(intake, bus),
        clock=clock,
        registry=registry,
    )
    url = f"http://127.0.0.1:{await listener.start()}"
    registrar = Registrar(
        client,
        settings=msgspec.structs.replace(SETTINGS, public_url=url),
        bus=bus,
        live_state=live_state,
        clock=clock,
        instance="monitor",
    )
    yield Monitor(sandbox, bus, registry, live_state, registrar, poller, reader)
    await listener.stop()


async def test_an_end_is_emitted_once_by_poll_and_callback_together(monitor: Monitor) -> None:
    """Our task's callback arrives, polls continue, and the end of the run is one event."""
    async with running(monitor.poller.run, monitor.registrar.run, monitor.reader.run):
        registered = {"registered": len(list(monitor.sandbox.world.flows.live()))}
        await eventually(
            lambda: _states(monitor.live_state) == registered, why="no tasks were registered"
        )
        groups = [monitor.run_job_group(outcome) for outcome in (Outcome.COMPLETE, Outcome.FAILED)]

        async def are_published() -> bool:
            return monitor.accepted() == 2 and all([await monitor.ends(group) for group in groups])

        await eventually(are_published, why=lambda: f"{monitor.accepted()} callbacks came")
        assert await monitor.sandbox.deliveries.idle(timeout_seconds=10)
        await eventually(lambda: _is_processed(monitor.bus), why="callbacks wait in the inbox")
        ends = [await monitor.ends(group) for group in groups]

    assert [[active.run.status for active in run_events] for run_events in ends] == [
        ["succeeded"],
        ["failed"],
    ]
    assert {run_events[0].observed_by for run_events in ends} <= {Source.CALLBACK, Source.POLL}
    states = await monitor.bus.runs([run_events[0].run.key for run_events in ends])
    assert all(state.is_called_back for state in states.values())


async def test_a_callback_reports_an_end_that_no_poll_has_observed(monitor: Monitor) -> None:
    """Without polls a known run's end comes from its callback alone, with its flow."""
    async with running(monitor.poller.run, monitor.registrar.run):
        await eventually(lambda: bool(_states(monitor.live_state)), why="no tasks were registered")
        await eventually(lambda: "pending" not in _states(monitor.live_state), why="tasks are left")
        group = monitor.run_job_group(work_seconds=20.0)

        async def is_known() -> bool:
            return bool(await monitor.events(group))

        await eventually(is_known, why="the run was not seen")
    async with running(monitor.reader.run):

        async def is_notified() -> bool:
            return bool(await monitor.ends(group))

        await eventually(is_notified, why="the end was not emitted")
    (end,) = await monitor.ends(group)

    assert end.observed_by is Source.CALLBACK
    assert end.run.ended_by is Source.CALLBACK
    assert end.run.pipeline is not None
    assert end.run.pipeline.id == str(group.flow_id)


async def test_a_forged_callback_for_no_run_makes_no_event(monitor: Monitor) -> None:
    """An id that the workspace does not know is read once, dropped and counted."""
    async with running(monitor.poller.run, monitor.registrar.run, monitor.reader.run):
        await eventually(
            lambda: _edition(monitor.live_state) is not None, why="the workspace did not answer"
        )
        await monitor.bus.receive(FORGED, inbox_bound=10, timeout_seconds=5)
        monitor.reader.notify()
        await eventually(lambda: _is_processed(monitor.bus), why="the callback still waits")

    labels = {"source": "callback", "outcome": "unconfirmed"}
    assert monitor.registry.get_sample_value("dataprep_monitor_observations_total", labels) == 1
    events = [event.event for event in await monitor.bus.events(after=0, limit=100)]
    assert not any(isinstance(event, RunEvent) for event in events)


async def test_a_leaked_task_opens_its_own_flow_only(monitor: Monitor) -> None:
    """All that one task holds, signed as it signs, says nothing of a run of another flow."""
    async with running(monitor.poller.run, monitor.registrar.run, monitor.reader.run):
        registered = {"registered": len(list(monitor.sandbox.world.flows.live()))}
        await eventually(
            lambda: _states(monitor.live_state) == registered, why="no tasks were registered"
        )
        group = monitor.run_job_group(work_seconds=60.0)

        async def is_known() -> bool:
            return bool(await monitor.events(group))

        await eventually(is_known, why="the run was not seen")
        tasks = list(monitor.sandbox.world.webhook_tasks.live())
        leaked = next(task for task in tasks if task.flow_id != group.flow_id)
        other = next(task for task in tasks if task.flow_id == group.flow_id)
        assert not set(leaked.headers.values()) & {SECRET, *_secrets(other)}
        assert leaked.secret_key not in (KEY, other.secret_key)
        body = (leaked.body or "").replace("$jobId", str(group.id))
        failed = body.replace("$jobStatus", "Failed")
        named = failed.replace(f'"{leaked.flow_id}"', f'"{group.flow_id}"')

        assert await _send(leaked, failed, monitor) == 204
        assert await _send(leaked, named, monitor) == 403
        flow_header = {FLOW_HEADER: str(group.flow_id)}
        assert await _send(leaked, named, monitor, headers=flow_header) == 404
        other_flow = {"source": "callback", "outcome": "other_flow"}
        await eventually(
            lambda: monitor.count("observations", **other_flow) == 1, why="nothing was held back"
        )
        assert await monitor.ends(group) == []

        async def has_ended() -> bool:
            return bool(await monitor.ends(group))

        await eventually(has_ended, why="the run did not end")
        ends = await monitor.ends(group)
    assert [end.run.status for end in ends] == ["succeeded"]
    assert monitor.count("callback_requests", outcome="bad_signature") == 0


def _secrets(task: WebhookFlowTask) -> set[str]:
    return {value for name, value in task.headers.items() if name == SECRET_HEADER}


async def _send(
    task: WebhookFlowTask,
    body: str,
    monitor: Monitor,
    *,
    headers: Mapping[str, str] | None = None,
) -> int:
    """Send what a reader of the task can send; return the status."""
    at_milliseconds = int(monitor.sandbox.world.now().timestamp() * 1_000)
    signed = signature(task.secret_key or "", body.encode(), at_milliseconds=at_milliseconds)
    sent = {**task.headers, SIGNATURE_HEADER: signed, **(headers or {})}
    async with (
        aiohttp.ClientSession() as session,
        session.post(task.url, data=body, headers=sent) as answer,
    ):
        return answer.status


def _states(live_state: LiveState) -> dict[str, int]:
    counts = live_state.workspaces["acme"].webhook_tasks
    return {state: count for state, count in counts.items() if count}


async def _is_processed(bus: SqliteBus) -> bool:
    return not (await bus.inbox("acme", limit=1)).callbacks


def _edition(live_state: LiveState) -> str | None:
    return live_state.workspaces["acme"].edition
