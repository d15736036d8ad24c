"""The demo's parts, put together: sandbox, broker, subscriber, daemon."""

from __future__ import annotations

import asyncio
import contextlib
import secrets
import signal
import sys
import tempfile
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import aiohttp
from prometheus_client import CollectorRegistry

from monitor.app.daemon import Addresses, Daemon
from monitor.bus.settings import StorageSettings
from monitor.callbacks.settings import CallbackSettings, ListenerSettings
from monitor.catalogue.capabilities import Capability, capabilities_of
from monitor.catalogue.operations import Edition
from monitor.cli.demo_broker import Subscriber, broker, free_port
from monitor.cli.demo_counts import Summary, ends_of_ledger, ends_of_metrics
from monitor.config import Configuration, WorkspaceConfiguration
from monitor.model.clock import SystemClock
from monitor.model.errors import MonitorError
from monitor.model.runs import RunKind
from monitor.model.secrets import Secret
from monitor.outputs.settings import MqttProtocol, MqttSettings
from monitor.polling.settings import InventorySettings, PollSettings
from monitor.sandbox.records.objects import WebhookFlowTask
from monitor.sandbox.sandbox import Sandbox
from monitor.sandbox.settings import SandboxSettings, WorkSettings
from monitor.web.settings import ServerSettings
from monitor.workspace.settings import WorkspaceSettings

WORKSPACE = "demo"
_DRAIN_SECONDS = 10.0
_LOOK_SECONDS = 0.2
_START_SECONDS = 30.0
_INTERRUPTED = 130
_TIME_NOT_TOLD = "(time not told)     "
# What each kind of run needs to be followed.
_NEEDS = {
    RunKind.JOB_GROUP: Capability.FOLLOW_BY_ID,
    RunKind.FLOW_RUN: Capability.FOLLOW_FLOW_RUNS,
    RunKind.PLAN_RUN: Capability.LIST_PLAN_RUNS,
}


