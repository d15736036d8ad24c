"""The command ``dataprep-monitor`` as a process of its own, with a configuration on disk."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import sys
from asyncio.subprocess import Process
from collections.abc import AsyncIterator, Mapping
from pathlib import Path

import pytest
from msgspec import Struct

from tests.app.daemon_http import Face
from tests.app.eventually import eventually
from tests.app.fixture import SECRET
from tests.servers import free_port

_END_SECONDS = 90.0
_START_SECONDS = 90.0  # on a machine that does something else
COMMAND = (sys.executable, "-m", "monitor.cli.main")


class Done(Struct, frozen=True):
    """A command that has ended."""

    code: int
    out: str
    err: str


async def command(
    *arguments: str, config: Path | None = None, within_seconds: float = _END_SECONDS
) -> Done:
    """Run one command to its end; one that does not come to it is killed."""
    async with running(*arguments, config=config) as process, asyncio.timeout(within_seconds):
        out, err = await process.communicate()
    return Done(process.returncode or 0, out.decode(), err.decode())


@contextlib.asynccontextmanager
async def running(*arguments: str, config: Path | None = None) -> AsyncIterator[Process]:
    """Run a command beside the test; it is killed if the test does not end it."""
    process = await _start(*arguments, config=config)
    try:
        yield process
    finally:
        if process.returncode is None:
            process.kill()
        await process.communicate()


async def _start(*arguments: str, config: Path | None) -> Process:
    chosen = {} if config is None else {"DATAPREP_MONITOR_CONFIG": str(config)}
    return await asyncio.create_subprocess_exec(
        *COMMAND,
        *arguments,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
        env={**os.environ, **chosen},
        preexec_fn=_restore_interrupts,
    )


def _restore_interrupts() -> None:
    # A shell lets what it starts in the background ignore Ctrl-C, and children inherit that.
    signal.signal(signal.SIGINT, signal.SIG_DFL)


class Watched(Struct, frozen=True):
    """One workspace as a configuration names it."""

    name: str
    url: str
    token: str


class Settings:
    """A configuration file, with its secrets in files beside it."""

    def __init__(
        self,
        folder: Path,
        *workspaces: Watched,
        broker_url: str | None = None,
        protocol: str = "auto",
        with_callbacks: bool = False,
    ) -> None:
        self.folder = folder
        self.path = folder / "monitor.toml"
        self.workspaces = workspaces
        self.port = free_port()
        self.callbacks_port = free_port() if with_callbacks else None
        self._broker_url = broker_url
        self._protocol = protocol
        self.write(*workspaces)

    def write(self, *workspaces: Watched) -> None:
        """Write the file again, for other workspaces."""
        parts = [self._workspace(workspace) for workspace in workspaces]
        if self._broker_url is not None:
            parts.append(
                f'[mqtt]\nurl = "{self._broker_url}"\nprotocol = "{self._protocol}"\n'
                "reconnect_cap_seconds = 1\n"
            )
        parts.append(f'[server]\nlisten = "127.0.0.1:{self.port}"\n')
        if self.callbacks_port is not None:
            parts.append(f'[callbacks]\nlisten = "127.0.0.1:{self.callbacks_port}"\n')
        parts.append(f'[storage]\nurl = "sqlite://{self.folder}/state.db"\n')
        self.path.write_text("\n".join(parts))

    def _workspace(self, watched: Watched) -> str:
        (self.folder / f"{watched.name}-token").write_text(f"{watched.token}\n")
        (self.folder / "callback-secret").write_text(SECRET)
        text = (
            f'[[workspaces]]\nname = "{watched.name}"\nurl = "{watched.url}"\n'
            f'token_file = "{watched.name}-token"\n\n'
            "[workspaces.poll]\nactive_seconds = 1\nidle_seconds = 1\nreconcile_seconds = 10\n"
            "names_seconds = 10\nrequests_per_minute = 60000\n"
        )
        if self.callbacks_port is not None:
            text += (
                f'\n[workspaces.callbacks]\npublic_url = "http://127.0.0.1:{self.callbacks_port}"\n'
                'flows = ["*"]\nsecret_file = "callback-secret"\n'
            )
        return text


class DaemonProcess:
    """``run`` with one configuration; may live several times, one life after the other."""

    def __init__(
        self,
        settings: Settings,
        *,
        environment: Mapping[str, str] | None = None,
        ulimit: str | None = None,
        authority: Path | None = None,
    ) -> None:
        """``ulimit`` are arguments of the shell's command, such as ``-n 1024``.

        ``authority`` has signed the certificate of the server, which speaks TLS then.
        """
        self.settings = settings
        shell = ("bash", "-c", f'ulimit {ulimit}; exec "$0" "$@"')
        self._limited = () if ulimit is None else shell
        self.face = Face(settings.port, authority=authority)
        self.environment = {**os.environ, **(environment or {})}  # from the next start on
        self._process: Process | None = None
        self._log = settings.folder / "daemon.log"

    @property
    def log(self) -> str:
        return self._log.read_text()

    @property
    def is_started(self) -> bool:
        """True from its start until a test has ended it."""
        return self._process is not None

    @property
    def process_id(self) -> int:
        assert self._process is not None
        return self._process.pid

    async def start(self) -> None:
        """Return when the server answers."""
        with self._log.open("ab") as log:
            self._process = await asyncio.create_subprocess_exec(
                *(*self._limited, *COMMAND),
                *("run", "-c", str(self.settings.path)),
                stdout=log,
                stderr=log,
                env=self.environment,
            )
        await eventually(
            self._answers,
            why=lambda: f"the daemon did not start:\n{self.log}",
            within_seconds=_START_SECONDS,
        )

    async def _answers(self) -> bool:
        if self._process is None or self._process.returncode is not None:
            pytest.fail(f"the daemon has ended:\n{self.log}")
        return await self.face.answers()

    def send_signal(self, number: signal.Signals) -> None:
        assert self._process is not None
        self._process.send_signal(number)

    async def end(self, number: signal.Signals = signal.SIGTERM) -> int:
        """End it by a signal and return its exit code; negative for the signal itself."""
        process, self._process = self._process, None
        assert process is not None
        if process.returncode is None:
            process.send_signal(number)
        async with asyncio.timeout(_END_SECONDS):
            return await process.wait()

    async def ended(self) -> int:
        """Return the exit code once it has ended by itself."""
        assert self._process is not None
        code = await self._process.wait()
        self._process = None
        return code

    async def leave(self) -> None:
        """End it for good if it still runs."""
        if self._process is not None:
            await self.end(signal.SIGKILL)


@contextlib.asynccontextmanager
async def daemon_process(
    settings: Settings,
    *,
    environment: Mapping[str, str] | None = None,
    ulimit: str | None = None,
    authority: Path | None = None,
) -> AsyncIterator[DaemonProcess]:
    """Start a daemon and, if the test has not ended it, kill it."""
    process = DaemonProcess(settings, environment=environment, ulimit=ulimit, authority=authority)
    try:
        await process.start()
        yield process
    finally:
        await process.leave()
