"""One demo: sandbox, broker, subscriber and daemon, from their start to the three counts."""

from __future__ import annotations

import asyncio
import contextlib
import secrets
import signal
import tempfile
from collections.abc import AsyncIterator
from pathlib import Path

import aiohttp
from prometheus_client import CollectorRegistry

from monitor import logs
from monitor.app.daemon import Addresses, Daemon
from monitor.app.tasks import first_failure
from monitor.catalogue.capabilities import Capability, capabilities_of
from monitor.catalogue.operations import Edition
from monitor.cli.demo_broker import Subscriber, broker
from monitor.cli.demo_mailbox import Mailbox
from monitor.cli.demo_output import DemoOutput, Summary, ends_of_ledger, ends_of_metrics
from monitor.cli.demo_scenario import DemoScenario
from monitor.cli.demo_settings import configuration, create_webhook_tasks, sandbox_settings
from monitor.model.clock import SystemClock
from monitor.model.errors import MonitorError
from monitor.model.runs import RunKind
from monitor.model.waits import happens_within
from monitor.sandbox.sandbox import Sandbox
from monitor.sandbox.settings import SandboxSettings

_DRAIN_SECONDS = 10.0
_CHECK_SECONDS = 0.2
_START_SECONDS = 30.0
_INTERRUPTED = 130
# What each kind of run needs to be followed.
_NEEDS = {
    RunKind.JOB_GROUP: Capability.FOLLOW_BY_ID,
    RunKind.FLOW_RUN: Capability.FOLLOW_FLOW_RUNS,
    RunKind.PLAN_RUN: Capability.LIST_PLAN_RUNS,
}


def run(
    *,
    port: int,
    edition: Edition,
    speed: float,
    seed: int,
    seconds: float | None,
    has_oauth: bool,
    shows_mail: bool,
    shows_events: bool,
) -> int:
    """Run a demo until its time is over or a signal ends it; return the exit code."""
    logs.configure(level="error")
    output = DemoOutput(shows_events=shows_events)
    session = DemoSession(
        output,
        sandbox_settings(edition, speed=speed, seed=seed, has_oauth=has_oauth),
        port=port,
        seconds=seconds,
        shows_mail=shows_mail,
    )
    return asyncio.run(session.run())


