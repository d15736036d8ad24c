"""What no restart of a task can mend ends the daemon, with an error that its command reports."""

from __future__ import annotations

import asyncio
import os
import sys
from pathlib import Path

import pytest
from prometheus_client import CollectorRegistry

from monitor.app.daemon import Addresses, Daemon
from monitor.bus.settings import StorageSettings
from monitor.bus.sqlite.sole_shard import SqliteStore
from monitor.model.clock import Clock, SystemClock
from monitor.model.errors import BusError
from tests.app import fixture
from tests.app.daemon_http import Face


def spoil(folder: Path) -> None:
    """Write nonsense over the store that is in use there, its log and its index of the log."""
    for path in folder.rglob("state.db*"):
        with path.open("r+b") as file:
            size = file.seek(0, 2)
            file.seek(0)
            file.write(b"\xff" * size)


async def test_a_store_that_breaks_ends_the_daemon_with_its_error(tmp_path: Path) -> None:
    """A damaged file is not written again: the daemon drains and raises by itself."""
    daemon = Daemon(
        fixture.configuration(tmp_path, fixture.unreachable("acme")),
        clock=SystemClock(),
        registry=CollectorRegistry(),
    )
    faces: list[Face] = []

    def damage(addresses: Addresses) -> None:
        faces.append(Face(addresses.server_port))
        spoil(tmp_path)

    async def write() -> None:
        # The check of readiness writes a state entry.
        assert (await faces[0].readiness()).status == 503
        await asyncio.Event().wait()

    with pytest.raises(BusError):
        async with asyncio.timeout(30):
            await daemon.run(asyncio.Event(), on_started=damage, beside={"write": write})


async def test_a_stop_over_a_broken_store_still_closes_everything(tmp_path: Path) -> None:
    """Undelivered events cannot be read; the page is closed all the same, and nothing runs."""
    settings = fixture.configuration(
        tmp_path, fixture.unreachable("acme"), broker_url="mqtt://127.0.0.1:9"
    )
    daemon = Daemon(settings, clock=SystemClock(), registry=CollectorRegistry())
    stop = asyncio.Event()
    ports: list[int] = []

    def damage(addresses: Addresses) -> None:
        ports.append(addresses.server_port)
        spoil(tmp_path)
        stop.set()

    async with asyncio.timeout(30):
        await asyncio.gather(daemon.run(stop, on_started=damage), return_exceptions=True)

    assert not await Face(ports[0]).answers()
    left = {task.get_name() for task in asyncio.all_tasks() if task is not asyncio.current_task()}
    assert left == set()


class WaitingStore(SqliteStore):
    """Never gets its first shard, as where a database breaks while a daemon starts."""

    async def await_first_shards(self) -> None:
        await asyncio.Event().wait()


async def test_a_stop_ends_a_start_that_waits(tmp_path: Path) -> None:
    """In order: nothing is left running, and the store is closed."""
    stop = asyncio.Event()

    async def opened(
        settings: StorageSettings, *, clock: Clock, registry: CollectorRegistry, **_: object
    ) -> SqliteStore:
        asyncio.get_running_loop().call_later(0.1, stop.set)
        return await WaitingStore.open(settings, clock=clock, registry=registry)

    daemon = Daemon(
        fixture.configuration(tmp_path, fixture.unreachable("acme")),
        clock=SystemClock(),
        registry=CollectorRegistry(),
        open_store=opened,
    )
    async with asyncio.timeout(15):
        await daemon.run(stop)
    left = {task.get_name() for task in asyncio.all_tasks() if task is not asyncio.current_task()}
    assert left == set()


async def test_a_demo_reports_the_death_of_its_daemon_and_ends(tmp_path: Path) -> None:
    """It does not go on showing a page without a server: one line of error, exit code 1."""
    demo = await asyncio.create_subprocess_exec(
        sys.executable,
        *("-m", "monitor.cli.main", "demo", "--port", "0"),
        env={**os.environ, "TMPDIR": str(tmp_path)},
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    assert demo.stdout is not None
    try:
        async with asyncio.timeout(60):
            while not (await demo.stdout.readline()).startswith(b"page"):
                assert demo.returncode is None
            while b"run.queued" not in await demo.stdout.readline():
                assert demo.returncode is None
            spoil(tmp_path)
            _, received = await demo.communicate()
    finally:
        if demo.returncode is None:
            demo.kill()
            await demo.communicate()

    assert demo.returncode == 1
    assert received.decode().splitlines()[-1].startswith("error: ")
