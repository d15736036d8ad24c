"""A sandbox over HTTP, a gate in front of it that can refuse, a listener, and the registrar."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from pathlib import Path

import aiohttp
import msgspec
from aiohttp import web
from prometheus_client import CollectorRegistry

from monitor.bus.sqlite.store import SqliteBus
from monitor.callbacks.configured_flows import NAMES_POLL
from monitor.callbacks.listener import CallbackListener
from monitor.callbacks.registrar import Registrar
from monitor.callbacks.settings import CallbackSettings, ListenerSettings
from monitor.callbacks.task_secrets import task_secret
from monitor.catalogue.capabilities import capabilities_of
from monitor.catalogue.operations import Edition
from monitor.model.live_state import PollStatus
from monitor.model.poll_outcomes import PollOutcome
from monitor.model.runs import PipelineKind
from monitor.model.secrets import Secret
from monitor.sandbox.sandbox import Sandbox
from monitor.sandbox.settings import SandboxSettings
from monitor.sandbox.world.records.objects import WebhookFlowTask
from monitor.tracking.live_state import LiveState
from monitor.workspace.client import WorkspaceClient
from monitor.workspace.priority import Priority
from monitor.workspace.settings import WorkspaceSettings
from tests.callbacks.conftest import SECRET
from tests.clocks import ManualClock

TASKS = "/v4/webhookFlowTasks"
TEST = "/v4/webhooks/test"


def secret_of(flow_id: int | str, secret: str = SECRET) -> str:
    """Return what a task of ours carries at this flow while ``secret`` is that of callbacks."""
    return task_secret(Secret(secret), workspace="acme", flow_id=str(flow_id)).reveal()


class Gate:
    """Forwards requests to a workspace, except those that a test refuses."""

    def __init__(self, url: str) -> None:
        self._url = url
        self.requests: list[tuple[str, str]] = []
        self.refused: dict[tuple[str, str], tuple[int, str]] = {}  # method and prefix -> the answer
        self.lost: set[tuple[str, str]] = set()  # done by the workspace, but answered 502

    def refuse(self, method: str, path: str, status: int, name: str) -> None:
        self.refused[method, path] = (status, name)

    def count(self, method: str, path: str) -> int:
        return sum(verb == method and target.startswith(path) for verb, target in self.requests)

    @contextlib.asynccontextmanager
    async def open(self) -> AsyncIterator[str]:
        app = web.Application()
        app.router.add_route("*", "/{path:.*}", self._pass_on)
        runner = web.AppRunner(app, access_log=None, shutdown_timeout=1)
        await runner.setup()
        await web.TCPSite(runner, "127.0.0.1", 0).start()
        async with aiohttp.ClientSession(base_url=self._url) as self._session:
            yield f"http://127.0.0.1:{runner.addresses[0][1]}"
        await runner.cleanup()

    async def _pass_on(self, request: web.Request) -> web.Response:
        self.requests.append((request.method, request.path))
        for (method, path), (status, name) in self.refused.items():
            if request.method == method and request.path.startswith(path):
                body = {"exception": {"name": name, "message": "refused", "details": ""}}
                return web.Response(status=status, body=msgspec.json.encode(body))
        kept = ("Authorization", "Content-Type")
        async with self._session.request(
            request.method,
            request.path_qs,
            data=await request.read(),
            headers={name: request.headers[name] for name in kept if name in request.headers},
        ) as answer:
            body_bytes = await answer.read()
            if (request.method, request.path) in self.lost:
                return web.Response(status=502)
            return web.Response(
                status=answer.status, body=body_bytes, headers={"Date": answer.headers["Date"]}
            )


@dataclass
class Scenario:
    """A workspace with its real tasks, and our side of it."""

    clock: ManualClock
    folder: Path
    sandbox: Sandbox
    gate: Gate
    client: WorkspaceClient
    bus: SqliteBus
    listener_port: int
    edition: Edition
    registry: CollectorRegistry
    live_state: LiveState = field(default_factory=lambda: LiveState(["acme"]))

    def settings(self, *flows: str, **changes: object) -> CallbackSettings:
        settings = CallbackSettings(
            public_url=f"http://127.0.0.1:{self.listener_port}", flows=flows, secret=Secret(SECRET)
        )
        return msgspec.structs.replace(settings, **changes)

    def registrar(self, settings: CallbackSettings, *, instance: str = "monitor") -> Registrar:
        """Return a registrar as a new process of the daemon has it."""
        return Registrar(
            self.client,
            settings=settings,
            bus=self.bus,
            live_state=self.live_state,
            clock=self.clock,
            instance=instance,
        )

    async def list_flows(self) -> None:
        """List the flows as the poll of the names does."""
        async for page in self.client.pipelines.flows(priority=Priority.NAMES):
            for row in page.rows:
                self.live_state.name_pipeline("acme", PipelineKind.FLOW, row.id, row.name)
        now = self.clock.now()
        self.live_state.record_poll(
            PollStatus(
                workspace="acme",
                poll=NAMES_POLL,
                last_attempt_at=now,
                last_success_at=now,
                last_outcome=PollOutcome.OK,
            )
        )

    def publish_capabilities(self) -> None:
        """Publish the workspace's capabilities."""
        available = frozenset(str(capability) for capability in capabilities_of(self.edition))
        self.live_state.update_workspace("acme", edition=str(self.edition), capabilities=available)

    async def lose_the_store(self) -> None:
        """Begin with an empty store, as after a lost disk."""
        await self.bus.close()
        self.bus = await SqliteBus.open(
            self.folder / "another.db", clock=self.clock, registry=CollectorRegistry()
        )

    def tasks(self) -> list[WebhookFlowTask]:
        """Return every task of the workspace."""
        return list(self.sandbox.world.webhook_tasks.live())

    def flows_with_tasks(self) -> list[int]:
        return sorted(task.flow_id for task in self.tasks())

    def flow_ids(self, name: str | None = None) -> list[int]:
        flows = self.sandbox.world.flows.live()
        return sorted(flow.id for flow in flows if name in (None, flow.name))

    def fill(self, flow_id: int, *, count: int) -> None:
        """Add tasks of another program to a flow."""
        for number in range(count):
            self.sandbox.world.create(
                WebhookFlowTask, by=11, flow_id=flow_id, name=f"n{number}", url="http://x.example"
            )


