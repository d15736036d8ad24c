"""Broker, disk and file fail under a running daemon: it refuses, then catches up by itself."""

from __future__ import annotations

import asyncio
import contextlib
import sqlite3
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, closing
from pathlib import Path

import pytest

from tests.app.eventually import eventually, pause
from tests.crash.conftest import ReportCounts
from tests.crash.disks import Disk, limited_file_size, small_file_system
from tests.crash.scenario import scenario

CALLBACKS = 300


async def test_the_broker_goes_and_comes_in_a_burst(
    tmp_path: Path, seed: int, report_counts: ReportCounts
) -> None:
    """Stopped twice, once while the daemon is killed too: the subscriber misses nothing."""
    async with scenario(tmp_path, seed=seed) as crash:
        job_groups = crash.start_job_groups(CALLBACKS, work_seconds=(1, 5))
        await pause(crash.chance.uniform(0.5, 1.5))
        await crash.broker.stop()
        await crash.kill()
        await crash.broker.start()
        await crash.until_ended()
        sending = asyncio.create_task(
            crash.sender.send((str(run.id), str(run.status)) for run in job_groups)
        )
        await crash.until_acknowledged(crash.chance.randrange(1, CALLBACKS))
        await crash.broker.stop()
        await sending
        await crash.broker.start()
        events = await crash.check()
        report_counts(
            "broker away",
            seed=seed,
            acknowledged=CALLBACKS,
            events=events,
            kills=crash.kills,
            lost=crash.lost,
            outages=2,
        )


@pytest.mark.parametrize(
    "disk_of", [small_file_system, pytest.param(limited_file_size, marks=pytest.mark.soak)]
)
async def test_a_disk_that_is_full_for_a_while(
    tmp_path: Path,
    seed: int,
    report_counts: ReportCounts,
    disk_of: Callable[[Path], contextlib.AbstractContextManager[Disk]],
) -> None:
    """Callbacks are refused while there is no room, and everything is reported when there is."""
    with disk_of(tmp_path) as disk:
        async with scenario(tmp_path, seed=seed, store=disk.path) as crash:
            job_groups = crash.start_job_groups(CALLBACKS, work_seconds=(2, 4))
            await crash.until_received("started", job_groups)
            disk.fill(crash.daemon.process_id)
            await crash.until_ended()
            sending = asyncio.create_task(
                crash.sender.send((str(run.id), str(run.status)) for run in job_groups)
            )
            await eventually(lambda: crash.sender.refused["503"] > 0, why="the disk was never full")
            # Also where the probe of the store fits into what little room there is.
            assert await crash.reports_that_the_store_fails()
            disk.free(crash.daemon.process_id)
            await sending
            refused = crash.sender.refused.total()
            events = await crash.check()
            report_counts(
                f"disk full ({disk_of.__name__.replace('_', ' ')})",
                seed=seed,
                acknowledged=CALLBACKS,
                refused=refused,
                events=events,
                kills=crash.kills,
                lost=crash.lost,
            )


async def test_a_file_that_is_locked_for_a_while(
    tmp_path: Path, seed: int, report_counts: ReportCounts
) -> None:
    """Another program holds a write lock, longer than a callback waits, twice; one kill between."""
    async with scenario(tmp_path, seed=seed) as crash:
        job_groups = crash.start_job_groups(CALLBACKS, work_seconds=(1, 4))
        async with locked(crash.store):
            await eventually(crash.reports_that_the_store_fails, why=lambda: crash.daemon.log)
        await crash.until_ended()
        callbacks = [(str(run.id), str(run.status)) for run in job_groups]
        sending = asyncio.create_task(crash.sender.send(callbacks[: CALLBACKS // 2]))
        await crash.until_acknowledged(crash.chance.randrange(1, CALLBACKS // 2))
        await crash.kill()
        async with locked(crash.store):  # before the rest is sent, however fast the machine is
            remaining = asyncio.create_task(crash.sender.send(callbacks[CALLBACKS // 2 :]))
            await eventually(lambda: crash.sender.refused["503"] > 0, why="nothing was refused")
            await eventually(crash.reports_that_the_store_fails, why=lambda: crash.daemon.log)
        await asyncio.gather(sending, remaining)
        refused = crash.sender.refused.total()
        events = await crash.check()
        report_counts(
            "file locked",
            seed=seed,
            acknowledged=CALLBACKS,
            refused=refused,
            events=events,
            kills=crash.kills,
            lost=crash.lost,
        )


@asynccontextmanager
async def locked(store: Path) -> AsyncIterator[None]:
    """Hold the store's file as another writer would."""
    with closing(sqlite3.connect(store, isolation_level=None, timeout=10)) as other:
        other.execute("BEGIN IMMEDIATE")
        yield
        other.execute("COMMIT")
