"""Starts the processes of a benchmark and ends them by their own ids."""

from __future__ import annotations

import asyncio
import contextlib
import sys
from asyncio.subprocess import DEVNULL, PIPE
from collections.abc import AsyncIterator

import msgspec

from tests.bench.load import Order, Report

_START_SECONDS = 30.0
_END_SECONDS = 30.0
_LOAD_SECONDS = 60.0


@contextlib.asynccontextmanager
async def serving(module: str, *arguments: str) -> AsyncIterator[int]:
    """Run one of this folder's servers, and yield the port that it prints."""
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", f"tests.bench.{module}", *arguments, stdout=PIPE
    )
    try:
        assert process.stdout is not None
        async with asyncio.timeout(_START_SECONDS):
            port = int(await process.stdout.readline())
        yield port
    finally:
        if process.returncode is None:
            process.terminate()
        async with asyncio.timeout(_END_SECONDS):
            await process.wait()


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
