"""What a service manager receives from the daemon, at a datagram socket like systemd's."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import socket
import sqlite3
import time
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest
from prometheus_client import CollectorRegistry
from structlog.testing import capture_logs

from monitor.app.daemon import Daemon
from monitor.cli.service_manager import ServiceManager
from monitor.model.clock import SystemClock
from tests.app import fixture
from tests.app.eventually import eventually, pause
from tests.app.processes import COMMAND, DaemonProcess, Settings, Watched, daemon_process
from tests.clocks import ManualClock
from tests.servers import free_port

WATCHDOG_SECONDS = 0.8
# The WatchdogSec= of deploy/dataprep-monitor.service.
WATCHDOG_UNIT_SECONDS = 60


class Manager:
    """Receives messages at one address; a name that begins with a zero byte is abstract."""

    def __init__(self, address: str) -> None:
        self.address = address
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self._socket.setblocking(False)
        self._socket.bind(address)
        self._messages: list[dict[str, str]] = []

    @property
    def environment(self) -> dict[str, str]:
        return {"NOTIFY_SOCKET": self.address.replace("\0", "@")}

    def messages(self) -> list[dict[str, str]]:
        """Return every message so far, each as its assignments."""
        with contextlib.suppress(BlockingIOError):
            while True:
                lines = self._socket.recv(65_536).decode().splitlines()
                self._messages.append(dict(line.split("=", 1) for line in lines))
        return self._messages

    def words(self) -> list[str]:
        """Return the first word of every message but the watchdog's, without repetitions."""
        words = [next(iter(message)) for message in self.messages()]
        printed = [word for word in words if word != "WATCHDOG"]
        return [
            word for before, word in zip(["", *printed], printed, strict=False) if word != before
        ]

    def count(self, word: str) -> int:
        return sum(word in message for message in self.messages())

    def status(self) -> str:
        printed = [message["STATUS"] for message in self.messages() if "STATUS" in message]
        return printed[-1] if printed else ""

    def close(self) -> None:
        self._socket.close()

    def vanish(self) -> None:
        """Leave nothing at the path that was listened at."""
        self.close()
        Path(self.address).unlink()


@pytest.fixture(params=["path", "abstract"])
def manager(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Manager]:
    addresses = {"path": str(tmp_path / "notify"), "abstract": f"\0monitor-{os.getpid()}-test"}
    made = Manager(addresses[request.param])
    yield made
    made.close()


@pytest.fixture
def path_manager(tmp_path: Path) -> Iterator[Manager]:
    made = Manager(str(tmp_path / "notify"))
    yield made
    made.close()


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


def client_of(manager: Manager, clock: ManualClock, **more: str) -> ServiceManager:
    """Return the client of a process with the manager's environment."""
    return ServiceManager.of(manager.environment | more, process_id=os.getpid(), clock=clock)


def test_each_step_is_reported_in_the_words_of_the_protocol(
    manager: Manager, clock: ManualClock
) -> None:
    """Start, reload and stop arrive at sockets of both kinds, each with one line of status."""
    ours = client_of(manager, clock)
    ours.started("following acme")
    with ours.reloading():
        ours.change_status("following acme,\nREADY=0 and more")
    ours.stopping()
    assert manager.messages() == [
        {"READY": "1", "STATUS": "following acme"},
        {"RELOADING": "1", "MONOTONIC_USEC": "0", "STATUS": "reading the configuration"},
        {"READY": "1", "STATUS": "following acme, READY=0 and more"},
        {"STOPPING": "1", "STATUS": "delivering events"},
    ]


def test_a_reload_that_fails_is_over_too(path_manager: Manager, clock: ManualClock) -> None:
    """Whatever breaks in it, the manager does not wait for its end forever."""
    ours = client_of(path_manager, clock)
    with pytest.raises(KeyError), ours.reloading():
        raise KeyError
    assert path_manager.words() == ["RELOADING", "READY"]


def test_without_a_manager_nothing_happens(clock: ManualClock) -> None:
    """Started from a shell, the daemon sends nothing and logs no complaint."""
    with capture_logs() as logs:
        ours = ServiceManager.of(
            {"NOTIFY_SOCKET": "", "WATCHDOG_USEC": "1000000"}, process_id=1, clock=clock
        )
        ours.started("following acme")
        ours.stopping()
    assert logs == []
    assert not ours.watches


