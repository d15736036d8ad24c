"""A sandbox workspace and everything around it, for daemons in this process."""

from __future__ import annotations

import asyncio
import contextlib
from collections import Counter
from collections.abc import AsyncIterator
from pathlib import Path

from msgspec import Struct
from prometheus_client import CollectorRegistry

from monitor.app.daemon import Addresses, Daemon
from monitor.app.store_opening import OpenStore
from monitor.app.store_opening import open_store as open_any
from monitor.bus.settings import StorageSettings
from monitor.callbacks.settings import CallbackSettings, ListenerSettings
from monitor.catalogue.capabilities import Capability, capabilities_of
from monitor.catalogue.operations import Edition
from monitor.config import Configuration, WorkspaceConfiguration
from monitor.model.clock import Clock, SystemClock
from monitor.model.secrets import Secret
from monitor.outputs.mqtt.settings import MqttSettings
from monitor.polling.settings import InventorySettings, PollSettings
from monitor.sandbox.sandbox import Sandbox
from monitor.sandbox.settings import SandboxSettings, TrafficSettings, WorkSettings
from monitor.sandbox.world.records.objects import WebhookFlowTask
from monitor.web.settings import ServerSettings
from monitor.workspace.settings import WorkspaceSettings
from tests.app.daemon_http import Face
from tests.app.eventually import eventually
from tests.app.mqtt_subscriber import End, Subscriber, counted, ends_in

SECRET = "a secret that only workspace and monitor know"
POLL = PollSettings(
    active_seconds=0.4,
    idle_seconds=0.6,
    wake_gap_seconds=0.2,
    reconcile_seconds=5,
    names_seconds=10,
    schedules_seconds=10,
    detail_wait_seconds=0.5,
    flow_run_wait_cap_seconds=1,
    recovery_seconds=1,
)
_TRAFFIC = TrafficSettings(
    flow_runs_per_hour=30, plan_runs_per_hour=30, job_groups_per_hour=40, samples_per_hour=12
)
_NEEDS = {
    "flow_run": Capability.FOLLOW_FLOW_RUNS,
    "job_group": Capability.FOLLOW_BY_ID,
    "plan_run": Capability.LIST_PLAN_RUNS,
}


def sandbox(
    edition: Edition = Edition.RL,
    *,
    seed: int = 1,
    cancel_ratio: float = 0.1,
    speed: float = 120.0,
    clock: Clock | None = None,
) -> Sandbox:
    """Return a workspace in which nothing runs before `open_for_work`."""
    return Sandbox(
        SandboxSettings(
            edition=edition,
            seed=seed,
            work=WorkSettings(speed=speed, cancel_ratio=cancel_ratio),
            traffic=_TRAFFIC,
            is_busy_at_once=False,
        ),
        clock or SystemClock(),
    )


def kinds_of(edition: Edition) -> tuple[str, ...]:
    """Return the kinds of run that can be followed in an edition."""
    capabilities = capabilities_of(edition)
    return tuple(kind for kind, need in _NEEDS.items() if need in capabilities)


@contextlib.asynccontextmanager
async def started(workspace: Sandbox, *, port: int = 0) -> AsyncIterator[str]:
    """Let a workspace live, and yield its URL."""
    url = await workspace.start(port)
    try:
        yield url
    finally:
        await workspace.stop()


def workspace_configuration(
    workspace: Sandbox,
    url: str,
    *,
    name: str = "acme",
    callbacks_port: int | None = None,
    by_hand: bool = False,
    inventory: InventorySettings | None = None,
) -> WorkspaceConfiguration:
    """Return the settings under which a sandbox is followed, with callbacks if a port is given."""
    callbacks = None
    if callbacks_port is not None:
        public_url = None if by_hand else f"http://127.0.0.1:{callbacks_port}"
        callbacks = CallbackSettings(
            public_url=public_url, flows=() if by_hand else ("*",), secret=Secret(SECRET)
        )
    return WorkspaceConfiguration(
        workspace=WorkspaceSettings(
            name=name,
            url=url,
            token=Secret(workspace.token),
            requests_per_minute=60_000,
            retries=1,
        ),
        poll=POLL,
        inventory=inventory or InventorySettings(),
        callbacks=callbacks,
    )