class DemoSession:
    """One demo. `run` returns the exit code."""

    def __init__(
        self,
        output: DemoOutput,
        settings: SandboxSettings,
        *,
        port: int,
        seconds: float | None,
        shows_mail: bool,
    ) -> None:
        self._port = port
        self._edition = settings.edition
        self._seconds = seconds
        self._shows_mail = shows_mail
        self._secret = secrets.token_urlsafe(24)
        self._clock = SystemClock()
        self._sandbox = Sandbox(settings, self._clock)
        self._output = output
        self._story = DemoScenario(self._sandbox)
        self._subscriber = Subscriber(output.print_event)
        self._mailbox = Mailbox(output.print_mail)
        self._stop = asyncio.Event()
        self._was_interrupted = False
        self._unfinished: set[tuple[str, int]] = set()  # since the past, and for long

    async def run(self) -> int:
        """Run until the time is over or a signal comes, and sum up."""
        loop = asyncio.get_running_loop()
        loop.add_signal_handler(signal.SIGINT, self._interrupt)
        loop.add_signal_handler(signal.SIGTERM, self._stop.set)
        try:
            return await self._run()
        except ExceptionGroup as failures:
            # A daemon or subscriber that failed ends the demo with its own error.
            raise first_failure(failures) from failures

    async def _run(self) -> int:
        async with contextlib.AsyncExitStack() as undo:
            folder = undo.enter_context(tempfile.TemporaryDirectory(prefix="dataprep-monitor-"))
            self._story.prepare()
            url = await self._sandbox.start()
            undo.push_async_callback(self._sandbox.stop)
            broker_port = await undo.enter_async_context(broker())
            await undo.enter_async_context(self._subscriber.subscribed(broker_port))
            mail_port = await undo.enter_async_context(self._mailbox.receiving())
            daemon, addresses = await undo.enter_async_context(
                self._daemon(Path(folder), url, broker_port=broker_port, mail_port=mail_port)
            )
            mailbox_url = None
            if self._shows_mail:
                mailbox_url = await undo.enter_async_context(self._mailbox.shown())
            self._introduce(url, broker_port, addresses, mailbox_url)
            return await self._perform(daemon, addresses)

    def _introduce(
        self, url: str, broker_port: int, addresses: Addresses, mailbox_url: str | None
    ) -> None:
        server_url = f"http://127.0.0.1:{addresses.server_port}"
        pair = self._sandbox.pair
        access = f"token {self._sandbox.token}"
        if pair is not None:
            access = (
                f"access tokens of {pair.access_token_seconds} s from {self._sandbox.token_url}"
            )
        for name, value in (
            ("sandbox", f"{url} (edition {self._edition}, {access})"),
            ("broker", f"mqtt://127.0.0.1:{broker_port} (subscribe to dataprep/#)"),
            ("metrics", f"{server_url}/metrics"),
            ("page", f"{server_url}/"),
            *([] if mailbox_url is None else [("mailbox", mailbox_url)]),
        ):
            self._output.print_line(f"{name:<9}  {value}")
        if self._kinds():
            text = self._story.text(page_url=f"{server_url}/", broker_port=broker_port)
            self._output.print_paragraph(text)

    def _interrupt(self) -> None:
        self._was_interrupted = True
        self._stop.set()

    async def _perform(self, daemon: Daemon, addresses: Addresses) -> int:
        await self._until_followed(daemon)
        status = daemon.view.workspaces()[0]
        if not self._kinds():
            self._output.print_line(f"nothing can be followed here: {status.reason}")
            return 0
        if self._edition is Edition.LE and addresses.callbacks_port is not None:
            create_webhook_tasks(
                self._sandbox, callbacks_port=addresses.callbacks_port, secret=self._secret
            )
        self._unfinished = self._sandbox.ledger.active()
        self._sandbox.open_for_work()
        async with asyncio.TaskGroup() as group:
            story = group.create_task(self._story.run(), name="demo story")
            await self._until_over()
            story.cancel()
        if self._was_interrupted:
            return _INTERRUPTED
        if self._seconds is None:
            return 0
        code = self._output.print_summary(await self._wait_for_agreement(addresses))
        if self._sandbox.pair is not None:
            self._output.print_line(f"access token refreshed {self._sandbox.pair.refreshes} times")
        return code

    async def _until_over(self) -> None:
        if self._seconds is None:
            await self._stop.wait()
            return
        await happens_within(
            self._stop.wait(), clock=self._clock, seconds=self._seconds, name="end of the demo"
        )

    async def _until_followed(self, daemon: Daemon) -> None:
        try:
            async with asyncio.timeout(_START_SECONDS):
                while not self._stop.is_set():
                    status = daemon.view.workspaces()[0]
                    is_polled = any(poll.last_success_at for poll in daemon.view.polls())
                    if status.edition is not None and (is_polled or status.reason):
                        return
                    await asyncio.sleep(_CHECK_SECONDS)
        except TimeoutError as exc:
            raise MonitorError(f"the daemon did not begin within {_START_SECONDS:.0f} s") from exc

    async def _wait_for_agreement(self, addresses: Addresses) -> Summary:
        """Let the runs end and the counts meet; after half the time nothing more may end."""
        self._sandbox.stop_starting()
        begun = self._clock.monotonic()
        summary = await self._sum_up(addresses)
        while (elapsed := self._clock.monotonic() - begun) < _DRAIN_SECONDS:
            is_quiet = self._sandbox.ledger.active() <= self._unfinished
            if not is_quiet and elapsed > _DRAIN_SECONDS / 2:
                self._sandbox.freeze()
                is_quiet = True
            summary = await self._sum_up(addresses)
            if is_quiet and summary.agrees:
                break
            await asyncio.sleep(_CHECK_SECONDS)
        return summary

    async def _sum_up(self, addresses: Addresses) -> Summary:
        url = f"http://127.0.0.1:{addresses.server_port}/metrics"
        timeout = aiohttp.ClientTimeout(total=_DRAIN_SECONDS)
        try:
            async with (
                aiohttp.ClientSession(timeout=timeout) as session,
                session.get(url) as response,
            ):
                text = await response.text()
        except (aiohttp.ClientError, TimeoutError) as exc:
            raise MonitorError(f"the metrics cannot be read ({type(exc).__name__})") from exc
        return Summary(
            kinds=self._kinds(),
            ledger=ends_of_ledger(self._sandbox.ledger.results()),
            mqtt=self._subscriber.ends.copy(),
            metrics=ends_of_metrics(text),
        )

    def _kinds(self) -> tuple[str, ...]:
        capabilities = capabilities_of(self._edition)
        return tuple(kind for kind, need in _NEEDS.items() if need in capabilities)

    @contextlib.asynccontextmanager
    async def _daemon(
        self, folder: Path, url: str, *, broker_port: int, mail_port: int
    ) -> AsyncIterator[tuple[Daemon, Addresses]]:
        """Run the daemon. Its failure cancels the demo; its end without one ends it."""
        daemon = Daemon(
            configuration(
                folder,
                self._sandbox,
                url,
                broker_port=broker_port,
                mail_port=mail_port,
                port=self._port,
                secret=self._secret,
            ),
            clock=self._clock,
            registry=CollectorRegistry(),
        )
        started: asyncio.Future[Addresses] = asyncio.get_running_loop().create_future()
        stop = asyncio.Event()
        async with asyncio.TaskGroup() as group:
            running = group.create_task(
                daemon.run(stop, on_started=started.set_result), name="demo daemon"
            )
            running.add_done_callback(lambda _: self._stop.set())
            try:
                yield daemon, await started
            finally:
                # Orderly, also when the demo ends by an error.
                stop.set()
                await asyncio.wait((running,))