@pytest.mark.parametrize("address", ["/without/a/listener", "@without-a-listener", "vsock:2:9"])
def test_a_manager_that_is_not_there_is_logged_once(address: str, clock: ManualClock) -> None:
    """However often it is spoken to, it is one warning and no failure."""
    ours = ServiceManager(address, clock=clock)
    with capture_logs() as logs:
        ours.started("following acme")
        ours.stopping()
    assert [log["event"] for log in logs] == ["service manager does not listen"]


def test_a_manager_that_comes_back_is_reported_again(tmp_path: Path, clock: ManualClock) -> None:
    """A socket that vanished and is back receives what is sent from then on."""
    path = tmp_path / "notify"
    first = Manager(str(path))
    ours = client_of(first, clock)
    first.vanish()
    ours.started("following acme")
    second = Manager(str(path))
    ours.stopping()
    assert second.words() == ["STOPPING"]
    second.close()


def test_a_manager_that_reads_nothing_delays_no_start(
    path_manager: Manager, clock: ManualClock
) -> None:
    """With a full queue messages are dropped after a moment, and the daemon continues."""
    ours = client_of(path_manager, clock)
    with capture_logs() as logs:
        # The kernel keeps some tens or hundreds of messages.
        for _ in range(10_000):
            ours.started("following acme")
            if logs:
                break
    assert [log["event"] for log in logs] == ["service manager does not listen"]


@pytest.mark.parametrize(
    ("printed", "watches"),
    [
        ({"WATCHDOG_USEC": "2000000"}, True),
        ({"WATCHDOG_USEC": "2000000", "WATCHDOG_PID": str(os.getpid())}, True),
        ({"WATCHDOG_USEC": "2000000", "WATCHDOG_PID": "1"}, False),
        ({"WATCHDOG_USEC": "0"}, False),
        ({"WATCHDOG_USEC": "soon"}, False),
        ({}, False),
    ],
)
def test_only_a_watchdog_that_is_meant_for_this_process_is_fed(
    path_manager: Manager, clock: ManualClock, printed: dict[str, str], *, watches: bool
) -> None:
    """Another process's watchdog, none, or nonsense in its place starts no watchdog."""
    assert client_of(path_manager, clock, **printed).watches is watches


async def test_the_watchdog_is_fed_at_half_its_time(
    path_manager: Manager, clock: ManualClock
) -> None:
    """At once, and then twice as often as it requires."""
    probes: list[float] = []

    async def probe() -> None:
        probes.append(clock.monotonic())

    ours = client_of(path_manager, clock, WATCHDOG_USEC="20000000")
    feeding = asyncio.create_task(ours.feed(probe))
    await clock.advance(35)
    feeding.cancel()
    assert probes == [0, 10, 20, 30]
    assert path_manager.messages() == [{"WATCHDOG": "1"}] * 4


async def test_a_probe_that_hangs_starves_the_watchdog(
    path_manager: Manager, clock: ManualClock
) -> None:
    """The watchdog is fed only while the store answers; log and status show the reason once."""
    store_answers = asyncio.Event()
    ours = client_of(path_manager, clock, WATCHDOG_USEC="40000")
    ours.started("following acme")

    async def probe() -> None:
        await store_answers.wait()

    with capture_logs() as logs:
        feeding = asyncio.create_task(ours.feed(probe))
        await eventually(lambda: bool(logs), why="the silence was not noticed")
        await clock.advance(0.02)
        assert path_manager.status() == "the store does not answer"
        assert path_manager.count("WATCHDOG") == 0
        store_answers.set()

        async def is_fed() -> bool:
            await clock.advance(0.02)
            return path_manager.count("WATCHDOG") > 0

        await eventually(is_fed, why="it was not fed again")
        feeding.cancel()
    assert len(logs) == 1
    assert path_manager.status() == "following acme"


@contextlib.asynccontextmanager
async def managed(manager: Manager, folder: Path) -> AsyncIterator[DaemonProcess]:
    """Run a daemon as the manager's service, with a watchdog; its workspace does not answer."""
    settings = Settings(folder, Watched("acme", f"http://127.0.0.1:{free_port()}", "a token"))
    watchdog = {"WATCHDOG_USEC": str(int(WATCHDOG_SECONDS * 1_000_000))}
    async with daemon_process(settings, environment=manager.environment | watchdog) as daemon:
        await eventually(lambda: manager.words() == ["READY"], why=lambda: daemon.log)
        yield daemon