class Demonstration:
    """One demo. `run` returns the exit code."""

    def __init__(
        self, *, port: int, edition: Edition, speed: float, seed: int, seconds: float | None
    ) -> None:
        self._port = port
        self._edition = edition
        self._seconds = seconds
        self._secret = secrets.token_urlsafe(24)
        self._sandbox = Sandbox(
            SandboxSettings(
                edition=edition,
                seed=seed,
                work=_work(edition, speed),
                # Nothing runs before somebody follows it, so that all three count the same.
                is_busy_at_once=False,
            ),
            SystemClock(),
        )
        self._subscriber = Subscriber(_print_event)
        self._stop = asyncio.Event()
        self._was_interrupted = False

    async def run(self) -> int:
        """Run until the time is over or a signal comes, and sum up."""
        loop = asyncio.get_running_loop()
        loop.add_signal_handler(signal.SIGINT, self._interrupt)
        loop.add_signal_handler(signal.SIGTERM, self._stop.set)
        async with contextlib.AsyncExitStack() as undo:
            folder = undo.enter_context(tempfile.TemporaryDirectory(prefix="dataprep-monitor-"))
            url = await self._sandbox.start()
            undo.push_async_callback(self._sandbox.stop)
            broker_port = await undo.enter_async_context(broker())
            await undo.enter_async_context(self._subscriber.listen(broker_port))
            daemon, addresses = await undo.enter_async_context(
                self._daemon(Path(folder), url, broker_port)
            )
            _say(f"sandbox    {url} (edition {self._edition}, token {self._sandbox.token})")
            _say(f"broker     mqtt://127.0.0.1:{broker_port} (subscribe to dataprep/#)")
            _say(f"metrics    http://127.0.0.1:{addresses.server_port}/metrics")
            _say(f"page       http://127.0.0.1:{addresses.server_port}/")
            return await self._perform(daemon, addresses)

    def _interrupt(self) -> None:
        self._was_interrupted = True
        self._stop.set()

    async def _perform(self, daemon: Daemon, addresses: Addresses) -> int:
        await self._until_followed(daemon)
        status = daemon.view.workspaces()[0]
        if not self._kinds():
            _say(f"nothing can be followed here: {status.reason}")
            return 0
        if self._edition is Edition.LE and addresses.callbacks_port is not None:
            self._make_callbacks_by_hand(addresses.callbacks_port)
        self._sandbox.open_for_work()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(self._seconds):
                await self._stop.wait()
        if self._was_interrupted:
            return _INTERRUPTED
        if self._seconds is None:
            return 0
        return _tell(await self._settle(addresses))

    async def _until_followed(self, daemon: Daemon) -> None:
        try:
            async with asyncio.timeout(_START_SECONDS):
                while not self._stop.is_set():
                    status = daemon.view.workspaces()[0]
                    is_polled = any(poll.last_success_at for poll in daemon.view.polls())
                    if status.edition is not None and (is_polled or status.reason):
                        return
                    await asyncio.sleep(_LOOK_SECONDS)
        except TimeoutError as exc:
            raise MonitorError(f"the daemon did not begin within {_START_SECONDS:.0f} s") from exc

    async def _settle(self, addresses: Addresses) -> Summary:
        """Let the runs end and the counts meet; after half the time nothing more may end."""
        self._sandbox.stop_starting()
        loop = asyncio.get_running_loop()
        begun = loop.time()
        summary = await self._sum_up(addresses)
        while loop.time() - begun < _DRAIN_SECONDS:
            is_quiet = not self._sandbox.ledger.active()
            if not is_quiet and loop.time() - begun > _DRAIN_SECONDS / 2:
                self._sandbox.freeze()
                is_quiet = True
            summary = await self._sum_up(addresses)
            if is_quiet and summary.agrees:
                break
            await asyncio.sleep(_LOOK_SECONDS)
        return summary

    async def _sum_up(self, addresses: Addresses) -> Summary:
        url = f"http://127.0.0.1:{addresses.server_port}/metrics"
        timeout = aiohttp.ClientTimeout(total=_DRAIN_SECONDS)
        try:
            async with (
                aiohttp.ClientSession(timeout=timeout) as session,
                session.get(url) as answer,
            ):
                text = await answer.text()
        except (aiohttp.ClientError, TimeoutError) as exc:
            raise MonitorError(f"the metrics cannot be read ({type(exc).__name__})") from exc
        return Summary(
            kinds=self._kinds(),
            ledger=ends_of_ledger(self._sandbox.ledger.results()),
            mqtt=self._subscriber.ends.copy(),
            metrics=ends_of_metrics(text),
        )

    def _kinds(self) -> tuple[str, ...]:
        offered = capabilities_of(self._edition)
        return tuple(kind for kind, need in _NEEDS.items() if need in offered)

    def _make_callbacks_by_hand(self, callbacks_port: int) -> None:
        """Give each flow the webhook task that a user of this edition would type."""
        url = f"http://127.0.0.1:{callbacks_port}/hooks/{WORKSPACE}/{self._secret}"
        for flow in self._sandbox.world.flows.live():
            self._sandbox.world.create(
                WebhookFlowTask,
                by=flow.creator_id,
                name="tell the monitor",
                flow_id=flow.id,
                url=url,
                method="post",
                trigger_event="onJobDone",
                trigger_object="any",
                body='{"jobid":"$jobId","jobstatus":"$jobStatus"}',
                headers={"Content-Type": "application/json"},
                retry_on_failure=True,
            )

    @contextlib.asynccontextmanager
    async def _daemon(
        self, folder: Path, url: str, broker_port: int
    ) -> AsyncIterator[tuple[Daemon, Addresses]]:
        daemon = Daemon(
            self._configuration(folder, url, broker_port),
            clock=SystemClock(),
            registry=CollectorRegistry(),
        )
        started: asyncio.Future[Addresses] = asyncio.get_running_loop().create_future()
        stop = asyncio.Event()
        running = asyncio.create_task(daemon.run(stop, on_started=started.set_result))
        # A daemon that ends by itself ends the demo; its error is raised below.
        running.add_done_callback(lambda _: self._stop.set())
        await asyncio.wait((running, started), return_when=asyncio.FIRST_COMPLETED)
        if not started.done():
            await running
        try:
            yield daemon, started.result()
        finally:
            stop.set()
            await running

    def _configuration(self, folder: Path, url: str, broker_port: int) -> Configuration:
        callbacks_port = free_port()
        by_hand = self._edition is Edition.LE
        return Configuration(
            workspaces=(
                WorkspaceConfiguration(
                    workspace=WorkspaceSettings(
                        name=WORKSPACE,
                        url=url,
                        token=Secret(self._sandbox.token),
                        requests_per_minute=6_000,
                    ),
                    poll=PollSettings(
                        active_seconds=1,
                        idle_seconds=2,
                        reconcile_seconds=10,
                        names_seconds=30,
                        schedules_seconds=30,
                    ),
                    inventory=InventorySettings(connections=True, interval_seconds=30),
                    callbacks=CallbackSettings(
                        public_url=None if by_hand else f"http://127.0.0.1:{callbacks_port}",
                        flows=() if by_hand else ("*",),
                        secret=Secret(self._secret),
                    ),
                ),
            ),
            mqtt=MqttSettings(
                url=f"mqtt://127.0.0.1:{broker_port}",
                # The demo's broker leaves a client that asks for 5 without an answer.
                protocol=MqttProtocol.V311,
            ),
            server=ServerSettings(port=self._port),
            callbacks=ListenerSettings(port=callbacks_port),
            storage=StorageSettings(url=f"sqlite://{folder}/state.db"),
        )


def _work(edition: Edition, speed: float) -> WorkSettings:
    # Where runs are followed by callbacks alone, nothing tells of a canceled one: no event of a
    # webhook task is named for it.
    if edition is Edition.LE:
        return WorkSettings(speed=speed, cancel_ratio=0.0)
    return WorkSettings(speed=speed)


def _tell(summary: Summary) -> int:
    """Print the three counts side by side and return the exit code."""
    line = "{:<10} {:<10} {:>8} {:>8} {:>8}"
    _say(line.format("kind", "result", "sandbox", "mqtt", "metrics"))
    for row in summary.rows():
        _say(line.format(*row))
    if empty := summary.empty_kinds:
        _say(f"no run ended of: {', '.join(empty)}; let it run longer")
    _say("the three counts agree" if summary.agrees else "the three counts DO NOT agree")
    return 0 if summary.agrees and not summary.empty_kinds else 1


def _print_event(event: dict[str, Any]) -> None:
    data = event["data"]
    # Never our own time in the workspace's place: a line would seem to come after the next one.
    at = event.get("time") or _TIME_NOT_TOLD
    what = event["type"].removeprefix("dataprep.").removesuffix(".v1")
    if what.startswith("alert."):
        summary = data["annotations"].get("summary") or data["labels"]["alertname"]
        _say(f"{at}  {what:<14}  {data['labels']['severity']}  {summary}")
        return
    run = data.get("run")
    if run is None:
        _say(f"{at}  {what:<14}  {data['what']}: {data['before']} -> {data['after']}")
        return
    pipeline = data["pipeline"].get("name") or "unknown"
    error = f": {run['error']}" if run.get("error") else ""
    _say(f"{at}  {what:<14}  {run['kind']} {run['id']}  {pipeline}{error}")


def _say(line: str) -> None:
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()