@contextlib.asynccontextmanager
async def open_scenario(
    clock: ManualClock, folder: Path, *, edition: Edition = Edition.RL, is_known: bool = True
) -> AsyncIterator[Scenario]:
    """Start everything. ``is_known`` False: neither the edition nor the flows are known yet."""
    registry = CollectorRegistry()
    sandbox = Sandbox(
        SandboxSettings(edition=edition, traffic=None, schedules_fire=False), clock=clock
    )
    gate = Gate(await sandbox.start())
    bus = await SqliteBus.open(folder / "state.db", clock=clock, registry=registry)
    listener = CallbackListener(
        settings=ListenerSettings(listen="127.0.0.1:0", wrong_secret_delay_seconds=0),
        workspaces={"acme": CallbackSettings(secret=Secret(SECRET))},
        receive=bus.receive,
        clock=clock,
        registry=registry,
    )
    port = await listener.start()
    async with gate.open() as url:
        client = WorkspaceClient(
            WorkspaceSettings(
                name="acme",
                url=url,
                token=Secret(sandbox.token),
                edition=edition,
                requests_per_minute=60_000,
                retries=0,
            ),
            clock=clock,
            registry=registry,
        )
        scenario = Scenario(
            clock=clock,
            folder=folder,
            sandbox=sandbox,
            gate=gate,
            client=client,
            bus=bus,
            listener_port=port,
            edition=edition,
            registry=registry,
        )
        try:
            if is_known:
                scenario.publish_capabilities()
                await scenario.list_flows()
                gate.requests.clear()
            yield scenario
        finally:
            await client.close()
            await listener.stop()
            await sandbox.stop()
            await scenario.bus.close()
