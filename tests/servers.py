"""Real servers for tests: started on free ports, stopped by their own process id."""

from __future__ import annotations

import asyncio
import atexit
import getpass
import os
import shutil
import signal
import socket
from asyncio.subprocess import DEVNULL, PIPE, Process
from collections.abc import Coroutine, Iterable
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import pytest

START_SECONDS = 60.0  # for what takes a second, on a slow machine that does something else
STOP_SECONDS = 60.0


def program(name: str) -> str:
    """Return where a server's program is; skip without it, but fail where CI is set."""
    found = shutil.which(name, path=f"{os.environ.get('PATH', '')}:/usr/sbin:/sbin")
    if found is None:
        reason = f"{name} is not installed; `make servers` installs it"
        if os.environ.get("CI"):
            pytest.fail(reason)
        pytest.skip(reason)
    return found


_reserved: list[socket.socket] = []


def free_port() -> int:
    """Return a port without a listener that no other test is given.

    The port stays bound until this process ends: no process that asks the system for any port
    gets it. Servers may listen on it all the same, because they set SO_REUSEADDR.
    """
    reserved = socket.socket()
    reserved.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    reserved.bind(("127.0.0.1", 0))
    _reserved.append(reserved)
    return int(reserved.getsockname()[1])


@atexit.register
def _release_ports() -> None:
    for reserved in _reserved:
        reserved.close()


class Mosquitto:
    """A broker on a port of its own. Remembers nothing over a restart unless told to."""

    def __init__(
        self, folder: Path, *, listener: Iterable[str] = (), options: Iterable[str] = ()
    ) -> None:
        self.port = free_port()
        self._program = program("mosquitto")
        self._process: Process | None = None
        self._log: asyncio.Task[None] | None = None
        self.lines: list[str] = []
        self._configuration = folder / f"mosquitto-{self.port}.conf"
        lines = [
            f"user {getpass.getuser()}",
            "per_listener_settings false",
            "set_tcp_nodelay true",
            "log_dest stderr",
            "log_type error",
            "log_type warning",
            "log_type notice",
            "log_type information",
            *options,
            f"listener {self.port} 127.0.0.1",
            *listener,
        ]
        if not any(option.startswith("allow_anonymous") for option in options):
            lines.append("allow_anonymous true")
        self._configuration.write_text("\n".join(lines) + "\n")

    @property
    def url(self) -> str:
        return f"mqtt://127.0.0.1:{self.port}"

    def configure(self, text: str) -> None:
        """Start with this configuration instead; it must name the broker's port."""
        # `start` waits for a line that only this type of message shows.
        self._configuration.write_text(f"{text}\nuser {getpass.getuser()}\nlog_type information\n")

    async def start(self) -> None:
        """Return when the broker accepts connections."""
        self._process = await asyncio.create_subprocess_exec(
            self._program, "-c", str(self._configuration), stdout=DEVNULL, stderr=PIPE
        )
        is_running = asyncio.Event()
        self._log = asyncio.create_task(self._read_log(self._process, is_running))
        async with asyncio.timeout(START_SECONDS):
            await is_running.wait()
        if self._process.returncode is not None:
            pytest.fail("mosquitto did not start: " + " | ".join(self.lines[-5:]))

    async def stop(self, *, at_once: bool = False) -> None:
        """End the broker; ``at_once`` kills it, as a failing machine does."""
        process, self._process = self._process, None
        if process is None or self._log is None:
            return
        if process.returncode is None:
            process.send_signal(signal.SIGKILL if at_once else signal.SIGTERM)
        async with asyncio.timeout(STOP_SECONDS):
            await process.wait()
            await self._log

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self.stop()

    async def _read_log(self, process: Process, is_running: asyncio.Event) -> None:
        if process.stderr is not None:
            async for line in process.stderr:
                self.lines.append(line.decode(errors="replace").rstrip())
                if self.lines[-1].endswith(" running"):
                    is_running.set()
        await process.wait()
        is_running.set()


