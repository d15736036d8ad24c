"""Lets the engine of a workspace work during a test."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator

from monitor.sandbox.world.records.runs import JobGroup, PlanSnapshotRun
from tests.sandbox.http_workspace import Workspace

PATIENCE_SECONDS = 60


@contextlib.asynccontextmanager
async def at_work(workspace: Workspace) -> AsyncIterator[None]:
    """Let the engine run, by the clock of the test."""
    life = asyncio.create_task(workspace.engine.run())
    try:
        yield
    finally:
        life.cancel()
        await asyncio.wait({life}, timeout=30)


async def until_over(workspace: Workspace, run: JobGroup | PlanSnapshotRun | None) -> None:
    """Let time pass until a run is over."""
    assert run is not None
    async with asyncio.timeout(PATIENCE_SECONDS):
        while not run.status.is_over:
            await workspace.clock.advance(5)
