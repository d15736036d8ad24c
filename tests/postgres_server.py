"""Real PostgreSQL servers for tests, from Debian's packages: free ports, ended by process id.

A server ends with the process that started it, however that ends.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import select
import shutil
import signal
import socket
import subprocess
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import asyncpg
import pytest

from tests.postgres_files import (
    ADMINISTRATOR,
    as_owner,
    folder_of_programs,
    home,
    make_folder,
    owner,
    run,
    template,
)
from tests.servers import START_SECONDS, STOP_SECONDS, free_port

# Small, because every worker of a test run has a server and each crash scenario several.
_SMALL = {
    "listen_addresses": "127.0.0.1",
    "max_connections": "60",
    "shared_buffers": "16MB",
    "max_wal_size": "256MB",
    "wal_keep_size": "64MB",
    "wal_init_zero": "off",
    "wal_retrieve_retry_interval": "200ms",
    "autovacuum": "off",
    "jit": "off",
    "log_line_prefix": "%m [%p] %a ",
}


class PostgresServer:
    """A server on a port of its own, with data that outlive its stops.

    What is committed outlives `kill` too. ``is_durable`` waits for the disk, as only a benchmark
    needs; ``access`` are lines of ``pg_hba.conf``, without which everybody is who he says he is.
    """

    def __init__(
        self,
        *,
        options: Mapping[str, str] | None = None,
        access: Sequence[str] = (),
        is_durable: bool = False,
    ) -> None:
        folder_of_programs()
        self.port = free_port()
        self.folder = home() / f"server-{os.getpid()}-{self.port}"
        self._options = {
            **_SMALL,
            "fsync": "on" if is_durable else "off",
            **(options or {}),
            "port": str(self.port),
            "unix_socket_directories": str(self.folder),
        }
        self._access = access
        self.variables: Sequence[str] = ()  # of its environment, NAME=VALUE
        self._process: subprocess.Popen[bytes] | None = None
        self._databases = 0

    @property
    def data(self) -> Path:
        return self.folder / "data"

    @property
    def log(self) -> str:
        path = self.folder / "log"
        return path.read_text(errors="replace") if path.exists() else ""

    @property
    def is_running(self) -> bool:
        return self._process is not None and self._process.poll() is None

    def url(
        self, database: str = "postgres", *, user: str = ADMINISTRATOR, port: int | None = None
    ) -> str:
        """Return the URL of a database; ``port`` is that of a relay before the server."""
        return f"postgresql://{user}@127.0.0.1:{port or self.port}/{database}"

    def install(self, source: Path) -> Path:
        """Copy a file, such as a private key, to where only the server's user reads it."""
        self._make_data()
        copy = self.data / source.name
        shutil.copyfile(source, copy)
        copy.chmod(0o600)
        if os.geteuid() == 0:
            os.chown(copy, owner().pw_uid, owner().pw_gid)
        return copy

    # --- life -----------------------------------------------------------------------------------

    async def start(self) -> None:
        """Return when it accepts connections."""
        # A thread that ends would end the server with it.
        ready = self._spawn()
        await asyncio.to_thread(self._await_ready, ready)

    def start_blocking(self) -> None:
        """Start it where there is no loop, as for all tests of a worker."""
        self._await_ready(self._spawn())

    async def stop(self) -> None:
        """End it in order: transactions under way are rolled back, connections closed."""
        self._signal(signal.SIGINT)
        await asyncio.to_thread(self._await_end)

    async def kill(self) -> None:
        """End every process of it at once, as a failing machine does."""
        self._signal_all(signal.SIGKILL)
        await asyncio.to_thread(self._await_end)

    async def restart(self) -> None:
        await self.stop()
        await self.start()

    def freeze(self) -> None:
        """Let nothing of it run, as on a machine that hangs: connections stay open."""
        self._signal_all(signal.SIGSTOP)

    def thaw(self) -> None:
        self._signal_all(signal.SIGCONT)

    def discard(self) -> None:
        """End it for good, with its data."""
        if self.is_running:
            self._signal_all(signal.SIGKILL)
            self._await_end()
        shutil.rmtree(self.folder, ignore_errors=True)

    async def __aenter__(self) -> Self:
        try:
            await self.start()
        except BaseException:
            self.discard()
            raise
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.discard()

    # --- what is in it ----------------------------------------------------------------------------

    async def execute(self, statement: str, *values: Any, database: str = "postgres") -> None:
        """Execute a statement, or several without values, as administrator."""
        async with self._connected(database) as connection:
            await connection.execute(statement, *values)

    async def fetch(
        self, statement: str, *values: Any, database: str = "postgres"
    ) -> list[asyncpg.Record]:
        async with self._connected(database) as connection:
            return list(await connection.fetch(statement, *values))

    async def value(self, statement: str, *values: Any, database: str = "postgres") -> Any:
        """Return the first column of the first row."""
        async with self._connected(database) as connection:
            return await connection.fetchval(statement, *values)

    async def create_role(self, name: str, *, password: str | None = None, rights: str = "") -> str:
        """Create a role that may log in; ``rights`` such as ``CREATEDB``. Return its name."""
        secret = "" if password is None else f"PASSWORD '{password}'"
        await self.execute(f'CREATE ROLE "{name}" LOGIN {rights} {secret}')
        return name

    async def create_database(
        self, *, owner: str = ADMINISTRATOR, template: str = "template1"
    ) -> str:
        """Create a database that no other test has, as a copy of another; return its name."""
        self._databases += 1
        name = f"test_{self._databases}"
        await self.execute(f'CREATE DATABASE {name} OWNER "{owner}" TEMPLATE "{template}"')
        return name

    async def drop_database(self, name: str) -> None:
        """Drop a database, also while clients are still connected."""
        await self.execute(f'DROP DATABASE "{name}" WITH (FORCE)')

    # --- replication ------------------------------------------------------------------------------

    async def create_standby(
        self, name: str, *, options: Mapping[str, str] | None = None, port: int | None = None
    ) -> Self:
        """Return a standby that has what this server has, not yet started.

        It names itself ``name`` and asks ``port``, which may be a relay's.
        """
        standby = type(self)(options={**self._options, **(options or {})})
        make_folder(standby.folder)
        primary = f"host=127.0.0.1 port={port or self.port} user={ADMINISTRATOR}"
        await asyncio.to_thread(
            run,
            folder_of_programs() / "pg_basebackup",
            *("--pgdata", standby.data, "--dbname", f"{primary} application_name={name}"),
            *("--write-recovery-conf", "--checkpoint=fast", "--no-sync"),
        )
        return standby

    async def commit_synchronously(self, *standbys: str) -> None:
        """Answer a commit when a standby of these has it; of none: when this server has it."""
        names = ", ".join(standbys)
        await self.execute(f"ALTER SYSTEM SET synchronous_standby_names = '{names}'")
        await self.execute("SELECT pg_reload_conf()")
        async with asyncio.timeout(START_SECONDS):
            while standbys and not await self.value(
                "SELECT count(*) FROM pg_stat_replication WHERE sync_state = 'sync'"
            ):
                await self.execute("SELECT pg_sleep(0.02)")

    async def promote(self) -> None:
        """Make a standby the primary; return when it takes writes."""
        assert await self.value("SELECT pg_promote()"), self.log

    # --- within -----------------------------------------------------------------------------------

    @contextlib.asynccontextmanager
    async def _connected(self, database: str) -> AsyncIterator[asyncpg.Connection[asyncpg.Record]]:
        connection = await asyncpg.connect(
            host=str(self.folder), port=self.port, user=ADMINISTRATOR, database=database
        )
        try:
            yield connection
        finally:
            await connection.close()

    def _make_data(self) -> None:
        if self.data.exists():
            return
        make_folder(self.folder)
        copying = ("cp", "--archive", "--reflink=auto", template(), self.data)
        subprocess.run(copying, check=True)
        if self._access:
            (self.data / "pg_hba.conf").write_text("\n".join((*self._access, "")))

    def _spawn(self) -> socket.socket:
        """Start the process; it says on the returned socket when it accepts connections."""
        assert not self.is_running
        self._make_data()
        ready = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        path = self.folder / "ready"
        path.unlink(missing_ok=True)
        ready.bind(str(path))
        path.chmod(0o777)
        options = [f"--{key}={value}" for key, value in self._options.items()]
        postgres = folder_of_programs() / "postgres"
        with (self.folder / "log").open("ab") as log:
            self._process = subprocess.Popen(
                as_owner("env", *self.variables, postgres, "-D", self.data, *options),
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                cwd=self.folder,
                env={"PATH": os.environ["PATH"], "NOTIFY_SOCKET": str(path)},
            )
        return ready

    def _await_ready(self, ready: socket.socket) -> None:
        assert self._process is not None
        ended = os.pidfd_open(self._process.pid)
        try:
            while True:
                speaking, _, _ = select.select([ready.fileno(), ended], [], [], START_SECONDS)
                if ready.fileno() not in speaking:
                    pytest.fail(f"PostgreSQL did not start:\n{self.log[-3000:]}")
                if b"READY=1" in ready.recv(4096):
                    return
        finally:
            os.close(ended)
            ready.close()

    def _await_end(self) -> None:
        assert self._process is not None
        self._process.wait(STOP_SECONDS)

    def _signal(self, number: signal.Signals) -> None:
        assert self._process is not None
        self._process.send_signal(number)

    def _signal_all(self, number: signal.Signals) -> None:
        """Send a signal to the process and to all its children."""
        assert self._process is not None
        # It starts no child while it is stopped.
        self._process.send_signal(signal.SIGSTOP)
        process_id = self._process.pid
        children = Path(f"/proc/{process_id}/task/{process_id}/children").read_text()
        for child in children.split():
            with contextlib.suppress(ProcessLookupError):
                os.kill(int(child), number)
        self._process.send_signal(number)


@contextlib.contextmanager
def server_of_worker() -> Iterator[PostgresServer]:
    """Yield a server for all tests of this process; each makes a database of its own in it."""
    server = PostgresServer()
    try:
        server.start_blocking()
        yield server
    finally:
        server.discard()