async def test_the_daemon_reports_its_start_its_reloads_and_its_end(
    manager: Manager, tmp_path: Path
) -> None:
    """A good reload, a refused one and a stop: each in its order, ready only when it serves.

    The good one writes the log in another form from then on.
    """
    async with managed(manager, tmp_path) as daemon:
        assert await daemon.face.answers()
        assert manager.status() == "following acme"
        acme = daemon.settings.workspaces[0]

        daemon.settings.write(acme, Watched("beta", acme.url, "another token"))
        with daemon.settings.path.open("a") as file:
            file.write('\n[log]\nform = "console"\n')
        daemon.send_signal(signal.SIGHUP)
        await eventually(lambda: len(manager.words()) == 3, why=manager.words)
        assert manager.status() == "following acme, beta"

        daemon.settings.path.write_text("nonsense = true")
        daemon.send_signal(signal.SIGHUP)
        await eventually(lambda: len(manager.words()) == 5, why=manager.words)
        assert "was refused" in manager.status()
        (refused,) = [line for line in daemon.log.splitlines() if "configuration refused" in line]
        assert not refused.startswith("{"), "the other form of lines waits for a restart"
        printed = (await daemon.face.json("/api/v1/workspaces"))["data"]
        assert [message["workspace"] for message in printed] == ["acme", "beta"]

        assert await daemon.end() == 0
    steps = ["READY", "RELOADING", "READY", "RELOADING", "READY", "STOPPING"]
    assert manager.words() == steps
    begun = [
        int(message["MONOTONIC_USEC"]) for message in manager.messages() if "RELOADING" in message
    ]
    assert 0 < begun[0] < begun[1] <= time.monotonic_ns() // 1_000


async def test_a_daemon_that_stands_still_feeds_no_watchdog(
    path_manager: Manager, tmp_path: Path
) -> None:
    """Fed while it runs; silent for the whole time of the watchdog while its process is frozen."""
    async with managed(path_manager, tmp_path) as daemon:
        await eventually(lambda: path_manager.count("WATCHDOG") >= 3, why=path_manager.messages)
        os.kill(daemon.process_id, signal.SIGSTOP)
        await pause(WATCHDOG_SECONDS / 4)
        before = path_manager.count("WATCHDOG")
        await pause(WATCHDOG_SECONDS)
        assert path_manager.count("WATCHDOG") == before
        os.kill(daemon.process_id, signal.SIGCONT)
        await eventually(lambda: path_manager.count("WATCHDOG") > before, why=path_manager.messages)


async def test_a_manager_that_goes_away_costs_the_daemon_nothing(
    path_manager: Manager, tmp_path: Path
) -> None:
    """One warning in the log, and the daemon serves on and stops in order."""
    words = "service manager does not listen"
    async with managed(path_manager, tmp_path) as daemon:
        path_manager.vanish()
        await eventually(lambda: words in daemon.log, why=lambda: daemon.log)
        await pause(WATCHDOG_SECONDS)
        assert await daemon.face.answers()
        assert await daemon.end() == 0
        assert daemon.log.count(words) == 1


async def test_a_daemon_that_cannot_start_is_never_ready(
    path_manager: Manager, tmp_path: Path
) -> None:
    """With its port in use, the manager gets an end and no start."""
    settings = Settings(tmp_path, Watched("acme", "http://127.0.0.1:9", "a token"))
    with socket.create_server(("127.0.0.1", settings.port)):
        daemon = await asyncio.create_subprocess_exec(
            *(*COMMAND, "run", "-c", str(settings.path)),
            env={**os.environ, **path_manager.environment},
            stderr=asyncio.subprocess.PIPE,
        )
        async with asyncio.timeout(30):
            await daemon.communicate()
    assert daemon.returncode == 2
    assert path_manager.words() == ["STOPPING"]


async def test_a_store_that_is_locked_answers_the_probe(tmp_path: Path) -> None:
    """A refusal is an answer, as no new start mends it: the daemon is not to be killed for it."""
    settings = fixture.configuration(tmp_path, fixture.unreachable("acme"))
    daemon = Daemon(settings, clock=SystemClock(), registry=CollectorRegistry())
    stop = asyncio.Event()
    seconds: list[float] = []

    async def measure_probe() -> None:
        began = time.monotonic()
        with contextlib.closing(sqlite3.connect(tmp_path / "state.db")) as other:
            other.execute("BEGIN IMMEDIATE")
            await daemon.probe()
        seconds.append(time.monotonic() - began)
        stop.set()
        await asyncio.Event().wait()

    async with asyncio.timeout(30):
        await daemon.run(stop, beside={"probe": measure_probe})
    # What the watchdog of the unit leaves for a probe.
    assert seconds[0] < WATCHDOG_UNIT_SECONDS / 4