class Alertmanager:
    """An Alertmanager alone, which notifies one receiver of webhooks without much waiting."""

    def __init__(
        self, folder: Path, *, notify_url: str, group_by: str, group_wait: str = "100ms"
    ) -> None:
        self.port = free_port()
        self._program = program("prometheus-alertmanager")
        self._folder = folder / f"alertmanager-{self.port}"
        self._folder.mkdir()
        self._process: Process | None = None
        self._log: asyncio.Task[bytes] | None = None
        self._configuration = self._folder / "alertmanager.yml"
        self._configuration.write_text(
            f"""
route:
  receiver: test
  group_by: [{group_by}]
  group_wait: {group_wait}
  group_interval: 200ms
  repeat_interval: 24h
receivers:
  - name: test
    webhook_configs:
      - url: {notify_url}
        send_resolved: true
"""
        )

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def configure(self, text: str) -> None:
        """Start with this configuration instead."""
        self._configuration.write_text(text)

    async def start(self) -> None:
        """Return when it listens. What it knew before a stop it knows again."""
        self._process = await asyncio.create_subprocess_exec(
            self._program,
            f"--config.file={self._configuration}",
            f"--storage.path={self._folder}",
            f"--web.listen-address=127.0.0.1:{self.port}",
            "--cluster.listen-address=",
            stdout=DEVNULL,
            stderr=PIPE,
        )
        assert self._process.stderr is not None
        lines: list[str] = []
        async with asyncio.timeout(START_SECONDS):
            while line := await self._process.stderr.readline():
                lines.append(line.decode(errors="replace"))
                if "Listening on" in lines[-1]:
                    self._log = asyncio.create_task(self._process.stderr.read())
                    return
        pytest.fail("Alertmanager did not start: " + " | ".join(lines[-5:]))

    async def stop(self) -> None:
        process, self._process = self._process, None
        if process is None or self._log is None:
            return
        process.send_signal(signal.SIGTERM)
        async with asyncio.timeout(STOP_SECONDS):
            await process.wait()
            await self._log

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self.stop()


class Relay:
    """Stands between a client and a server, to cut their connections and to hold answers back."""

    def __init__(self, target_port: int, *, late_seconds: float | None = None) -> None:
        """``late_seconds`` is how late each answer comes, however many are on their way.

        It may become more while connections are open, where it is not None.
        """
        self._target_port = target_port
        self.late_seconds = late_seconds
        self._listener: socket.socket | None = None
        self._is_closed = False
        self._writers: set[asyncio.StreamWriter] = set()
        self._tasks: set[asyncio.Task[None]] = set()
        self.port = 0
        self.connections = 0
        self.is_deaf = False  # answers of the server are thrown away

    async def __aenter__(self) -> Self:
        # Not by a server of asyncio: closed as a client connects, it leaves the connection open.
        self._listener = listener = socket.create_server(("127.0.0.1", 0))
        listener.setblocking(False)
        self.port = int(listener.getsockname()[1])
        asyncio.get_running_loop().add_reader(listener, self._welcome, listener)
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._is_closed = True
        if self._listener is not None:
            asyncio.get_running_loop().remove_reader(self._listener)
            self._listener.close()
        self.cut()
        while self._tasks:
            await asyncio.gather(*self._tasks, return_exceptions=True)

    def cut(self) -> None:
        """Break every connection without a goodbye."""
        for writer in self._writers:
            writer.transport.abort()

    def lead_to(self, port: int) -> None:
        """Break every connection, and let the next ones reach another server."""
        self._target_port = port
        self.cut()

    def has_more_than(self, connections: int) -> bool:
        """True when more connections than that have been made so far."""
        return self.connections > connections

    def _welcome(self, listener: socket.socket) -> None:
        try:
            connection, _ = listener.accept()
        except (BlockingIOError, ConnectionAbortedError):
            return  # who connected has gone again
        connection.setblocking(False)
        self._start(self._serve(connection), "relay connection")

    async def _serve(self, connection: socket.socket) -> None:
        reader, writer = await asyncio.open_connection(sock=connection)
        await self._accept(reader, writer)

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await self._join(reader, writer)

    async def _join(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, *, first: bytes = b""
    ) -> None:
        """Connect a client with the server; ``first`` was read from the client already."""
        self.connections += 1
        try:
            far_reader, far_writer = await asyncio.open_connection("127.0.0.1", self._target_port)
        except OSError:
            writer.transport.abort()
            return
        if self._is_closed:
            writer.transport.abort()
            far_writer.transport.abort()
            return
        self._writers |= {writer, far_writer}
        far_writer.write(first)
        self._start(self._forward(reader, far_writer, is_answer=False), "relay forth")
        if self.late_seconds is not None:
            late_reader = asyncio.StreamReader()
            self._start(self._delay(far_reader, late_reader), "relay late")
            far_reader = late_reader
        self._start(self._forward(far_reader, writer, is_answer=True), "relay back")

    async def _delay(self, reader: asyncio.StreamReader, late: asyncio.StreamReader) -> None:
        loop = asyncio.get_running_loop()
        try:
            while chunk := await reader.read(65_536):
                loop.call_later(self.late_seconds or 0.0, late.feed_data, chunk)
        except OSError:
            pass  # cut; the end is passed on below
        finally:
            loop.call_later(self.late_seconds or 0.0, late.feed_eof)

    def _start(self, work: Coroutine[Any, Any, None], name: str) -> None:
        task = asyncio.create_task(work, name=name)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _forward(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, *, is_answer: bool
    ) -> None:
        try:
            while chunk := await reader.read(65_536):
                if not (is_answer and self.is_deaf):
                    writer.write(chunk)
                    await writer.drain()
        except OSError:
            pass  # cut; the other side is told below
        finally:
            writer.transport.abort()
            self._writers.discard(writer)
