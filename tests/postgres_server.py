"""Real PostgreSQL servers for tests, from Debian's packages: free ports, ended by process id.

`initdb` runs once a machine; each server starts on a copy of what it made. The server refuses to
run as root, so as root everything runs as user ``postgres``, in a folder which that user may read.
A server ends with the process that started it, however that ends.
"""

from __future__ import annotations

import asyncio
import contextlib
import fcntl
import functools
import hashlib
import os
import pwd
import select
import shutil
import signal
import socket
import subprocess
import tempfile
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import asyncpg
import pytest

from tests.servers import START_SECONDS, STOP_SECONDS, free_port, program

ADMINISTRATOR = "postgres"
# Words sort as people sort them, so a query that relies on the order of bytes must say so.
_INITDB = (
    *("--username", ADMINISTRATOR, "--auth", "trust", "--encoding", "UTF8", "--no-sync"),
    *("--locale", "C.UTF-8", "--locale-provider", "icu", "--icu-locale", "en-US"),
)
_MEMORY = Path("/dev/shm")  # noqa: S108 - each user's folders in it are his own
_MEMORY_BYTES = 8 * 2**30  # two dozen servers have room
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


@functools.cache
def folder_of_programs() -> Path:
    """Return the newest installed version's; skip without any, but fail where CI is set."""
    found = sorted(
        Path("/usr/lib/postgresql").glob("*/bin/postgres"),
        key=lambda path: int(path.parts[-3]),
    )
    if found:
        return found[-1].parent
    reason = "postgresql is not installed; `make servers` installs it"
    if os.environ.get("CI"):
        pytest.fail(reason)
    pytest.skip(reason)


def _owner() -> pwd.struct_passwd:
    """Return the user as whom the server runs."""
    return pwd.getpwnam(ADMINISTRATOR) if os.geteuid() == 0 else pwd.getpwuid(os.geteuid())


def _as_owner(*command: str | Path) -> tuple[str, ...]:
    """Return a command that runs as the server's user, and is killed if this process dies."""
    owner = _owner()
    change = ("--reuid", str(owner.pw_uid), "--regid", str(owner.pw_gid), "--clear-groups")
    return (
        program("setpriv"),
        *("--pdeathsig", "QUIT"),
        *(change if os.geteuid() == 0 else ()),
        *map(str, command),
    )


def _make_folder(path: Path) -> None:
    path.mkdir(mode=0o700, exist_ok=True)
    if os.geteuid() == 0:
        os.chown(path, _owner().pw_uid, _owner().pw_gid)


def _parent() -> Path:
    # To make a database in memory takes a tenth of the system time that a file system takes.
    is_near = tempfile.gettempdir() == str(_MEMORY)  # as tests/conftest.py decides
    if is_near and shutil.disk_usage(_MEMORY).free >= _MEMORY_BYTES:
        return _MEMORY
    return Path("/tmp")  # noqa: S108 - the owner of what is in it is checked


@functools.cache
def _home() -> Path:
    """Return the folder of this machine's servers, without those of tests that were killed."""
    home = _parent() / f"dataprep-monitor-postgres-{os.geteuid()}"
    _make_folder(home)
    if home.stat().st_uid != _owner().pw_uid:
        pytest.fail(f"{home} belongs to another user")
    for left in home.glob("server-*"):
        if not Path("/proc", left.name.split("-")[1]).exists():
            shutil.rmtree(left, ignore_errors=True)
    return home


@functools.cache
def _template() -> Path:
    """Return a data folder to be copied; the first process on this machine makes it."""
    programs = folder_of_programs()
    options = hashlib.sha256(repr(_INITDB).encode()).hexdigest()[:8]
    template = _home() / f"template-{programs.parts[-2]}-{options}"
    with (_home() / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not template.exists():
            unfinished = template.with_suffix(".unfinished")
            shutil.rmtree(unfinished, ignore_errors=True)
            _run(programs / "initdb", *_INITDB, "--pgdata", unfinished)
            unfinished.rename(template)
    return template


def _run(*command: str | Path) -> None:
    done = subprocess.run(
        _as_owner(*command), capture_output=True, text=True, check=False, cwd=_home()
    )
    if done.returncode != 0:
        pytest.fail(f"{command[0]}: {done.stderr or done.stdout}")


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
        self.folder = _home() / f"server-{os.getpid()}-{self.port}"
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
            os.chown(copy, _owner().pw_uid, _owner().pw_gid)
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
        _make_folder(standby.folder)
        primary = f"host=127.0.0.1 port={port or self.port} user={ADMINISTRATOR}"
        await asyncio.to_thread(
            _run,
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
        _make_folder(self.folder)
        copying = ("cp", "--archive", "--reflink=auto", _template(), self.data)
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
                _as_owner("env", *self.variables, postgres, "-D", self.data, *options),
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