def unreachable(name: str) -> WorkspaceConfiguration:
    """Return a workspace at an address where nothing listens."""
    return WorkspaceConfiguration(
        workspace=WorkspaceSettings(name=name, url="http://127.0.0.1:9", token=Secret("t")),
        poll=POLL,
        callbacks=CallbackSettings(secret=Secret(SECRET)),
    )


def configuration(
    folder: Path,
    *workspaces: WorkspaceConfiguration,
    broker_url: str | None = None,
    callbacks_port: int | None = None,
    **outputs: Struct,
) -> Configuration:
    """Return settings of a daemon whose waits suit a test; ``outputs`` are those beside MQTT."""
    mqtt = MqttSettings(
        url=broker_url or "",
        reconnect_base_seconds=0.1,
        reconnect_cap_seconds=0.5,
        backoff_base_seconds=0.1,
        backoff_cap_seconds=0.5,
    )
    return Configuration(
        workspaces=workspaces,
        outputs=outputs if broker_url is None else {"mqtt": mqtt, **outputs},
        server=ServerSettings(listen="127.0.0.1:0"),
        callbacks=None
        if callbacks_port is None
        else ListenerSettings(listen=f"127.0.0.1:{callbacks_port}"),
        storage=StorageSettings(url=f"sqlite://{folder}/state.db"),
    )


@contextlib.asynccontextmanager
async def daemon(
    settings: Configuration, *, clock: Clock | None = None, open_store: OpenStore = open_any
) -> AsyncIterator[Face]:
    """Run a daemon in this process and yield what it shows."""
    running = Daemon(
        settings,
        clock=clock or SystemClock(),
        registry=CollectorRegistry(),
        open_store=open_store,
    )
    addresses: asyncio.Future[Addresses] = asyncio.get_running_loop().create_future()
    stop = asyncio.Event()
    task = asyncio.create_task(
        running.run(stop, on_started=addresses.set_result), name="the daemon of a test"
    )
    await asyncio.wait((task, addresses), return_when=asyncio.FIRST_COMPLETED)
    if not addresses.done():
        await task
    try:
        yield Face(addresses.result().server_port)
    finally:
        stop.set()
        await task


def make_tasks_by_hand(workspace: Sandbox, callbacks_port: int, *, name: str = "acme") -> None:
    """Give each flow the webhook task that a user would type."""
    for flow in workspace.world.flows.live():
        workspace.world.create(
            WebhookFlowTask,
            by=flow.creator_id,
            name="tell the monitor",
            flow_id=flow.id,
            url=f"http://127.0.0.1:{callbacks_port}/hooks/{name}/{SECRET.replace(' ', '%20')}",
            method="post",
            trigger_event="onJobDone",
            trigger_object="any",
            body='{"job_id":"$jobId","status":"$jobStatus"}',
            headers={"Content-Type": "application/json"},
            retry_on_failure=True,
        )


async def until_ended(workspace: Sandbox, kinds: tuple[str, ...], *, at_least: int) -> None:
    """Return when so many runs of each kind have ended."""
    await eventually(
        lambda: all(sum(workspace.ledger.results()[kind].values()) >= at_least for kind in kinds),
        why=lambda: f"the sandbox is slow: {workspace.ledger.results()}",
    )


async def until_quiet(workspace: Sandbox) -> None:
    """Let nothing start any more and return when everything has ended."""
    workspace.stop_starting()
    await eventually(
        lambda: not workspace.ledger.active(),
        why=lambda: f"still active: {workspace.ledger.active()}",
    )


async def until_agreed(
    workspace: Sandbox, kinds: tuple[str, ...], subscriber: Subscriber, face: Face
) -> None:
    """Return when ledger, subscriber and metrics agree; fail with the difference."""
    happened = ends_in(workspace.ledger, kinds)
    received: set[End] = set()
    metrics: Counter[tuple[str, str]] = Counter()

    async def agree() -> bool:
        nonlocal received, metrics
        received = subscriber.received().ends()
        if received != happened:
            return False
        metrics = await face.ends()
        return metrics == counted(happened)

    def differences() -> str:
        return (
            f"missing: {sorted(happened - received)}, wrong: {sorted(received - happened)}, "
            f"metrics: {metrics}, happened: {counted(happened)}"
        )

    await eventually(agree, why=differences)
