"""A daemon whose secrets and certificate stand in files, its workspace, and senders of callbacks.

Workspace, daemon and senders run in this process; between them is HTTP, and TLS to the listener.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import shutil
import ssl
from collections import Counter
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path
from urllib.parse import urlsplit

import aiohttp
from aiohttp import web
from prometheus_client import CollectorRegistry
from prometheus_client.parser import text_string_to_metric_families

from monitor.app.daemon import Addresses, Daemon
from monitor.callbacks.listener import SECRET_HEADER
from monitor.callbacks.task_secrets import task_secret
from monitor.cli.service_manager import ServiceManager
from monitor.cli.settings_files import load
from monitor.cli.sighup import SighupReload
from monitor.logs import Redactor
from monitor.model.clock import SystemClock
from monitor.model.secrets import Secret
from monitor.sandbox.sandbox import Sandbox
from monitor.sandbox.world.records.objects import Token, WebhookFlowTask
from tests.app import fixture
from tests.app.daemon_http import Face
from tests.app.eventually import eventually
from tests.certificates import Certificates
from tests.servers import free_port

A_SECOND = 200
LIMIT_SECONDS = 120.0  # of each wait; a free processor needs one or two
_SENDERS = 20
_FIRST_ID = 1_000_000  # no job group of the sandbox has such an id
_CONFIGURATION = """
[[workspaces]]
name = "acme"
url = "{url}"
token_file = "token"
retries = 0
[workspaces.poll]
active_seconds = 1
idle_seconds = 1
names_seconds = 10
requests_per_minute = 3000
[workspaces.callbacks]
public_url = "{public_url}"
flows = ["*"]
secret_file = "callbacks"
former_secret_file = "former"
former_secret_expires_at = 2999-01-01T00:00:00Z
[callbacks]
listen = "127.0.0.1:{port}"
[callbacks.tls]
certificate_file = "tls.crt"
key_file = "tls.key"
[server]
listen = "127.0.0.1:0"
[storage]
url = "sqlite://{folder}/state.db"
"""


@dataclass
class Site:
    """A workspace, a daemon that follows it, and the files that its configuration names."""

    workspace: Sandbox
    folder: Path
    port: int
    server_port: int
    certificates: Certificates
    reload: SighupReload
    face: Face
    secret: str  # of callbacks, for tasks made by hand
    token: Token

    def tasks(self) -> list[WebhookFlowTask]:
        return list(self.workspace.world.webhook_tasks.live())

    def moved(self) -> list[WebhookFlowTask]:
        """Return the tasks that carry what the secret of now makes of their flow."""
        return [
            task
            for task in self.tasks()
            if task.headers[SECRET_HEADER] == secret_of(task, self.secret)
        ]

    def has_moved(self) -> bool:
        flows = len(list(self.workspace.world.flows.live()))
        return len(self.tasks()) == len(self.moved()) == flows

    async def counts(self, name: str, label: str = "outcome") -> Counter[str]:
        """Return what the daemon counts of callbacks, by a label, without what is 0."""
        metrics = text_string_to_metric_families(await self.face.text("/metrics"))
        counts: Counter[str] = Counter()
        for sample in (sample for metric in metrics for sample in metric.samples):
            is_ours = sample.labels.get("source", "callback") == "callback"
            if sample.name == f"dataprep_monitor_{name}" and is_ours:
                counts[sample.labels[label]] += int(sample.value)
        return +counts

    async def unprocessed(self) -> int:
        """Return how many callbacks wait in the inbox."""
        rows = (await self.face.json("/api/v1/monitor/callbacks"))["data"]
        return sum(row["waiting"] for row in rows)


def secret_of(task: WebhookFlowTask, secret: str) -> str:
    flow_id = str(task.flow_id)
    return task_secret(Secret(secret), workspace="acme", flow_id=flow_id).reveal()


def serve(folder: Path, certificates: Certificates, pair: Path) -> None:
    shutil.copy(certificates.key_of(pair), folder / "tls.key")
    shutil.copy(pair, folder / "tls.crt")


@contextlib.asynccontextmanager
async def a_gateway(port: int, authority: Path) -> AsyncIterator[str]:
    """Forward what the workspace sends, which does not know the authority, to the TLS port."""
    tls = ssl.create_default_context(cafile=authority)

    async def forward(request: web.Request) -> web.Response:
        async with session.post(
            f"https://127.0.0.1:{port}{request.raw_path}",
            data=await request.read(),
            headers=request.headers,
            ssl=tls,
        ) as answer:
            return web.Response(status=answer.status, body=await answer.read())

    app = web.Application()
    app.router.add_post("/{path:.*}", forward)
    runner = web.AppRunner(app, access_log=None, shutdown_timeout=1)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    try:
        async with aiohttp.ClientSession() as session:
            yield f"http://127.0.0.1:{runner.addresses[0][1]}"
    finally:
        await runner.cleanup()


@contextlib.asynccontextmanager
async def open_site(folder: Path) -> AsyncIterator[Site]:
    """Start everything, and yield once each flow has a task of the daemon."""
    workspace, port, certificates = fixture.sandbox(), free_port(), Certificates(folder)
    (token,) = (item for item in workspace.world.tokens.live() if item.value == workspace.token)
    texts = {
        "token": token.value,
        "callbacks": "secret of callbacks 0",
        "former": "of no task any more",
    }
    for name, text in texts.items():
        (folder / name).write_text(text)
    serve(folder, certificates, certificates.server)
    path, clock = folder / "monitor.toml", SystemClock()
    async with (
        fixture.started(workspace) as url,
        a_gateway(port, certificates.authority) as public_url,
    ):
        path.write_text(
            _CONFIGURATION.format(url=url, public_url=public_url, port=port, folder=folder)
        )
        configuration = load(path)
        daemon = Daemon(configuration, clock=clock, registry=CollectorRegistry())
        reload = SighupReload(
            daemon,
            path,
            configuration=configuration,
            manager=ServiceManager(None, clock=clock),
            redactor=Redactor(),
            clock=clock,
            on_reloaded=lambda _: None,
        )
        addresses: asyncio.Future[Addresses] = asyncio.get_running_loop().create_future()
        stop = asyncio.Event()
        async with asyncio.TaskGroup() as group:
            group.create_task(
                daemon.run(stop, on_started=addresses.set_result, beside={"reload": reload.run})
            )
            server_port = (await addresses).server_port
            site = Site(
                workspace,
                folder,
                port,
                server_port,
                certificates,
                reload,
                Face(server_port),
                texts["callbacks"],
                token,
            )
            await eventually(site.has_moved, why="no tasks were made", within_seconds=LIMIT_SECONDS)
            try:
                yield site
            finally:
                stop.set()


@dataclass
class Load:
    """Sends callbacks of new runs at a steady rate until it is stopped, as all tasks would.

    Three of four are those of tasks in the workspace, with what these carry at that moment; the
    others are of tasks made by hand. A quarter open a connection each.
    """

    site: Site
    statuses: Counter[int] = field(default_factory=Counter)
    sent_ids: list[int] = field(default_factory=list)
    seconds: float = 0.0
    _ids: Iterator[int] = field(default_factory=lambda: count(_FIRST_ID))
    _is_over: bool = False

    @contextlib.asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        tls = ssl.create_default_context(cafile=self.site.certificates.authority)
        loop = asyncio.get_running_loop()
        began = loop.time()
        async with (
            aiohttp.ClientSession(connector=aiohttp.TCPConnector(ssl=tls)) as keeping,
            aiohttp.ClientSession(
                connector=aiohttp.TCPConnector(ssl=tls, force_close=True)
            ) as opening,
            asyncio.TaskGroup() as group,
        ):
            for sender in range(_SENDERS):
                session = keeping if sender % 4 else opening
                group.create_task(self._send(session, by_hand=sender % 4 == 1))
            try:
                yield
            finally:
                self._is_over = True
        self.seconds = loop.time() - began

    async def until_sent(self, number: int) -> None:
        await eventually(
            lambda: len(self.sent_ids) >= number,
            why="too few were sent",
            within_seconds=LIMIT_SECONDS,
        )

    async def _send(self, session: aiohttp.ClientSession, *, by_hand: bool) -> None:
        loop, clock = asyncio.get_running_loop(), SystemClock()
        due = loop.time()
        while not self._is_over:
            number = next(self._ids)
            path, headers, body = self._by_hand(number) if by_hand else self._by_task(number)
            url = f"https://127.0.0.1:{self.site.port}{path}"
            async with session.post(url, data=body, headers=headers) as answer:
                self.statuses[answer.status] += 1
                self.sent_ids.append(number)
            # What a slow machine did not send in time is not made up for: it would be slower still.
            due = max(due + _SENDERS / A_SECOND, loop.time())
            await clock.sleep(max(0.0, due - loop.time()))

    def _by_hand(self, number: int) -> tuple[str, dict[str, str], str]:
        body = json.dumps({"job_id": str(number), "job_status": "Complete"})
        return "/hooks/acme", {SECRET_HEADER: self.site.secret}, body

    def _by_task(self, number: int) -> tuple[str, dict[str, str], str]:
        tasks = self.site.tasks()
        task = tasks[number % len(tasks)]
        body = (task.body or "").replace("$jobId", str(number)).replace("$jobStatus", "Complete")
        return urlsplit(task.url).path, dict(task.headers), body
