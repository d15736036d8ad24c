"""Starts the processes of a benchmark, reads their processor time, ends them by their own ids."""

from __future__ import annotations

import asyncio
import contextlib
import os
import sys
import time
from asyncio.subprocess import DEVNULL, PIPE, Process
from collections.abc import AsyncIterator
from pathlib import Path

import msgspec
from msgspec import Struct

from tests.bench.load import Order, Report

# For a machine four times slower than the developers' one, with a busy core.
START_SECONDS = 240.0
END_SECONDS = 120.0
_LOAD_SECONDS = 240.0
# Linux's number of the clock that counts a process's time on processors: `clock_getcpuclockid`.
_SCHEDULER_CLOCK = 2
_PAGE_BYTES = 4096
_SPIN = "while True: pass"


class Served(Struct, frozen=True, kw_only=True):
    """A server that runs in a process of its own."""

    port: int
    process_id: int


def processor_seconds(process_id: int) -> float:
    """Return what a process has used so far, user and system, in all its threads."""
    return time.clock_gettime((~process_id << 3) | _SCHEDULER_CLOCK)


def resident_bytes(process_id: int) -> int:
    """Return the memory that a process occupies."""
    return int(Path(f"/proc/{process_id}/statm").read_text().split()[1]) * _PAGE_BYTES


@contextlib.asynccontextmanager
async def serving(module: str, *arguments: str) -> AsyncIterator[Served]:
    """Run one of this folder's servers, and yield it once it has printed its port."""
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", f"tests.bench.{module}", *arguments, stdout=PIPE
    )
    try:
        assert process.stdout is not None
        async with asyncio.timeout(START_SECONDS):
            port = int(await process.stdout.readline())
        yield Served(port=port, process_id=process.pid)
    finally:
        await ended(process)


async def ended(process: Process) -> None:
    """Ask a process to end, and wait until it has."""
    if process.returncode is None:
        process.terminate()
    async with asyncio.timeout(END_SECONDS):
        await process.wait()


@contextlib.asynccontextmanager
async def busy_core() -> AsyncIterator[None]:
    """Keep one core busy with a process that only spins."""
    process = await asyncio.create_subprocess_exec(sys.executable, "-c", _SPIN, stdin=DEVNULL)
    os.sched_setaffinity(process.pid, {max(os.sched_getaffinity(0))})
    try:
        yield
    finally:
        await ended(process)


async def send_callbacks(order: Order, *, may_refuse: bool = False) -> Report:
    """Send callbacks from a process of their own, so that they share no loop with the server."""
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        "-m",
        "tests.bench.load",
        msgspec.json.encode(order).decode(),
        stdin=DEVNULL,
        stdout=PIPE,
    )
    try:
        async with asyncio.timeout(order.seconds + _LOAD_SECONDS):
            out, _ = await process.communicate()
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
    report = msgspec.json.decode(out, type=Report)
    if report.refused and not may_refuse:
        raise RuntimeError(f"{report.refused} of {report.answered} callbacks were refused")
    return report
